"""The declared orchestrations and activities, by name and version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.orchestration.runaways import Runaways

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.orchestration.definitions import Activity, Orchestration


#: Names the version that was declared last.
LATEST = "latest"


class Registry:
    """The declarations of one app, or of all apps of a server together."""

    def __init__(self) -> None:
        #: Versions in the order of declaration: a start without a version uses the last.
        self._orchestrations: dict[str, dict[str, Orchestration]] = {}
        self._activities: dict[str, Activity] = {}
        self._schedules: dict[str, dict[str, Any]] = {}
        #: Orchestrations whose code did not yield in this process.
        self.runaways = Runaways()

    @classmethod
    def of(cls, registries: Iterable[Registry]) -> Registry:
        """Merges registries. Raises ValueError when two declare the same name and version."""
        merged = cls()
        for registry in registries:
            for orchestration in registry.orchestrations:
                merged.add_orchestration(orchestration)
            for activity in registry.activities:
                merged.add_activity(activity)
            for schedule in registry.schedules:
                merged.add_schedule(schedule)
        return merged

    @property
    def orchestrations(self) -> list[Orchestration]:
        return [orchestration for versions in self._orchestrations.values() for orchestration in versions.values()]

    @property
    def activities(self) -> list[Activity]:
        return list(self._activities.values())

    @property
    def schedules(self) -> list[dict[str, Any]]:
        """The declared schedules, as requests to schedules of the same name as their orchestration."""
        return list(self._schedules.values())

    def add_schedule(self, schedule: dict[str, Any]) -> None:
        name = schedule["orchestration"]
        if self._schedules.setdefault(name, schedule) is not schedule:
            raise ValueError(f"two schedules are declared for the orchestration {name}")

    def add_orchestration(self, orchestration: Orchestration) -> None:
        if orchestration.version == LATEST:
            raise ValueError(
                f"{orchestration.name}: no version may be called {LATEST}, the name of the last one declared"
            )
        versions = self._orchestrations.setdefault(orchestration.name, {})
        known = versions.setdefault(orchestration.version, orchestration)
        if known is not orchestration:
            raise ValueError(
                f"two orchestrations are called {orchestration.name}, version {orchestration.version}: "
                f"{known.function} and {orchestration.function}"
            )

    def add_activity(self, activity: Activity) -> None:
        known = self._activities.setdefault(activity.name, activity)
        if known is not activity:
            raise ValueError(f"two activities are called {activity.name}: {known.function} and {activity.function}")

    def has_orchestration(self, name: str) -> bool:
        """Returns whether any version of an orchestration is declared."""
        return name in self._orchestrations

    def orchestration(self, name: str, version: str | None = None) -> Orchestration:
        """Returns an orchestration; without a version, or for ``latest``, the one declared last.

        Raises UnknownOrchestration.
        """
        from holdfast.errors import UnknownOrchestration

        versions = self._orchestrations.get(name)
        if versions is None:
            raise UnknownOrchestration(f"No orchestration is called {name}.")
        if version is None or version == LATEST:
            return next(reversed(versions.values()))
        if version not in versions:
            known = ", ".join(versions)
            raise UnknownOrchestration(f"The orchestration {name} has no version {version}; it has {known}.")
        return versions[version]

    def check_start(self, name: str, version: str | None, text: str) -> Orchestration:
        """Returns the orchestration to start. Raises UnknownOrchestration, or InvalidRequest for an invalid input."""
        orchestration = self.orchestration(name, version)
        orchestration.input.check(text, "input")
        return orchestration

    def may_have_record(self, name: str) -> bool:
        """Returns whether calls of this activity may have idempotency records: not if it is declared without."""
        activity = self.activity(name)
        return activity is None or activity.idempotent

    def activity(self, name: str) -> Activity | None:
        return self._activities.get(name)
