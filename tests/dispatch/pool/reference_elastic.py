"""The core/elastic algorithm and its baselines as plainly as they can be said: lists and loops.

Written from Zoe's Algorithms 1 and 2 and the corrections of the design, not from the kernels; a
fresh computation at every event, nothing kept but who is where and what each holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from dispatch.pool.claims import Claim, ClaimPart
from dispatch.pool.ordering import Ordering, Rule, Size


@dataclass
class Entry:
    """One claim and what it holds."""

    claim: Claim
    number: int
    granted: list[int]
    running: bool = False
    left: float = 0.0
    since: float = 0.0
    speed: float = 0.0
    frozen: float = 0.0


@dataclass
class Reference:
    """`name` is a scheduler of `baselines.SCHEDULERS`; amounts are plain tuples."""

    name: str
    total: tuple[int, ...]
    ordering: Ordering
    entries: dict[str, Entry] = field(default_factory=dict)
    serving: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    urgent: list[str] = field(default_factory=list)
    arrived: int = 0

    def arrive(self, claim: Claim, now: float) -> None:
        """Algorithm 2, lines 1 to 11."""
        if self.name == "rigid":
            claim = Claim(
                claim.name,
                claim.core + claim.elastic,
                (),
                claim.submitted_s,
                claim.run_s,
                claim.priority,
                claim.tenant,
            )
        entry = Entry(claim, self.arrived, [0] * len(claim.elastic), left=claim.run_s, since=now)
        self.arrived += 1
        self.entries[claim.name] = entry
        preempts = (
            self.ordering.preemptive
            and self.serving
            and self.key(claim.name, now) < max(self.key(other, now) for other in self.serving)
        )
        if not preempts:
            self.waiting.append(claim.name)
        elif self.fits(claim.name, grants=False):
            self.start(claim.name, now)
        else:
            self.urgent.append(claim.name)
        self.settle(now)

    def depart(self, name: str, now: float) -> None:
        """A request has ended or been withdrawn."""
        for line in (self.serving, self.waiting, self.urgent):
            if name in line:
                line.remove(name)
        del self.entries[name]
        self.settle(now)

    def settle(self, now: float) -> None:
        """W first, then L while S does not saturate, then the cascade."""
        before = {name: list(self.entries[name].granted) for name in self.serving}
        self.order_serving(now)
        if self.name == "malleable":
            self.cascade()
        while self.urgent:
            head = min(self.urgent, key=lambda name: self.key(name, now))
            if not self.fits(head, grants=False):
                break
            self.urgent.remove(head)
            self.start(head, now)
        if not self.urgent:
            self.admit(now)
        self.order_serving(now)
        self.cascade()
        for name in self.serving:
            entry = self.entries[name]
            if not entry.speed or entry.granted != before.get(name):
                entry.left -= entry.speed * (now - entry.since)
                entry.since = now
                entry.speed = (count(entry.claim.core) + sum(entry.granted)) / count(
                    entry.claim.core + entry.claim.elastic
                )

    def admit(self, now: float) -> None:
        """Heads of L while they fit; with backfill whoever fits, in order."""
        passed: set[str] = set()
        while candidates := [name for name in self.waiting if name not in passed]:
            head = min(candidates, key=lambda name: self.key(name, now))
            if self.may_start(head):
                self.waiting.remove(head)
                self.start(head, now)
                if self.name == "malleable":
                    self.grow(head)
            elif self.ordering.backfill:
                passed.add(head)
            else:
                return

    def may_start(self, name: str) -> bool:
        """The test of each scheduler."""
        if self.name == "malleable":
            return self.fits(name, grants=True)
        asked = self.core(name)
        wanted = [
            sum(values)
            for values in zip(*[self.whole(other) for other in self.serving], strict=True)
        ] or [0] * len(self.total)
        if any(
            need and want >= most
            for need, want, most in zip(asked, wanted, self.total, strict=True)
        ):
            return False
        return self.fits(name, grants=self.name == "flexible-grow")

    def start(self, name: str, now: float) -> None:
        """Into service."""
        self.entries[name].frozen = self.key(name, now)[1]
        self.entries[name].running = True
        self.serving.append(name)
        self.order_serving(now)

    def order_serving(self, now: float) -> None:
        """By key where arrivals may preempt, else as they came into service."""
        if self.ordering.preemptive:
            self.serving.sort(key=lambda name: self.key(name, now))

    def cascade(self) -> None:
        """Grant in order of service."""
        if self.name in ("flexible", "rigid"):
            for name in self.serving:
                self.entries[name].granted = [0] * len(self.entries[name].claim.elastic)
        for name in reversed(self.serving):
            entry = self.entries[name]
            for index in reversed(range(len(entry.granted))):
                amounts = entry.claim.elastic[index].amounts
                while entry.granted[index] and any(
                    need and left < 0 for need, left in zip(amounts, self.free(), strict=True)
                ):
                    entry.granted[index] -= 1
        for name in self.serving:
            self.grow(name)

    def grow(self, name: str) -> None:
        """One component at a time, in file order, skipping those that do not fit."""
        entry = self.entries[name]
        for index, part in enumerate(entry.claim.elastic):
            while entry.granted[index] < part.count and all(
                need <= left or not need
                for need, left in zip(part.amounts, self.free(), strict=True)
            ):
                entry.granted[index] += 1

    def core(self, name: str) -> list[int]:
        """Sum over core components."""
        return amounts(self.entries[name].claim.core, len(self.total))

    def whole(self, name: str) -> list[int]:
        """Sum over all components."""
        claim = self.entries[name].claim
        return amounts(claim.core + claim.elastic, len(self.total))

    def held(self, name: str) -> list[int]:
        """What an execution in service holds."""
        entry = self.entries[name]
        parts = tuple(
            ClaimPart(number, part.amounts)
            for number, part in zip(entry.granted, entry.claim.elastic, strict=True)
        )
        return amounts(entry.claim.core + parts, len(self.total))

    def free(self) -> list[int]:
        """What nobody holds."""
        return [
            most - sum(self.held(name)[kind] for name in self.serving)
            for kind, most in enumerate(self.total)
        ]

    def fits(self, name: str, *, grants: bool) -> bool:
        """Whether the core fits beside cores, or beside cores and grants."""
        used = [
            sum((self.held(other) if grants else self.core(other))[kind] for other in self.serving)
            for kind in range(len(self.total))
        ]
        return all(
            not need or used[kind] + need <= self.total[kind]
            for kind, need in enumerate(self.core(name))
        )

    def key(self, name: str, now: float) -> tuple[float, float, int]:
        """Rank, key, number."""
        entry = self.entries[name]
        rank = -entry.claim.priority if self.ordering.by_priority else 0.0
        return rank, self.value(entry, now), entry.number

    def value(self, entry: Entry, now: float) -> float:
        """The key of the ordering (D5.2, table 10.3a)."""
        claim, ordering = entry.claim, self.ordering
        if ordering.rule is Rule.DRF:
            mine = [
                name for name in self.serving if self.entries[name].claim.tenant == claim.tenant
            ]
            return max(
                sum(self.held(name)[kind] for name in mine) / most if most else 0.0
                for kind, most in enumerate(self.total)
            )
        if ordering.rule in (Rule.HRRN, Rule.HRRN_PRINTED):
            if entry.running:
                return entry.frozen
            ratio = 1 + max(now - claim.submitted_s, 0) / claim.run_s
            factor = self.factor(entry)
            return ratio * factor if ordering.rule is Rule.HRRN_PRINTED else -ratio / factor
        if ordering.rule is Rule.SRPT:
            left = max(entry.left - entry.speed * (now - entry.since), 0.0)
            return left * self.factor(entry)
        return claim.run_s * self.factor(entry) if ordering.by_size else claim.submitted_s

    def factor(self, entry: Entry) -> float:
        """What multiplies the run time."""
        claim, size = entry.claim, self.ordering.size
        every = claim.core + claim.elastic
        left = tuple(
            ClaimPart(part.count - got, part.amounts)
            for part, got in zip(claim.elastic, entry.granted, strict=True)
        )
        rest = left if entry.running else every
        if size is Size.COMPONENTS:
            return count(every)
        if size is Size.AREA:
            return area(every)
        if size is Size.COMPONENTS_LEFT:
            return count(rest) or count(every)
        if size is Size.AREA_LEFT:
            return area(rest) or area(every)
        return 1.0


def count(parts: tuple[ClaimPart, ...]) -> float:
    """How many components."""
    return float(sum(part.count for part in parts))


def area(parts: tuple[ClaimPart, ...]) -> float:
    """Sum over components of the product of what each asks for (units of a, b are one)."""
    return float(sum(part.count * prod(one for one in part.amounts if one) for part in parts))


def amounts(parts: tuple[ClaimPart, ...], kinds: int) -> list[int]:
    """Sum over components of what each asks for."""
    return [sum(part.count * part.amounts[kind] for part in parts) for kind in range(kinds)]
