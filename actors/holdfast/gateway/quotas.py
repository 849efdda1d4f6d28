"""How much each tenant may have: ``[tenants.acme]`` in ``holdfast.toml``, and ``[tenants."*"]`` for the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import InvalidRequest, SettingsError
from holdfast.identity import check_tenant
from holdfast.pushpop.requests import explain

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Who is meant that has no table of its own.
OTHERS = "*"


@dataclass(frozen=True, slots=True)
class Quota:
    """Of one tenant; None where it may have as much as it likes."""

    max_queues: int | None = None
    #: Those that wait, are delayed, or locked, in all its queues.
    max_items: int | None = None
    requests_per_second: float | None = None


_UNLIMITED = Quota()


@dataclass(frozen=True, slots=True)
class Quotas:
    """Of all tenants."""

    by_tenant: Mapping[str, Quota] = field(default_factory=dict)
    others: Quota = _UNLIMITED

    def of(self, tenant: str) -> Quota:
        return self.by_tenant.get(tenant, self.others)

    @property
    def limit_requests(self) -> bool:
        """Whether any tenant may send only so many."""
        return any(quota.requests_per_second is not None for quota in (*self.by_tenant.values(), self.others))

    @property
    def limit_storage(self) -> bool:
        """Whether any tenant may have only so many queues, or items."""
        every = (*self.by_tenant.values(), self.others)
        return any(quota.max_queues is not None or quota.max_items is not None for quota in every)

    @classmethod
    def read(cls, tables: Mapping[str, Any]) -> Self:
        """From tables by tenant. Raises SettingsError, in a sentence, for what is no quota."""
        read = {tenant: _read(tenant, table) for tenant, table in tables.items()}
        others = read.pop(OTHERS, _UNLIMITED)
        return cls(read, others)


NO_QUOTAS = Quotas()


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    max_queues: Annotated[int | None, Field(ge=0, le=2**53)] = None
    max_items: Annotated[int | None, Field(ge=0, le=2**53)] = None
    requests_per_second: Annotated[float | None, Field(gt=0, le=1e9, allow_inf_nan=False)] = None


def _read(tenant: str, table: Any) -> Quota:
    try:
        if tenant != OTHERS:
            check_tenant(tenant)
        values = {key.replace("-", "_"): value for key, value in dict(table).items()}
        return Quota(**_Table.model_validate(values).model_dump())
    except ValidationError as error:
        raise SettingsError(f"tenants.{tenant}: {explain(error)}") from error
    except InvalidRequest as error:
        raise SettingsError(f"tenants: {error}") from error
    except (TypeError, ValueError) as error:
        raise SettingsError(f"tenants.{tenant}: this is a table, with max_queues, max_items and so on.") from error
