"""Systematic start delay by component size: learnt, and planned for (Rayon 5.2, Adapter).

A scheduler needs longer to find free capacity for a large component than for a small one. A
component that has capacity but does not run yet does no work, so a promise that ignores this delay
is broken by it. There are two remedies, both used:

- *anticipate*: the entitlement begins that much earlier than the planned rows (`anticipate`);
- *enlarge*: each lease of a request is extended by the delay, and its work by as much per lease
(`enlarge`), so that the requested work runs between start and end.

A dispatcher reports every start to `StartDelays.observe`; the planner and the follower read the
current frozen `StartDelayTable`. This module depends on no clock, Plan or cluster.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rdl.expressions import Atom, Expression, Together, atoms_of, map_atoms
from rdl.resources import Resources

#: The resource whose amount is the size of a component, and the fallback if it requests none.
_SIZE, _OTHERWISE = "memory", "cpu"


def size_class(component: Resources) -> tuple[str, int]:
    """Return (resource, k) such that the component requests more than 2^(k-1), at most 2^k of it.

    The resource is memory (MiB), else cpu (millicores), else the first by name; 8 GiB is the
    largest of its class.
    """
    name = next((one for one in (_SIZE, _OTHERWISE) if component.get(one, 0)), None)
    if name is None:
        name = min(component, default="")
    return name, max(0, component.get(name, 1) - 1).bit_length()


@dataclass(frozen=True, slots=True)
class StartDelayTable:
    """Expected delay between holding capacity and running, by size class.

    Attributes
    ----------
    delays_ms
        (resource, class) -> delay in milliseconds, 0 or more.
    """

    delays_ms: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def delay_ms(self, component: Resources) -> int:
        """Return the delay of a component; an unknown class has that of the next smaller one."""
        name, wanted = size_class(component)
        known = sorted(number for one, number in self.delays_ms if one == name)
        place = bisect.bisect_right(known, wanted)
        return self.delays_ms[name, known[place - 1]] if place else 0


#: Table of a planner without observations.
NO_DELAY: Final = StartDelayTable()


class StartDelays:
    """The most recent starts by size class, and the delay table computed from them.

    Parameters
    ----------
    quantile
        Share of starts that the table should cover.
    window
        Number of most recent starts of a class that count, so that the delay falls when a scheduler
        becomes faster.
    least
        Least number of starts of a class for an estimate.
    noise_ms
        Delays up to this count as zero.
    """

    def __init__(
        self, quantile: float = 0.9, window: int = 200, least: int = 10, noise_ms: int = 1000
    ) -> None:
        if not 0 < quantile <= 1 or least < 1 or window < least:
            raise ValueError("give a quantile in (0, 1] and 1 <= least <= window")
        self._quantile, self._window = quantile, window
        self._least, self._noise_ms = least, noise_ms
        self._seen: dict[tuple[str, int], deque[int]] = {}

    def observe(self, component: Resources, delay_ms: int) -> None:
        """Record one start: `delay_ms` between holding the capacity and running.

        Raises
        ------
        ValueError
            If the delay is negative.
        """
        if delay_ms < 0:
            raise ValueError(f"a start delay is 0 ms or more, not {delay_ms}")
        known = self._seen.setdefault(size_class(component), deque(maxlen=self._window))
        known.append(delay_ms)

    def table(self) -> StartDelayTable:
        """Return the current delays; later observations do not change the table."""
        learnt: dict[tuple[str, int], int] = {}
        for kind, delays in self._seen.items():
            if len(delays) < self._least:
                continue
            ranked = sorted(delays)
            delay = ranked[min(len(ranked) - 1, int(self._quantile * len(ranked)))]
            learnt[kind] = delay if delay > self._noise_ms else 0
        return StartDelayTable(learnt)


def enlarge(expression: Expression, table: StartDelayTable) -> Expression:
    """Return a request with leases extended by the delay, and its work by as much per lease.

    A bundle of lease l and delay D that is allocated for l + D runs for l; work w is w / l leases
    of l, so w (1 + D / l) is reserved (rounded up to a millisecond). Heights, windows and order do
    not change. All members of a `together` get its longest delay. Atoms without a delay do not
    change, nor do expressions without an atom that has one.

    Parameters
    ----------
    expression
        As submitted.
    table
        Delays by size.
    """

    def longer(atom: Atom) -> Atom:
        return _lengthen(atom, table.delay_ms(atom.bundle))

    def together(group: Together) -> Expression:
        delay = max((table.delay_ms(atom.bundle) for atom in atoms_of(group)), default=0)
        return map_atoms(group, lambda atom: _lengthen(atom, delay))

    return map_atoms(expression, longer, together)


def _lengthen(atom: Atom, delay: int) -> Atom:
    """Return an atom with leases extended by `delay` ms, and its work by as much per lease."""
    if not delay:
        return atom
    lease = max(1, atom.lease_ms)
    work = atom.work_ms + -(-atom.work_ms * delay // lease)
    return replace(atom, lease_ms=lease + delay, work_ms=work, span=None)
