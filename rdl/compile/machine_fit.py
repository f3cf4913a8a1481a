"""Whether a bundle fits into one machine, and how many fit side by side under an atom's rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import comb
from typing import ClassVar, Final

from rdl.compile.context import MachineShape
from rdl.errors import did_you_mean
from rdl.expressions import Atom
from rdl.names import place_words
from rdl.resources import Resources, format_amount

#: Message and fix.
_Said = tuple[str, str | None]

#: Most sets of values that are compared with what a `together` takes.
_MOST_SETS: Final = 1000

#: Bundles with labels that one remembers.
_MOST_KNOWN: Final = 10_000


class MachineFit:
    """How the machines limit an atom; computed once for each bundle, label and rule."""

    _last: ClassVar[MachineFit | None] = None

    def __init__(self, machines: tuple[MachineShape, ...]) -> None:
        self._machines = machines
        self._known: dict[tuple[Resources, str | None], _Said | None] = {}
        self._most: dict[tuple[object, ...], int] = {}

    @classmethod
    def of(cls, machines: tuple[MachineShape, ...]) -> MachineFit:
        """Return the one that was asked last of the very same machines, or a new one.

        A server compiles nearly all requests for one cluster, and bundles repeat.
        """
        found = cls._last
        if found is None or not found.serves(machines):
            found = cls._last = cls(machines)
        return found

    def serves(self, machines: tuple[MachineShape, ...]) -> bool:
        """Return whether it is of these very machines, and does not remember too much yet."""
        return self._machines is machines and len(self._known) <= _MOST_KNOWN

    def why_not(self, atom: Atom) -> _Said | None:
        """Return (message, fix) if machines cannot hold the least height, else None.

        Without a rule one bundle must fit into one machine: the Plan counts how many fit, and
        its refusal comes with offers.
        """
        if not self._machines:
            return None
        key = (atom.bundle, atom.on)
        if key not in self._known:
            self._known[key] = self._look(*key)
        said = self._known[key]
        if said is not None:
            return said
        return self._why_not_so(atom) if atom.spread or atom.within is not None else None

    def most_bundles(self, atom: Atom) -> int | None:
        """Return how many bundles fit on machines at the same time under the atom's rule; None: no
        limit.

        A machine without a value of the atom's domains holds none.
        """
        if not self._machines or not (atom.spread or atom.within is not None):
            return None
        key = (atom.bundle, atom.on, atom.spread, atom.domain, atom.within, atom.values)
        if key not in self._most:
            self._most[key] = sum(most for most, _ in self._by_value(atom)[: atom.values])
        return self._most[key]

    def _by_value(self, atom: Atom) -> list[tuple[int, str]]:
        """Return (bundles that fit at the same time, value) of `within`, largest first.

        Without `within`, of all machines.
        """
        values: Iterable[str | None] = [None]
        if atom.within is not None:
            named = (_value(one, atom.within) for one in self._machines)
            values = sorted({value for value in named if value is not None})
        found = [
            (
                sum(
                    count * (min(atom.spread, fits) if atom.spread else fits)
                    for count, fits in self._places(atom, value)
                ),
                value or "",
            )
            for value in values
        ]
        return sorted(found, key=lambda one: -one[0])

    def why_not_together(self, atoms: Sequence[Atom]) -> _Said | None:
        """Return (message, fix) if their `within` does not hold all atoms, of which each fits.

        Their total of a resource is compared with the total capacity of the machines of the values.
        """
        first, domain = atoms[0], atoms[0].within
        if not self._machines or domain is None:
            return None
        fix = f"omit within={domain}"
        each = [{value for held, value in self._by_value(atom) if held} for atom in atoms]
        values = set.union(*each)
        if first.values == 1:
            each = [{v for h, v in self._by_value(atom) if h >= atom.minimum} for atom in atoms]
            values = set.intersection(*each)
        if not values:
            return f"no {domain} holds each of its atoms", fix
        needed, has = Counter[str](), {value: Counter[str]() for value in values}
        for atom in atoms:
            needed.update({name: atom.minimum * amount for name, amount in atom.bundle.items_})
        for machine in self._machines:
            if (here := _value(machine, domain)) in has:
                has[here].update({n: machine.count * a for n, a in machine.resources.items_})
        size = min(first.values, len(values))
        if comb(len(values), size) > _MOST_SETS:
            return None
        sets = [
            (" and ".join(one), sum((has[value] for value in one), Counter[str]()))
            for one in combinations(sorted(values), size)
        ]
        if any(all(total[name] >= needed[name] for name in needed) for _, total in sets):
            return None
        scarce = max(needed, key=lambda name: needed[name] / max(1, *(t[name] for _, t in sets)))
        sets.sort(key=lambda one: -one[1][scarce])
        ends = [sets[0], *sets[-1:]] if len(sets) > 1 else sets
        verb = "has" if size == 1 else "have"
        said = [f"{name} {verb} {format_amount(scarce, total[scarce])}" for name, total in ends]
        asked, place = format_amount(scarce, needed[scarce]), place_words(domain, first.values)
        return f"its atoms take {asked} in {place}; {', '.join(said)}", fix

    def what_rule_leaves(self, atom: Atom) -> str:
        """Return ``spread=2 on 3 machines leaves at most 6 bundles at once``."""
        if atom.within is not None:
            best = [one for one in self._by_value(atom)[: atom.values] if one[0]]
            held, value = sum(one[0] for one in best), " and ".join(one[1] for one in best)
            by = "" if atom.domain is None else f", by={atom.domain}"
            spread = f" with spread={atom.spread}{by}" if atom.spread else ""
            values = f", values={atom.values}" if atom.values != 1 else ""
            rule = f"within={atom.within}{values}{spread}{_label_words(atom.on)}"
            bundles = f"{held} bundle{'s' * (held != 1)}"
            where = f", in {value}" if held else ""
            return f"{rule} leaves at most {bundles} at once{where}"
        count = sum(places for places, fits in self._places(atom) if fits)
        where = f"on {count} machine{'s' * (count != 1)}"
        if atom.domain is not None:
            where = f"in {count} value{'s' * (count != 1)} of {atom.domain}"
        most = self.most_bundles(atom)
        bundles = f"{most} bundle{'s' * (most != 1)}"
        return (
            f"spread={atom.spread} {where}{_label_words(atom.on)} leaves at most {bundles} at once"
        )

    def why_too_many(self, atom: Atom) -> _Said | None:
        """Return (message, fix) if all machines, up and empty, hold fewer than the least height."""
        if not self._machines:
            return None
        key = (atom.bundle, atom.on, 0, None, None)
        if key not in self._most:
            alike = (one for one in self._machines if atom.on is None or atom.on in one.labels)
            self._most[key] = sum(
                one.count * _bundles_in(one.resources, atom.bundle) for one in alike
            )
        most = self._most[key]
        least = -(-atom.minimum // atom.multiple) * atom.multiple
        if least <= most:
            return None
        reached = most // atom.multiple * atom.multiple
        machines = f"all machines{_label_words(atom.on)}"
        message = (
            f"{least} bundles of <{atom.bundle}> at once are more than {machines} hold, {most}"
        )
        return message, f"write min={reached} or less" if reached else None

    def _why_not_so(self, atom: Atom) -> _Said | None:
        known = sorted({name for machine in self._machines for name, _ in machine.domains})
        for domain in (atom.domain, atom.within):
            if domain is not None and domain not in known:
                return f"no machine group names a {domain!r}", did_you_mean(domain, known)
        least = -(-atom.minimum // atom.multiple) * atom.multiple
        most = self.most_bundles(atom)
        if most is None or least <= most:
            return None
        reached = most // atom.multiple * atom.multiple
        other = "a larger spread" if atom.within is None else f"omit within={atom.within}"
        fix = f"write {other}" if atom.within is None else other
        if reached:
            fix = f"write min={reached} or less, or {other}"
        elif atom.domain is not None and not most and atom.within is None:
            fix = f"give their group a {atom.domain}, or write spread without by"
        elif atom.within is not None and not most:
            fix = f"give their group a {atom.within}, or {other}"
        return f"{self.what_rule_leaves(atom)}, fewer than the least height {least}", fix

    def _places(self, atom: Atom, value: str | None = None) -> Iterator[tuple[int, int]]:
        """Yield (how many alike, bundles that fit) of the machines or values of a domain.

        With a `value` of `within`, only of the machines that have it.
        """
        fits: Counter[str] = Counter()
        for machine in self._machines:
            if atom.on is not None and atom.on not in machine.labels:
                continue
            if value is not None and _value(machine, atom.within) != value:
                continue
            each = _bundles_in(machine.resources, atom.bundle)
            if atom.domain is None:
                yield machine.count, each
                continue
            place = _value(machine, atom.domain)
            if place is not None:
                fits[place] += machine.count * each
        for most in fits.values():
            yield 1, most

    def _look(self, bundle: Resources, label: str | None) -> _Said | None:
        machines = self._machines
        if label is not None:
            machines = tuple(m for m in machines if label in m.labels)
            if not machines:
                labels = sorted({known for m in self._machines for known in m.labels})
                return f"no machine carries the label {label!r}", did_you_mean(label, labels)
        if any(_bundles_in(machine.resources, bundle) for machine in machines):
            return None
        carries = _label_words(label)
        for name, amount in bundle.items_:
            most = max(machine.resources.get(name, 0) for machine in machines)
            if not most:
                known = sorted({n for machine in machines for n in machine.resources})
                return f"no machine{carries} has any {name}", did_you_mean(name, known)
            if amount > most:
                fix = f"the largest has {format_amount(name, most)}"
                return f"{format_amount(name, amount)} is more than any machine{carries} has", fix
        return f"no one machine{carries} has all of <{bundle}> together", None


def _value(machine: MachineShape, domain: str | None) -> str | None:
    return None if domain is None else dict(machine.domains).get(domain)


def _label_words(label: str | None) -> str:
    return "" if label is None else f" with the label {label!r}"


def _bundles_in(machine: Resources, bundle: Resources) -> int:
    return min(machine.get(name, 0) // amount for name, amount in bundle.items_)
