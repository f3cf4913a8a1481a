"""Work that ran early, and the future rows that it makes unnecessary (Rayon 5.1, step 6).

A component that runs without cover does work that future rows were meant for. An execution is ahead
by its finished work, minus its atom's allocation up to now, minus the part already released; whole
leases of that are released, the latest first. Work missed below the entitlement is subtracted, so
that no more is released than was run beyond it, and finished and remaining work never fall below
the request. Only atoms that are marked as credited or malleable
(`rdl.expressions.Atom.is_credited`) get credit, if exactly one execution of a batch application
uses them, and only while its cores are covered. The last lease of work without cover is not
credited, because a stop could still undo it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dispatch.applications.application import Kind
from dispatch.cycle.cover import names_atom
from dispatch.executions.execution import Execution
from dispatch.executions.states import ExecutionState
from planner.plan.plan import Plan
from planner.plan.records.changes import Release
from planner.reservations.reservation import AtomAllocation, Rows
from planner.reservations.rows import add_up
from planner.reservations.state import LIVE, Transition, may
from rdl.expressions import Expression, atom_at
from rdl.resources import Resources
from rdl.text.parser import parse

#: Longest time between two observations that counts as work.
_LONGEST_GAP_MS: Final = 60_000

#: Reason in the history of a reservation.
_WHY = "its work was run above the entitlement"


@dataclass(slots=True)
class _Account:
    """One atom of a reservation, and the execution that uses it.

    Attributes
    ----------
    lease_ms
        Lease of a credited atom; 0 for others.
    run
        Work since its cores have machines, in thousandths of a bundle x ms.
    rate, covered
        Thousandths of a bundle running at the last observation, and how many were covered.
    ahead
        Whether anything ran without cover, or the allocation changed, since the last check.
    revision
        Revision of the reservation at the last check: a moved reservation is planned in full again.
    """

    path: str
    bundle: Resources
    execution: Execution
    lease_ms: int
    shared: bool = False
    started_ms: int | None = None
    run: int = 0
    rate: int = 0
    covered: int = 0
    ahead: bool = False
    revision: int = 0

    @property
    def done(self) -> int:
        """Work that no stop can undo: a component without cover may lose a lease of work."""
        return self.run - max(0, self.rate - self.covered) * self.lease_ms


@dataclass(slots=True)
class CreditBook:
    """Adds up at every tick the work of executions with a reservation."""

    _accounts: dict[str, list[_Account]] = field(default_factory=dict)
    _at_ms: int | None = None
    _judged_step: int = -1

    def watch(self, execution: Execution, plan: Plan) -> None:
        """Start to observe an execution; one without a reservation is ignored.

        An execution that names no atom is credited if the reservation has only one.
        """
        name = execution.application.reservation
        number = None if name is None else plan.table.number_of(name)
        if name is None or number is None:
            return
        accounts = self._accounts.setdefault(name, [])
        atoms = plan.table.holding(number).atoms
        atom = execution.application.atom
        expression = _expression_of(plan, number)
        for one in atoms:
            if atom is not None and not names_atom(one.path, atom):
                continue
            known = [account for account in accounts if account.path == one.path]
            for account in known:
                account.shared = True
            if not known:
                alone = atom is not None or len(atoms) == 1
                bundle = _asked_bundle(one, plan.table.details.get(number).written)
                lease_ms = _credited_lease(expression, one.path, execution)
                accounts.append(_Account(one.path, bundle, execution, lease_ms, shared=not alone))

    def observe(self, now_ms: int) -> None:
        """Count the work since the last call, at the lower of the rates then and now.

        Stopped work without cover has lost up to a lease. No instant is counted twice if the clock
        was set back, and at most a minute of a pause between two calls, because it is unknown
        whether anything ran.
        """
        last_ms = now_ms if self._at_ms is None else self._at_ms
        passed_ms = min(max(now_ms - last_ms, 0), _LONGEST_GAP_MS)
        self._at_ms = max(now_ms, last_ms)
        for account in [one for many in self._accounts.values() for one in many]:
            if account.shared or not account.lease_ms:
                continue
            execution = account.execution
            rate, covered = _rates(execution, account.bundle)
            if execution.started_ms != account.started_ms or execution.started_ms is None:
                # It was restarted: earlier work is lost.
                account.started_ms, account.run, account.ahead = execution.started_ms, 0, False
            else:
                account.run += min(rate, account.rate) * passed_ms
                stopped = account.rate - rate - max(0, account.covered - covered)
                account.run = max(0, account.run - max(0, stopped) * account.lease_ms)
                account.ahead |= _is_ahead(execution)
            account.rate, account.covered = rate, covered

    def due(self, plan: Plan, now_ms: int) -> list[Release]:
        """Return the rows to release, once per step of the Plan."""
        step = now_ms // plan.grid.step_ms
        if step == self._judged_step:
            return []
        self._judged_step = step
        found: list[Release] = []
        for name, accounts in list(self._accounts.items()):
            number = plan.table.number_of(name)
            state = None if number is None else plan.table.state(number)
            if number is None or state is None or state not in LIVE:
                del self._accounts[name]
                continue
            if not may(state, Transition.RELEASE):
                continue
            revision = int(plan.table.meta[number]["revision"])
            for account in accounts:
                if account.revision == revision:
                    continue
                if account.revision:
                    expression = _expression_of(plan, number)
                    account.lease_ms = _credited_lease(expression, account.path, account.execution)
                account.ahead, account.revision = True, revision
            ready = [one for one in accounts if _is_ready(one)]
            if not ready:
                continue
            rows = _rows_of(plan, number, ready, step)
            if rows:
                found.append(Release(name, revision, rows, _WHY))
        return found


def _asked_bundle(atom: AtomAllocation, written: str) -> Resources:
    """Return the bundle as its owner wrote it: memory added by the server is not work."""
    asked = atom_at(parse(written), atom.path) if written else None
    return atom.bundle if asked is None else asked.bundle


def _expression_of(plan: Plan, number: int) -> Expression:
    details = plan.table.details.get(number)
    return parse(details.text) if details.expression is None else details.expression


def _credited_lease(expression: Expression, path: str, execution: Execution) -> int:
    """Return the lease of a credited atom, in ms; 0 for others."""
    asked = atom_at(expression, path)
    is_batch = execution.application.kind is Kind.BATCH
    return asked.lease_ms if asked is not None and asked.is_credited and is_batch else 0


def _is_ready(account: _Account) -> bool:
    execution = account.execution
    return (
        account.ahead
        and account.lease_ms > 0
        and not account.shared
        and execution.state is ExecutionState.RUNNING
        and all(
            part.covered >= part.component.count for part in execution.parts if part.component.core
        )
    )


def _rows_of(
    plan: Plan, number: int, accounts: list[_Account], step: int
) -> tuple[tuple[str, Rows], ...]:
    """Return the rows that each atom releases; an atom without any is marked as not ahead."""
    expression = _expression_of(plan, number)
    atoms = {atom.path: atom for atom in plan.table.holding(number).atoms}
    found: list[tuple[str, Rows]] = []
    for account in accounts:
        atom = atoms.get(account.path)
        rows = None if atom is None else _spare_rows(plan, expression, atom, account.done, step)
        if rows is None or not len(rows):
            account.ahead = False
        else:
            found.append((account.path, rows))
    return tuple(found)


def _spare_rows(
    plan: Plan, expression: Expression, atom: AtomAllocation, done: int, step: int
) -> Rows | None:
    """Return the rows of an atom that finished work makes unnecessary; None if it recurs."""
    asked = atom_at(expression, atom.path)
    if asked is None or "@" in atom.path:
        return None
    grid = plan.grid
    rule = AtomRule(asked.minimum, asked.multiple, max(1, grid.ceil(asked.lease_ms)))
    from_step = max(step + 1, plan.now)
    past = atom.rows.copy()
    past[:, 1] = np.minimum(past[:, 1], from_step)
    before = past[past[:, 0] < from_step]
    credit = done // (1000 * grid.step_ms) - _work(before)
    if atom.released is not None:
        credit -= _work(atom.released)
    return spare_rows(atom.rows, rule, credit, from_step)


def _work(rows: Rows) -> int:
    return int(((rows[:, 1] - rows[:, 0]) * rows[:, 2]).sum())


def _rates(execution: Execution, bundle: Resources) -> tuple[int, int]:
    """Return the running and covered thousandths of a bundle, by its scarcest resource."""
    running: dict[str, int] = dict.fromkeys(bundle, 0)
    covered = dict(running)
    for part in execution.parts:
        runs = part.running
        for name, amount in part.component.resources.items():
            if name in running:
                running[name] += runs * amount
                covered[name] += min(runs, part.covered) * amount
    return _thousandths(running, bundle), _thousandths(covered, bundle)


def _thousandths(used: dict[str, int], bundle: Resources) -> int:
    return min((1000 * used[name] // amount for name, amount in bundle.items()), default=0)


def _is_ahead(execution: Execution) -> bool:
    return any(part.running > part.covered for part in execution.parts)


# A bundle is kept at least for its lease; bundles are released first in, first out. A bundle kept
# for n leases or more counts as n consecutive leases, the first of which includes the remainder.
# The latest leases that have not begun are credited, up to the work done beyond the entitlement,
# while every step of the atom stays at 0 or at least g.


@dataclass(frozen=True, slots=True)
class AtomRule:
    """Constraints on every step of an atom.

    Attributes
    ----------
    minimum, multiple
        The bundles at a step are 0, or at least `minimum` and divisible by `multiple`.
    lease
        Least number of steps that a bundle is kept.
    """

    minimum: int
    multiple: int
    lease: int


def leases_of(rows: Rows, lease: int) -> list[tuple[int, int, int]]:
    """Return the whole leases of an atom as (start, end, count), latest start first.

    Parameters
    ----------
    rows
        int64[m, 3], sorted, disjoint and merged.
    lease
        Steps that a bundle is kept at least, 1 or more.
    """
    found: dict[tuple[int, int], int] = {}
    for start, end, count in _stretches(rows):
        last = end
        while last - start >= 2 * lease:
            found[last - lease, last] = found.get((last - lease, last), 0) + count
            last -= lease
        found[start, last] = found.get((start, last), 0) + count
    return [(*span, found[span]) for span in sorted(found, reverse=True)]


def _stretches(rows: Rows) -> list[tuple[int, int, int]]:
    """Return (taken, released, bundles) by FIFO matching."""
    found: list[tuple[int, int, int]] = []
    taken: deque[list[int]] = deque()
    height, at = 0, 0
    for start, end, bundles in (*rows.tolist(), (-1, -1, 0)):
        if start != at:  # no allocation in between
            _release(taken, height, at, found)
            height, at = 0, start
        if bundles > height:
            taken.append([at, bundles - height])
        else:
            _release(taken, height - bundles, at, found)
        height, at = bundles, end
    return found


def _release(
    taken: deque[list[int]], count: int, at: int, found: list[tuple[int, int, int]]
) -> None:
    while count > 0:
        oldest = taken[0]
        part = min(count, oldest[1])
        found.append((oldest[0], at, part))
        oldest[1] -= part
        count -= part
        if not oldest[1]:
            taken.popleft()


def spare_rows(rows: Rows, rule: AtomRule, credit: int, from_step: int) -> Rows:
    """Return the rows of the latest whole leases that finished work makes unnecessary.

    Parameters
    ----------
    rows
        Allocation of the atom, int64[m, 3], sorted, disjoint and merged.
    credit
        Work done beyond the entitlement, in bundle-steps.
    from_step
        Leases that begin earlier stay.

    Returns
    -------
    int64[k, 3]
        The largest number of leases, latest first, that `credit` pays for and whose removal keeps
        every step valid; empty if there is none.
    """
    if not len(rows) or credit <= 0:
        return rows[:0]
    first = int(rows[0, 0])
    heights = _heights(rows, first)
    bad = ~_valid(heights, rule)
    taken: list[tuple[int, int, int]] = []
    best: list[tuple[int, int, int]] = []
    for start, end, count in leases_of(rows, rule.lease):
        affordable = min(count, credit // (end - start))
        if start < from_step or not affordable:
            break
        span = slice(start - first, end - first)
        if not (bad[: span.start].any() or bad[span.stop :].any()):
            most = _largest_take(heights[span], rule, affordable)
            if most:
                best = [*taken, (start, end, most)]
        if affordable < count:
            break
        heights[span] -= count
        bad[span] = ~_valid(heights[span], rule)
        taken.append((start, end, count))
        credit -= count * (end - start)
    return add_up(np.array(best, dtype=np.int64).reshape(-1, 3)) if best else rows[:0]


def _largest_take(heights: NDArray[np.int64], rule: AtomRule, limit: int) -> int:
    """Return the largest number of bundles, at most `limit`, that can be taken from each height."""
    distinct = np.unique(heights)
    for count in range(limit, 0, -1):
        if _valid(distinct - count, rule).all():
            return count
    return 0


def _valid(heights: NDArray[np.int64], rule: AtomRule) -> NDArray[np.bool_]:
    held = (heights >= rule.minimum) & (heights % rule.multiple == 0)
    return np.asarray(held | (heights == 0), dtype=np.bool_)


def _heights(rows: Rows, first: int) -> NDArray[np.int64]:
    change = np.zeros(int(rows[-1, 1]) - first + 1, dtype=np.int64)
    np.add.at(change, rows[:, 0] - first, rows[:, 2])
    np.subtract.at(change, rows[:, 1] - first, rows[:, 2])
    return np.cumsum(change[:-1])
