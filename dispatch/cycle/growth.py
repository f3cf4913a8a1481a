"""Growth: elastic components beyond the requested count, from idle resources (Omega, section 6).

Grown components are granted last, do not count in the order of service, and are stopped before
other work waits. While an execution waits for capacity or for a machine, nothing grows; capacity
that an entitlement needs within the grace period of stops is not idle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dispatch.cycle.cycle import CycleScratch
from dispatch.cycle.moves import Moves
from dispatch.cycle.options import GrowthOptions, GrowthRule
from dispatch.cycle.placer import Placer
from dispatch.executions.execution import ComponentGroup, Execution
from dispatch.machines.machine_pool import MachinePool

#: Most components added by growth in one cycle; the rest follow in the next.
_MOST_A_CYCLE: Final = 500


@dataclass(slots=True)
class GrowthBook:
    """Adds components beyond the requested count, and revokes them.

    Attributes
    ----------
    pool
        The machines.
    may_grow
        Returns whether no quota limits an execution's growth.
    """

    pool: MachinePool
    options: GrowthOptions
    may_grow: Callable[[Execution], bool]
    _members: set[Execution] = field(default_factory=set)

    def note(self, execution: Execution) -> None:
        """Process a new or changed execution."""
        if not any(part.component.grow for part in execution.parts):
            return
        if execution.is_over:
            self._members.discard(execution)
        else:
            self._members.add(execution)

    @property
    def can_grow(self) -> bool:
        """Whether any execution could grow."""
        return bool(self._members)

    def give_back(self, scratch: CycleScratch, left: list[int]) -> None:
        """Reduce growth to the capacity left by all grants, newest first."""
        for execution in self._members:
            grows = self._grows(execution)
            for part in execution.parts:
                most = self.options.most(part.component) if grows else 0
                self._lower_to(scratch, execution, part, most)
        self._fit(scratch, self._beside(left))

    def make_way(
        self, scratch: CycleScratch, placer: Placer, left: list[int], *, waits: bool
    ) -> bool:
        """Revoke all growth if an execution waits, else fit it; return whether any was reduced.

        Afterwards `scratch.changed` contains exactly the executions whose growth was reduced.
        """
        scratch.changed.clear()
        for _, part in self._groups():
            part.growth = min(part.growth, max(0, len(part.held) - part.covered - part.granted))
        if waits:
            for execution, part in self._groups():
                self._lower_to(scratch, execution, part, 0)
        else:
            self._fit(scratch, self._idle(placer, left))
        return bool(scratch.changed)

    def grow(self, moves: Moves, placer: Placer, left: list[int]) -> None:
        """Give one component at a time to each group in turn, oldest first."""
        room = self._idle(placer, left)
        asking = [
            (execution, part)
            for execution, part in self._groups()
            if self._grows(execution)
            and part.is_whole
            and part.growth < self.options.most(part.component)
        ]
        left_over = _MOST_A_CYCLE
        while asking and left_over > 0:
            asking = [pair for pair in asking if self._add_one(moves, pair, room)]
            left_over -= len(asking)

    def _add_one(
        self, moves: Moves, pair: tuple[Execution, ComponentGroup], room: list[int]
    ) -> bool:
        """Grow a group by one if idle capacity fits it; return whether it may grow further."""
        execution, part = pair
        fits = all(need <= have for need, have in zip(part.amounts, room, strict=True) if need)
        if not fits or not moves.grow_above(execution, part):
            return False
        part.growth += 1
        _add(room, part, -1)
        return part.growth < self.options.most(part.component)

    def _groups(self) -> list[tuple[Execution, ComponentGroup]]:
        """Return the groups that may grow, by submission."""
        ordered = sorted(self._members, key=lambda one: one.order)
        return [(one, part) for one in ordered for part in one.parts if part.component.grow]

    def _grows(self, execution: Execution) -> bool:
        running = execution.started_ms is not None and not execution.is_over
        return running and self.may_grow(execution)

    def _fit(self, scratch: CycleScratch, room: list[int]) -> None:
        """Reduce growth, newest first, until no amount in `room` is negative."""
        for execution, part in reversed(self._groups()):
            count = 0
            for amount, there in zip(part.amounts, room, strict=True):
                if amount and there < 0:
                    count = max(count, -(there // amount))
            count = min(count, part.growth)
            if count:
                self._lower_to(scratch, execution, part, part.growth - count)
                _add(room, part, count)

    @staticmethod
    def _lower_to(
        scratch: CycleScratch, execution: Execution, part: ComponentGroup, most: int
    ) -> None:
        if part.growth > most:
            part.growth = most
            scratch.changed.add(execution)

    def _beside(self, left: list[int]) -> list[int]:
        """Return `left` minus all growth."""
        room = list(left)
        for _, part in self._groups():
            _add(room, part, -part.growth)
        return room

    def _idle(self, placer: Placer, left: list[int]) -> list[int]:
        """Return the amounts available for growth; negative if there is too much growth."""
        room = self._beside(left)
        if self.options.rule is not GrowthRule.GLOBAL_CAP:
            return room
        held = placer.held_amounts()
        most = [int(self.options.below * amount) for amount in self.pool.total()]
        grown = [0] * len(room)
        for _, part in self._groups():
            _add(grown, part, part.growth)
        # Use beyond the cap that is not growth cannot be released: at most all growth can.
        below = [max(top - use, -mine) for top, use, mine in zip(most, held, grown, strict=True)]
        return [min(one, other) for one, other in zip(room, below, strict=True)]


def _add(room: list[int], part: ComponentGroup, count: int) -> None:
    for kind, amount in enumerate(part.amounts):
        room[kind] += count * amount
