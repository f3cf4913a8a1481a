"""QuotaBook: applies quotas on applications to executions without cover, and their run time limits.

Core components count from the instant at which an execution is admitted to the queue, so that two
waiting executions are never admitted to the same capacity. Running core components are not revoked;
elastic components are. Covered components do not count: quotas on reservations apply to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dispatch.applications.application import Application
from dispatch.entitlements.follower import STOP_GRACE_MS
from dispatch.executions.execution import UNLIMITED, Execution
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool, Vector
from planner.cluster.policy import ApplicationQuota
from rdl.resources import format_amount
from rdl.time_grid import duration_text

_NO_MORE: Final = "{} lets no more of it run without a reservation"


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The use of one quota by applications.

    Attributes
    ----------
    policy
        Name of the quota.
    tenant, queue
        The account; None counts all of them together.
    used
        Amounts of the resources that it limits, in their smallest units: core components that run
        or are admitted to the queue, and elastic ones that may run.
    """

    policy: str
    tenant: str | None
    queue: str | None
    used: dict[str, int]


@dataclass(slots=True)
class _QuotaAccount:
    """Amounts that one quota leaves to the executions it counts together.

    Attributes
    ----------
    quota, tenant, queue
        The policy, and the accounts that it counts; None counts all of them together.
    whole, left
        Limit and remaining amount, by index of the resource in the pool's order.
    first
        The first execution that did not fit; later ones wait behind it.
    """

    quota: ApplicationQuota
    tenant: str | None
    queue: str | None
    whole: dict[int, int]
    left: dict[int, int]
    first: Execution | None = None

    def lacks(self, amounts: Vector) -> int | None:
        """Return the index of a resource of which less is left than requested, or None."""
        for kind, left in self.left.items():
            if amounts[kind] > 0 and amounts[kind] > left:
                return kind
        return None

    def use(self, resources: Sequence[str]) -> QuotaUse:
        """Return its use."""
        used = {resources[kind]: most - self.left[kind] for kind, most in self.whole.items()}
        return QuotaUse(self.quota.name, self.tenant, self.queue, used)

    def holds(self, amounts: Vector) -> bool:
        """Return whether amounts fit into the whole quota."""
        return all(amounts[kind] <= most for kind, most in self.whole.items() if amounts[kind])

    def count_room(self, amounts: Vector, wanted: int) -> int:
        """Return how many of `wanted` equal components fit."""
        for kind, left in self.left.items():
            if amounts[kind] > 0:
                wanted = min(wanted, left // amounts[kind])
        return max(wanted, 0)

    def take(self, amounts: Vector, count: int = 1) -> None:
        """Take `count` times the amounts."""
        for kind in self.left:
            self.left[kind] -= count * amounts[kind]


class _QuotaAccounts:
    """The accounts of all quotas, opened on first use."""

    def __init__(self, quotas: Sequence[ApplicationQuota], pool: MachinePool) -> None:
        self._quotas = quotas
        self._kinds = pool.resources
        self._accounts: dict[tuple[object, ...], _QuotaAccount] = {}
        self._of_scope: dict[tuple[str, str], list[_QuotaAccount]] = {}

    def of(self, execution: Execution) -> list[_QuotaAccount]:
        """Return the accounts in which an execution counts."""
        scope = (execution.tenant, execution.queue)
        found = self._of_scope.get(scope)
        if found is None:
            found = self._of_scope[scope] = list(self._open(*scope))
        return found

    def _open(self, tenant: str, queue: str) -> Iterator[_QuotaAccount]:
        for number, quota in enumerate(self._quotas):
            key = quota.scope.key(tenant, queue)
            if key is None:
                continue
            account = self._accounts.get((number, *key))
            if account is None:
                whole = {
                    self._kinds.index(name): amount
                    for name, amount in quota.limit
                    if name in self._kinds
                }
                account = _QuotaAccount(quota, *key, whole, dict(whole))
                self._accounts[number, *key] = account
            yield account

    def use(self) -> list[QuotaUse]:
        """Return the use of each quota, by account."""
        return [account.use(self._kinds) for account in self._accounts.values()]


class QuotaBook:
    """Shares quotas among executions without cover.

    Parameters
    ----------
    pool
        Defines the order of amounts.
    quotas
        The quotas on applications.
    rank
        Rank of an execution among those that a quota counts together; ties by age.

    Attributes
    ----------
    held_back
        Executions that a quota holds back, each with the reason.
    use
        Use after the last `share`, by account.
    """

    def __init__(
        self,
        pool: MachinePool,
        quotas: Sequence[ApplicationQuota],
        rank: Callable[[Application], int],
    ) -> None:
        self.held_back: dict[Execution, str] = {}
        self.use: list[QuotaUse] = []
        self._pool = pool
        self._limits = [one for one in quotas if one.limit]
        self._runs = [one for one in quotas if one.max_run_ms is not None]
        self._rank = rank
        self._told: dict[Execution, int] = {}  # when each was warned that it will be stopped

    @property
    def limits_use(self) -> bool:
        """Whether any quota limits amounts."""
        return bool(self._limits)

    def leaves_alone(self, execution: Execution) -> bool:
        """Return whether no quota limits the amounts of an execution."""
        scope = execution.tenant, execution.queue
        return all(quota.scope.key(*scope) is None for quota in self._limits)

    def share(self, standing: Iterable[Execution], covered: Iterable[Execution]) -> set[Execution]:
        """Admit executions to the queue, and set each one's number of elastic components.

        Parameters
        ----------
        standing
            Executions without cover that run or could be served.
        covered
            Executions with cover, which may have more elastic components than covered.

        Returns
        -------
        changed
            Executions that may run more or fewer elastic components than before.
        """
        accounts = _QuotaAccounts(self._limits, self._pool)
        ordered = sorted(standing, key=self._place)
        self.held_back = {}
        for execution in ordered:
            if execution.started_ms is not None:
                for account in accounts.of(execution):
                    account.take(execution.core)
        let_in = [one for one in ordered if self._let_in(accounts, one)]
        changed: set[Execution] = set()
        for execution in sorted([*let_in, *covered], key=self._place):
            if _allow(accounts.of(execution), execution):
                changed.add(execution)
        self.use = accounts.use()
        return changed

    def stop_overdue(
        self,
        table: ExecutionTable,
        serving: Iterable[Execution],
        now_ms: int,
        spared: Callable[[Execution], bool],
    ) -> bool:
        """End the executions that have run without cover for longer than a quota allows.

        They are warned first, and stopped after the grace period. Those in `spared` are about to be
        covered. Returns whether any was stopped.
        """
        told, self._told = self._told, {}
        stopped = False
        for execution in list(serving) if self._runs else ():
            quota = self._overrun(execution, now_ms)
            if quota is None or spared(execution):
                continue
            longest = duration_text(quota.max_run_ms or 0)
            reason = f"it has run for the {longest} that policy {quota.name!r} allows"
            since_ms = told.pop(execution, now_ms)
            if now_ms - since_ms >= STOP_GRACE_MS:
                table.kill(execution.id, now_ms, reason)
                stopped = True
            else:
                self._told[execution] = since_ms
                execution.reason = f"it is stopped in a moment: {reason}"
                table.note(execution)
        for execution in told:
            if not execution.is_over:
                execution.reason = ""
                table.note(execution)
        return stopped

    def _overrun(self, execution: Execution, now_ms: int) -> ApplicationQuota | None:
        """Return the shortest run-time quota that an execution has exceeded, or None."""
        if execution.started_ms is None or execution.is_over:
            return None
        if any(part.covered for part in execution.parts):
            return None
        quota = self._shortest(execution)
        since_ms = max(execution.started_ms, execution.uncovered_ms or 0)
        over = quota is not None and now_ms - since_ms >= (quota.max_run_ms or 0)
        return quota if over else None

    def _shortest(self, execution: Execution) -> ApplicationQuota | None:
        mine = [
            one
            for one in self._runs
            if one.scope.key(execution.tenant, execution.queue) is not None
        ]
        return min(mine, key=lambda one: one.max_run_ms or 0, default=None)

    def _place(self, execution: Execution) -> tuple[int, tuple[int, int]]:
        return -self._rank(execution.application), execution.order

    def _let_in(self, accounts: _QuotaAccounts, execution: Execution) -> bool:
        """Charge a waiting execution's core components; return whether it runs or may be queued."""
        if execution.started_ms is not None:
            return True
        mine = accounts.of(execution)
        reason = ""
        for account in mine:
            kind = account.lacks(execution.core)
            if account.first is None and kind is None:
                continue
            reason = reason or self._why(account, kind, execution)
            if account.holds(execution.core):  # one that never fits does not block others
                account.first = account.first or execution
        if reason:
            self.held_back[execution] = reason
            return False
        for account in mine:
            account.take(execution.core)
        return True

    def _why(self, account: _QuotaAccount, kind: int | None, execution: Execution) -> str:
        policy = f"policy {account.quota.name!r}"
        if account.first is not None or kind is None:
            first = "" if account.first is None else account.first.id
            return f"it waits behind {first!r}, which {policy} leaves no free capacity"
        name = self._pool.resources[kind]
        left = format_amount(name, max(account.left[kind], 0))
        asked = format_amount(name, execution.core[kind])
        owner = owner_text(account.tenant, account.queue)
        return f"{policy} leaves {owner} {left}; its cores ask for {asked}"


def _allow(accounts: Sequence[_QuotaAccount], execution: Execution) -> bool:
    """Set how many elastic components may run without cover; return whether that changed."""
    changed = False
    for part in execution.parts:
        if part.component.core:
            continue
        asked = part.wanted - part.covered
        allowed, policy = asked, ""
        for account in accounts:
            most = account.count_room(part.amounts, allowed)
            policy = f"policy {account.quota.name!r}" if most < allowed else policy
            allowed = most
        for account in accounts:
            account.take(part.amounts, allowed)
        new = allowed if accounts else UNLIMITED
        changed = changed or new != part.allowed
        part.allowed = new
        part.quota = _NO_MORE.format(policy) if policy else ""
    return changed


def owner_text(tenant: str | None, queue: str | None) -> str:
    """Return the owner of an account, in words."""
    if tenant is None and queue is None:
        return "all applications"
    words = [] if tenant is None else [f"tenant {tenant!r}"]
    return " in ".join(words if queue is None else [*words, f"queue {queue!r}"])
