"""Read the policies of cluster files from plain JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import time
from decimal import Decimal
from typing import Any

from planner.cluster.policy import (
    DAYS,
    EACH,
    AgentLimit,
    ApplicationQuota,
    CapacityOverTime,
    DisplacementRule,
    Policy,
    Quota,
    RequestLimits,
    Scope,
)
from planner.files.value_reader import JsonValueReader
from rdl.errors import did_you_mean
from rdl.resources import canonical_resource
from rdl.time_grid import duration_text


class PolicyReader:
    """Reads well-formed policies.

    Parameters
    ----------
    values
        Reads the values, and collects the problems.
    step_ms
        Length of the cluster's step.
    """

    def __init__(self, values: JsonValueReader, step_ms: int) -> None:
        self._values = values
        self._step_ms = step_ms

    def policies(
        self, entries: Sequence[Mapping[str, Any]], queues: AbstractSet[str]
    ) -> tuple[Policy, ...]:
        """Return the policies of the ``policies`` of a document with these queues."""
        known = sorted(queues)
        for index, entry in enumerate(entries):
            name = Scope(queue=entry.get("queue")).queue
            if name is not None and name not in (EACH, *queues):  # it would limit nothing, silently
                fix = did_you_mean(name, known)
                self._values.note(f"/policies/{index}/queue", f"there is no queue {name!r}", fix)
        found = tuple(self._policy(index, entry) for index, entry in enumerate(entries))
        self._check_cohorts(found)
        return found

    def _check_cohorts(self, policies: Sequence[Policy]) -> None:
        """Report members of a cohort with different lending times, or that count the same use."""
        first: dict[str, Quota] = {}
        scopes: set[tuple[str, Scope]] = set()
        for index, policy in enumerate(policies):
            if not isinstance(policy, Quota) or policy.cohort is None:
                continue
            at, name = f"/policies/{index}", policy.cohort
            other = first.setdefault(name, policy)
            if any(one.name == f"cohort {name}" for one in policies):
                self._values.note(
                    at, f"'cohort {name}' is no name of a policy", "name it otherwise"
                )
            if other.lend_ms != policy.lend_ms:
                told = (
                    f"cohort {name!r} lends {duration_text(other.lend_ms)} ahead by {other.name!r}"
                )
                self._values.note(f"{at}/lend", told, "write the same for each of its quotas")
            if (other.scope.tenant is None) != (policy.scope.tenant is None):
                told = f"cohort {name!r} is of tenants or of queues, not of both"
                self._values.note(at, told, f"write it as {other.name!r} has it")
            if (name, policy.scope) in scopes:
                self._values.note(at, f"its tenant or queue is in cohort {name!r} already")
            scopes.add((name, policy.scope))

    def _policy(self, index: int, entry: Mapping[str, Any]) -> Policy:
        at = f"/policies/{index}"
        name = entry.get("name", f"{entry['type']}-{index}")
        scope = Scope(entry.get("tenant"), entry.get("queue"))
        match entry["type"]:
            case "capacity_over_time":
                return self._capacity_over_time(at, entry, name, scope)
            case "quota":
                return self._quota(at, entry, name, scope)
            case "applications":
                return self._applications(at, entry, name, scope)
            case "agent":
                return self._agent(at, entry, name)
            case "displacement":
                return DisplacementRule(name, scope, entry.get("running", False))
            case _:
                longest, least, most = (
                    self._values.duration(f"{at}/{key}", entry[key]) if key in entry else None
                    for key in ("max_window", "min_lead", "max_lead")
                )
                count, priority = entry.get("max_count"), entry.get("max_priority")
                return RequestLimits(name, scope, longest, least, most, count, priority)

    def _capacity_over_time(
        self, at: str, entry: Mapping[str, Any], name: str, scope: Scope
    ) -> CapacityOverTime:
        average, window = entry.get("average"), entry.get("window")
        if (average is None) != (window is None):
            self._values.note(at, "an average and its window come together")
        if average is None and "instant" not in entry:
            self._values.note(at, "neither instant nor average is given, so nothing is limited")
        window_ms = None if window is None else self._values.duration(f"{at}/window", window)
        step = self._step_ms
        if window_ms is not None and (window_ms < step or window_ms % step):
            message = f"the window {duration_text(window_ms)} is not a multiple of the step"
            self._values.note(f"{at}/window", message, f"a step is {duration_text(step)}")
        return CapacityOverTime(
            name, scope, _share(entry.get("instant")), _share(average), window_ms
        )

    def _quota(self, at: str, entry: Mapping[str, Any], name: str, scope: Scope) -> Quota:
        limit = self._limit(f"{at}/limit", entry["limit"]) if "limit" in entry else ()
        if ("from" in entry) != ("to" in entry):
            self._values.note(at, "from and to come together")
        zone = self._values.zone(f"{at}/zone", entry.get("zone", "UTC"))
        start, end = (
            time.fromisoformat(entry[key]) if key in entry else None for key in ("from", "to")
        )
        days = frozenset(DAYS.index(day) for day in entry.get("days", ()))
        lending = self._lending(at, entry, scope, dict(limit))
        return Quota(name, scope, limit, start, end, days, zone, *lending)

    def _lending(
        self, at: str, entry: Mapping[str, Any], scope: Scope, limit: Mapping[str, int]
    ) -> tuple[tuple[tuple[str, int], ...], str | None, int]:
        """Return the guarantee of a quota, its cohort, and how long ahead it lends."""
        note = self._values.note
        keys = [key for key in ("guarantee", "cohort", "lend") if key in entry]
        if not keys:
            if "limit" not in entry:
                note(at, "'limit' is missing", "write limit, or guarantee, cohort and lend")
            return (), None, 0
        if len(keys) < 3:
            note(at, "guarantee, cohort and lend come together")
            return (), None, 0
        named = [one for one in (scope.tenant, scope.queue) if one is not None]
        if len(named) != 1 or EACH in named:
            note(at, "a quota that lends is of one tenant or of one queue", 'write tenant = "ads"')
        timed = [key for key in ("from", "to", "days", "zone") if key in entry]
        if timed:
            note(f"{at}/{timed[0]}", "a quota that lends applies at all times", "leave it out")
        guarantee = self._limit(f"{at}/guarantee", entry["guarantee"])
        for resource, amount in guarantee:
            if amount > limit.get(resource, amount):
                note(f"{at}/limit/{resource}", "the limit is below the guarantee")
        return guarantee, entry["cohort"], self._values.duration(f"{at}/lend", entry["lend"])

    def _applications(
        self, at: str, entry: Mapping[str, Any], name: str, scope: Scope
    ) -> ApplicationQuota:
        limit = self._limit(f"{at}/limit", entry["limit"]) if "limit" in entry else ()
        count = entry.get("max_count")
        longest = None
        if "max_run" in entry:
            longest = self._values.duration(f"{at}/max_run", entry["max_run"])
            if longest < 1:
                self._values.note(f"{at}/max_run", "a run must be longer than nothing")
        if not limit and count is None and longest is None:
            fix = "give a limit, max_count or max_run"
            self._values.note(at, "no limit is given, so nothing is limited", fix)
        return ApplicationQuota(name, scope, limit, None if count is None else int(count), longest)

    def _agent(self, at: str, entry: Mapping[str, Any], name: str) -> AgentLimit:
        limit = self._limit(f"{at}/limit", entry["limit"]) if "limit" in entry else ()
        share, count = _share(entry.get("instant")), entry.get("max_count")
        if not limit and share is None and count is None:
            fix = "give instant, a limit or max_count"
            self._values.note(at, "no limit is given, so nothing is limited", fix)
        return AgentLimit(name, entry["agent"], Scope(), share, limit, count)

    def _limit(self, pointer: str, raw: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
        """Return the amounts of a quota, zeros included, since they forbid a resource."""
        before = self._values.problems.total
        amounts = self._values.amounts(pointer, raw, round_up=False)
        if self._values.problems.total > before:
            return ()
        return tuple((name, amounts.get(name, 0)) for name in sorted(map(canonical_resource, raw)))


def _share(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(repr(value))
