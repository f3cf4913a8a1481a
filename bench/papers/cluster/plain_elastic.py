"""The core/elastic algorithm as plainly as it can be said: Zoe's Algorithms 1 and 2, in lists.

It is what the compiled pool (`dispatch.pool`) is held against, event by event, and what runs over
machines. Where components find free capacity is asked of a room: of totals, or of machines
(`bench.papers.cluster.machine_room`). Everything else is worked out again at every event.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from dispatch.pool.claims import Claim, ClaimPart, Grant, GrantRule
from dispatch.pool.ordering import Ordering, Rule, Size


@dataclass(eq=False, slots=True)
class PlainEntry:
    """One claim and what it holds.

    Attributes
    ----------
    number
        Order of arrival.
    granted
        How many components of each elastic part.
    key
        Rank, key and number, as last worked out: the lowest goes first.
    running, frozen
        Whether it is in service, and its key when it came in.
    left, since, speed
        Run time that was left at an instant with everything granted, and how fast it goes by.
    announced
        What it was last said to be granted.
    core, most
        What its core takes, and what it could use at most in the first tier, by resource.
    """

    claim: Claim
    number: int
    granted: list[int]
    left: float
    since: float
    key: tuple[float, float, int] = (0.0, 0.0, 0)
    running: bool = False
    frozen: float = 0.0
    speed: float = 0.0
    announced: tuple[int, ...] | None = None
    core: tuple[int, ...] = ()
    most: tuple[int, ...] = ()

    def __lt__(self, other: PlainEntry) -> bool:
        return self.key < other.key

    @property
    def elastic(self) -> tuple[ClaimPart, ...]:
        """What it asks for in the first tier."""
        return () if self.claim.tier else self.claim.elastic


class PlainRoom(Protocol):
    """Where components find free capacity."""

    resources: tuple[str, ...]

    def totals(self) -> Sequence[int]:
        """Return what there is, by resource."""
        ...

    def enter(self, entry: PlainEntry, serving: Sequence[PlainEntry], *, grants: bool) -> bool:
        """Give a core room beside the cores (and grants) of those in service, if it has any."""
        ...

    def leave(self, entry: PlainEntry) -> None:
        """Take back what a claim has."""
        ...

    def shrink(self, serving: Sequence[PlainEntry]) -> None:
        """Take grants back from the end of service until all fits."""
        ...

    def grow(self, entry: PlainEntry, serving: Sequence[PlainEntry]) -> None:
        """Grant one claim all that fits, in file order, skipping what does not."""
        ...

    def regrant(self, serving: Sequence[PlainEntry]) -> None:
        """Grant again, in the order of service."""
        ...

    def free(self, serving: Sequence[PlainEntry]) -> list[int]:
        """Return what no claim of those in service holds, by resource."""
        ...


class PlainElastic:
    """Owns the lines and the grants.

    Parameters
    ----------
    room
        Where components find free capacity.
    ordering, allocation
        Which claim goes first, and how elastic components are granted.
    """

    def __init__(
        self, room: PlainRoom, ordering: Ordering, allocation: GrantRule = GrantRule.FLEXIBLE
    ) -> None:
        self.room, self.ordering, self.allocation = room, ordering, allocation
        self.resources = room.resources
        self._entries: dict[str, PlainEntry] = {}
        self._waiting: list[PlainEntry] = []
        self._urgent: list[PlainEntry] = []
        self._serving: list[PlainEntry] = []
        self._joined: list[PlainEntry] = []
        self._wanted = [0] * len(self.resources)  # of those in service, at most
        self._arrived = 0

    def arrive(self, claim: Claim, now_s: float) -> tuple[Grant, ...]:
        """Take a new execution in (Algorithm 2, lines 1 to 11)."""
        entry = self._add(claim, now_s)
        self._refresh(self._serving, now_s)
        preempts = self.ordering.preemptive and self._serving and entry < max(self._serving)
        if not preempts:
            insort(self._waiting, entry)
        elif not self._start(entry, now_s, grants=False):
            insort(self._urgent, entry)
        return self._settle(now_s)

    def depart(self, name: str, now_s: float) -> tuple[Grant, ...]:
        """Take an execution out, in service or waiting."""
        self._remove(name)
        return self._settle(now_s)

    def replace_joined(
        self, gone: Iterable[str], come: Iterable[Claim], now_s: float
    ) -> tuple[Grant, ...]:
        """Let claims without a core leave their tier, and others join it."""
        for name in gone:
            self._remove(name)
        self._joined += [self._add(claim, now_s) for claim in come]
        return self._settle(now_s)

    def set_total(self, total: Mapping[str, int], now_s: float) -> tuple[Grant, ...]:
        """Refuse: what there is stays."""
        raise ValueError("a plain pool does not change its total")

    def queue(self) -> tuple[str, ...]:
        """Return the names of those that wait; those that may preempt come first."""
        return tuple(one.claim.name for one in (*self._urgent, *self._waiting))

    def service_order(self) -> tuple[str, ...]:
        """Return the names of those in service, in the order of grants."""
        return tuple(one.claim.name for one in self._serving)

    def joined(self) -> tuple[str, ...]:
        """Return the names of those that have a claim without a core."""
        return tuple(one.claim.name for one in self._joined)

    def names(self) -> list[str]:
        """Return the names of all, sorted."""
        return sorted(self._entries)

    def grants_of(self, name: str) -> tuple[int, ...]:
        """Return how many components of each elastic part an execution holds."""
        return tuple(self._entries[name].granted)

    def free(self) -> dict[str, int]:
        """Return what no claim in service holds."""
        return dict(zip(self.resources, self.room.free(self._serving), strict=True))

    def _add(self, claim: Claim, now: float) -> PlainEntry:
        entry = PlainEntry(claim, self._arrived, [0] * len(claim.elastic), claim.run_s, now)
        kinds = len(self.resources)
        entry.core = amounts_of(claim.core, kinds)
        entry.most = amounts_of((*claim.core, *entry.elastic), kinds)
        self._arrived += 1
        self._entries[claim.name] = entry
        if claim.core:
            entry.key = self._key(entry, now)
        return entry

    def _remove(self, name: str) -> None:
        entry = self._entries.pop(name)
        for line in (self._waiting, self._urgent, self._serving, self._joined):
            if entry in line:
                line.remove(entry)
        if entry.running:
            self.room.leave(entry)
            self._wanted = [one - more for one, more in zip(self._wanted, entry.most, strict=True)]

    def _settle(self, now: float) -> tuple[Grant, ...]:
        """Serve those that may preempt first, then heads of the line, then grant."""
        before = {one: list(one.granted) for one in self._serving}
        self._order(now)
        if self.allocation is GrantRule.MALLEABLE:
            self._cascade()
        while self._urgent:
            self._refresh(self._urgent, now)
            if not self._start(self._urgent[0], now, grants=False):
                break
            self._urgent.pop(0)
        if not self._urgent:
            self._admit(now)
        self._order(now)
        if self.allocation is not GrantRule.MALLEABLE:  # those have grown, and so have heads
            self._cascade()
        for one in self._serving if self.ordering.rule is Rule.SRPT else ():
            if not one.speed or one.granted != before.get(one):
                one.left -= one.speed * (now - one.since)
                one.since = now
                got = 0 if one.claim.tier else sum(one.granted)
                one.speed = (_count(one.claim.core) + got) / _count(one.claim.core + one.elastic)
        self._grant_later()
        return self._changed()

    def _admit(self, now: float) -> None:
        """Admit heads while they fit; with backfill all that fit, in order."""
        passed: list[PlainEntry] = []
        while self._waiting:
            self._refresh(self._waiting, now)
            head = self._waiting.pop(0)
            if self._may_start(head, now):
                if self.allocation is GrantRule.MALLEABLE:
                    self.room.grow(head, self._serving)
                continue
            passed.append(head)
            if not self.ordering.backfill:
                break
        self._waiting[:0] = passed

    def _may_start(self, entry: PlainEntry, now: float) -> bool:
        """Let a head into service if the rule and the capacity allow it.

        But for the malleable rule, none is that needs what those in service could use up.
        """
        if self.allocation is GrantRule.MALLEABLE:
            return self._start(entry, now, grants=True)
        for kind, there in enumerate(self.room.totals()):
            if entry.core[kind] and there <= self._wanted[kind]:
                return False
        return self._start(entry, now, grants=self.allocation is GrantRule.GROW_ONLY)

    def _start(self, entry: PlainEntry, now: float, *, grants: bool) -> bool:
        if not self.room.enter(entry, self._serving, grants=grants):
            return False
        entry.key = self._key(entry, now)
        entry.frozen = entry.key[1]
        entry.running = True
        self._wanted = [one + more for one, more in zip(self._wanted, entry.most, strict=True)]
        self._serving.append(entry)
        self._order(now)
        return True

    def _order(self, now: float) -> None:
        """Order service by key where arrivals may preempt; else it is as they came in."""
        if self.ordering.preemptive:
            for one in self._serving:
                one.key = self._key(one, now)
            self._serving.sort()

    def _cascade(self) -> None:
        if self.allocation is GrantRule.FLEXIBLE:
            self.room.regrant(self._serving)
            return
        self.room.shrink(self._serving)
        for one in self._serving:
            self.room.grow(one, self._serving)

    def _grant_later(self) -> None:
        """Grant elastic components of later tiers again, from what all else leaves."""
        later = [*(one for one in self._serving if one.claim.tier), *self._joined]
        if not later:
            return
        for one in later:
            one.granted = [0] * len(one.claim.elastic)
        free = self.room.free(self._serving)
        for one in sorted(later, key=_turn):
            for index, part in enumerate(one.claim.elastic):
                while one.granted[index] < part.count and _fits(part.amounts, free):
                    one.granted[index] += 1
                    free = [there - need for need, there in zip(part.amounts, free, strict=True)]

    def _changed(self) -> tuple[Grant, ...]:
        found = []
        for one in (*self._serving, *self._joined):
            granted = tuple(one.granted)
            if one.announced != granted:
                found.append(Grant(one.claim.name, one.announced is None, granted))
                one.announced = granted
        return tuple(found)

    def _refresh(self, line: list[PlainEntry], now: float) -> None:
        """Order a line by its keys as they are now; those of static orders never change."""
        if self.ordering.rule is not Rule.STATIC:
            for one in line:
                one.key = self._key(one, now)
            if line is not self._serving:
                line.sort()

    def _key(self, entry: PlainEntry, now: float) -> tuple[float, float, int]:
        rank = -entry.claim.priority if self.ordering.by_priority else 0.0
        return rank, self._value(entry, now), entry.number

    def _value(self, entry: PlainEntry, now: float) -> float:
        """Return the key of the ordering (D5.2, table 10.3a)."""
        claim, ordering = entry.claim, self.ordering
        if ordering.rule is Rule.DRF:
            mine = [one for one in self._serving if one.claim.tenant == claim.tenant]
            held = [held_by(one, len(self.resources)) for one in mine]
            return max(
                sum(one[kind] for one in held) / most if most else 0.0
                for kind, most in enumerate(self.room.totals())
            )
        if ordering.rule in (Rule.HRRN, Rule.HRRN_PRINTED):
            if entry.running:
                return entry.frozen
            ratio = 1 + max(now - claim.submitted_s, 0) / claim.run_s
            factor = self._factor(entry)
            return ratio * factor if ordering.rule is Rule.HRRN_PRINTED else -ratio / factor
        if ordering.rule is Rule.SRPT:
            left = max(entry.left - entry.speed * (now - entry.since), 0.0)
            return left * self._factor(entry)
        return claim.run_s * self._factor(entry) if ordering.by_size else claim.submitted_s

    def _factor(self, entry: PlainEntry) -> float:
        """Return what multiplies the run time."""
        size = self.ordering.size
        every = entry.claim.core + entry.elastic
        got = zip(entry.elastic, entry.granted, strict=False)
        left = tuple(ClaimPart(part.count - count, part.amounts) for part, count in got)
        rest = left if entry.running else every
        if size is Size.COMPONENTS:
            return _count(every)
        if size is Size.AREA:
            return _area(every)
        if size is Size.COMPONENTS_LEFT:
            return _count(rest) or _count(every)
        if size is Size.AREA_LEFT:
            return _area(rest) or _area(every)
        return 1.0


@dataclass(slots=True)
class TotalRoom:
    """A room of totals: amounts by resource, in the sorted order of their names."""

    resources: tuple[str, ...]
    amounts: tuple[int, ...]

    def totals(self) -> Sequence[int]:
        """Return what there is."""
        return self.amounts

    def enter(self, entry: PlainEntry, serving: Sequence[PlainEntry], *, grants: bool) -> bool:
        """Return whether a core fits alongside cores, or alongside cores and grants."""
        free = self.free(serving) if grants else self._beside_cores(serving)
        return _fits(entry.core, free)

    def leave(self, entry: PlainEntry) -> None:
        """Do nothing: what is free is worked out from those in service."""

    def shrink(self, serving: Sequence[PlainEntry]) -> None:
        """Take back one component after the other, from the end."""
        for one in reversed(serving):
            for index in reversed(range(len(one.elastic))):
                amounts = one.elastic[index].amounts
                while one.granted[index] and any(
                    need and there < 0
                    for need, there in zip(amounts, self.free(serving), strict=True)
                ):
                    one.granted[index] -= 1

    def grow(self, entry: PlainEntry, serving: Sequence[PlainEntry]) -> None:
        """Grant one component after the other."""
        for index, part in enumerate(entry.elastic):
            while entry.granted[index] < part.count and _fits(part.amounts, self.free(serving)):
                entry.granted[index] += 1

    def regrant(self, serving: Sequence[PlainEntry]) -> None:
        """Grant again."""
        for one in serving:
            one.granted = [0] * len(one.granted)
        for one in serving:
            self.grow(one, serving)

    def free(self, serving: Sequence[PlainEntry]) -> list[int]:
        """Return what nothing of the first tier, and no core, holds."""
        held = [held_by(one, len(self.amounts)) for one in serving]
        return [most - sum(one[kind] for one in held) for kind, most in enumerate(self.amounts)]

    def _beside_cores(self, serving: Sequence[PlainEntry]) -> list[int]:
        return [
            most - sum(one.core[kind] for one in serving) for kind, most in enumerate(self.amounts)
        ]


def amounts_of(parts: Iterable[ClaimPart], kinds: int) -> tuple[int, ...]:
    """Return the sum over components of what each asks for."""
    found = [0] * kinds
    for part in parts:
        for kind in range(kinds):
            found[kind] += part.count * part.amounts[kind]
    return tuple(found)


def held_by(entry: PlainEntry, kinds: int) -> tuple[int, ...]:
    """Return what an execution in service holds, but for grants of later tiers."""
    got = zip(entry.elastic, entry.granted, strict=False)
    parts = (ClaimPart(count, part.amounts) for part, count in got)
    return amounts_of((*entry.claim.core, *parts), kinds)


def _turn(entry: PlainEntry) -> tuple[int, int, float, int]:
    claim = entry.claim
    return claim.tier, claim.turn[0], claim.submitted_s, claim.turn[1]


def _fits(amounts: Sequence[int], free: Sequence[int]) -> bool:
    return all(need <= there or not need for need, there in zip(amounts, free, strict=True))


def _count(parts: Iterable[ClaimPart]) -> float:
    return float(sum(part.count for part in parts))


def _area(parts: Iterable[ClaimPart]) -> float:
    """Return the sum over components of the product of what each asks for."""
    return float(sum(part.count * prod(one for one in part.amounts if one) for part in parts))
