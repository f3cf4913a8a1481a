"""Whether a few bundles can lie on machines at one instant: every way is tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

#: Packings in part that are looked at before the search gives up.
MOST_STATES = 5_000


class MachineState(NamedTuple):
    """What is free on one machine of a group, resource by resource."""

    group: int
    free: tuple[int, ...]


#: (amounts, groups it may lie in)
_Bundle: TypeAlias = tuple[tuple[int, ...], frozenset[int]]

#: (amounts of one bundle, groups it may lie in, how many)
Wanted: TypeAlias = tuple[tuple[int, ...], frozenset[int], int]


def can_pack(machines: Sequence[MachineState], wanted: Sequence[Wanted]) -> bool | None:
    """Return whether all bundles find machines; None if `MOST_STATES` did not show it.

    Machines that are alike are one choice, and a state that was left without success is not
    entered again.

    Parameters
    ----------
    machines
        Each machine with what is free on it.
    wanted
        Bundles; the largest first makes the search short.
    """
    each = [(amounts, groups) for amounts, groups, count in wanted for _ in range(count)]
    each = _hard(machines, each)
    useful = [one for one in machines if any(_fits(one, bundle) for bundle in each)]
    # Of machines alike no more are needed than there are bundles.
    start = Counter({one: min(n, len(each)) for one, n in Counter(useful).items()})
    return _PackingSearch(each).lay(0, start)


def _hard(machines: Sequence[MachineState], each: Sequence[_Bundle]) -> list[_Bundle]:
    """Leave out bundles that fit on as many machines as there are bundles: laid last, they fit."""
    left: list[_Bundle] = []
    hard = list(each)
    while len(left) != len(hard):
        left, most = hard, len(hard)
        hard = [one for one in left if sum(_fits(machine, one) for machine in machines) < most]
    return hard


class _PackingSearch:
    """A search in depth over packings in part."""

    def __init__(self, each: Sequence[_Bundle]) -> None:
        self._each = each
        self._dead: set[tuple[int, frozenset[tuple[MachineState, int]]]] = set()

    def lay(self, index: int, room: Counter[MachineState]) -> bool | None:
        """Return whether the bundles from `index` on fit into the room."""
        if index == len(self._each):
            return True
        key = index, frozenset(room.items())
        if key in self._dead:
            return False
        if len(self._dead) >= MOST_STATES:
            return None
        for after in self._next(self._each[index], room):
            packs = self.lay(index + 1, after)
            if packs is not False:
                return packs
        self._dead.add(key)
        return False

    def _next(
        self, bundle: _Bundle, room: Counter[MachineState]
    ) -> Iterator[Counter[MachineState]]:
        """Yield the room after the bundle is laid, once for each kind of machine it fits on."""
        for machine in [one for one in room if _fits(one, bundle)]:
            left = tuple(a - b for a, b in zip(machine.free, bundle[0], strict=True))
            after = room.copy()
            after[machine] -= 1
            if not after[machine]:
                del after[machine]
            after[MachineState(machine.group, left)] += 1
            yield after


def _fits(machine: MachineState, bundle: _Bundle) -> bool:
    return machine.group in bundle[1] and all(
        amount <= free for amount, free in zip(bundle[0], machine.free, strict=True)
    )
