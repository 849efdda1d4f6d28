"""Quotas per tenant: ``[tenants.acme]`` in ``holdfast.toml``, and ``[tenants."*"]`` for all others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import InvalidRequest, SettingsError
from holdfast.names import check_tenant
from holdfast.pushpop.api.requests import explain

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The table for tenants without one of their own.
OTHERS = "*"


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of one tenant; None means unlimited."""

    max_queues: int | None = None
    #: Waiting, delayed and locked items in all queues together.
    max_items: int | None = None
    #: Bytes of these items.
    max_bytes: int | None = None
    #: Bytes of the idempotency records that have not expired.
    max_idempotency_bytes: int | None = None
    #: Instances of orchestrations, ended ones included.
    max_instances: int | None = None
    max_schedules: int | None = None
    requests_per_second: float | None = None

    @property
    def limits_queues(self) -> bool:
        return not (self.max_queues is None and self.max_items is None and self.max_bytes is None)


_UNLIMITED = Quota()


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of all tenants."""

    by_tenant: Mapping[str, Quota] = field(default_factory=dict)
    others: Quota = _UNLIMITED

    def of(self, tenant: str) -> Quota:
        return self.by_tenant.get(tenant, self.others)

    @property
    def limit_requests(self) -> bool:
        """Whether any tenant has a rate limit."""
        return any(quota.requests_per_second is not None for quota in (*self.by_tenant.values(), self.others))

    @property
    def limit_storage(self) -> bool:
        """Whether any tenant has a quota of queues, items or bytes."""
        return any(quota.limits_queues for quota in (*self.by_tenant.values(), self.others))

    @property
    def limit_idempotency(self) -> bool:
        """Whether any tenant has a quota of idempotency records."""
        return any(quota.max_idempotency_bytes is not None for quota in (*self.by_tenant.values(), self.others))

    @classmethod
    def read(cls, tables: Mapping[str, Any]) -> Self:
        """Reads quotas from tables by tenant. Raises SettingsError for an invalid one."""
        read = {tenant: _read(tenant, table) for tenant, table in tables.items()}
        others = read.pop(OTHERS, _UNLIMITED)
        return cls(read, others)


NO_QUOTAS = Quotas()


_Number = Annotated[int | None, Field(ge=0, le=2**53)]


class QuotaTable(BaseModel):
    """A table ``[tenants.NAME]`` of the settings file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    max_queues: Annotated[_Number, Field(description="Queues.")] = None
    max_items: Annotated[_Number, Field(description="Waiting, delayed and locked items in all queues together.")] = None
    max_bytes: Annotated[_Number, Field(description="Bytes of these items.")] = None
    max_idempotency_bytes: Annotated[
        _Number, Field(description="Bytes of the idempotency records that have not expired.")
    ] = None
    max_instances: Annotated[_Number, Field(description="Instances of orchestrations, ended ones included.")] = None
    max_schedules: Annotated[_Number, Field(description="Schedules.")] = None
    requests_per_second: Annotated[
        float | None, Field(gt=0, le=1e9, allow_inf_nan=False, description="Requests per second.")
    ] = None


def _read(tenant: str, table: Any) -> Quota:
    try:
        if tenant != OTHERS:
            check_tenant(tenant)
        values = {key.replace("-", "_"): value for key, value in dict(table).items()}
        return Quota(**QuotaTable.model_validate(values).model_dump())
    except ValidationError as error:
        raise SettingsError(f"tenants.{tenant}: {explain(error)}") from error
    except InvalidRequest as error:
        raise SettingsError(f"tenants: {error}") from error
    except (TypeError, ValueError) as error:
        raise SettingsError(f"tenants.{tenant}: must be a table with keys such as max_queues and max_items.") from error
