"""The free capacity of every machine at every step, and the search for slots in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster
from planner.machines.kernels.arrays import BundleKind, MachineTable, SearchTask
from planner.machines.slot_atom import SlotAtom
from planner.machines.stripes import Stripes
from planner.machines.time_ring import TimeRing
from planner.reservations.slots import ANYWHERE, MachineRule
from rdl.resources import Resources
from rdl.time_grid import TimeGrid

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

#: A bundle, the label of its machines, and the rule for them.
_Asked: TypeAlias = tuple[Resources, str | None, MachineRule]

#: Up to so many rows a loop is faster than NumPy.
_FEW = 16

_NO_SLOTS = np.zeros((0, 4), dtype=np.int64)

#: Bytes of trees that a room takes at most; above that machines have lists.
ROOM_BYTES = 128 * 2**20

#: Breaks of a list at first, most breaks of all lists while machines are looked for, and slots for
#: which each then has space if that allows it.
_LEAST_BREAKS = 16
_MOST_BREAKS = 2**26
_SOME_SLOTS = 16

#: Kinds of bundles whose order of stripes is remembered.
_MOST_KINDS = 4096


class Unlaid(NamedTuple):
    """Bundles of a piece over the steps [start, end), and how many of them machines hold."""

    start: int
    end: int
    needed: int
    found: int


class Wanted(NamedTuple):
    """Pieces of an atom that are to be in the same value of a domain as those of others.

    Attributes
    ----------
    pieces
        int64[p, 3]: start step, end step, bundles; each bundle stays on one machine.
    beside
        int64[k, 4]: slots that the atom holds already.
    """

    pieces: I64
    bundle: Resources
    label: str | None
    rule: MachineRule
    beside: I64


class Joint(NamedTuple):
    """Number of bundles of several atoms that the machines of one value hold.

    Attributes
    ----------
    slots, rests
        By atom: int64[k, 4], taken, and int64[p, 3], the pieces that find no machine.
    by_value
        Bundles that find one, by values of the domain; empty if all do.
    """

    slots: list[I64]
    rests: list[I64]
    by_value: dict[tuple[str, ...], int]


class MachineRoom:
    """The free capacity of every machine of a cluster at every step.

    Trees of minima over time, for 64 machines each; if they would take more than `ROOM_BYTES`, a
    list of the steps at which a machine's free capacity changes. Machine numbers go over all groups
    in order. Amounts are counted in 32 bits: a resource of which a machine has more than 2**28 is
    counted in larger units, machines rounded down and bundles up.

    Under a rule with `within` each call is for one occurrence of an atom: its bundles are put into
    one value of the domain, that of the slots which it holds already, or else the one with the
    least capacity that is enough; or into as many values as the rule says.

    Nothing here is safe to use from two threads at the same time while one of them takes slots.

    Parameters
    ----------
    cluster
        The cluster; machines in an outage have no free capacity.
    grid
        Where the room ends: `grid.horizon`.
    first
        First step of the room.
    """

    def __init__(self, cluster: Cluster, grid: TimeGrid, first: int) -> None:
        self._stripes = Stripes(cluster)
        stripes, resources, lanes = self._stripes.capacity.shape
        self._ring = TimeRing.of(first, grid.horizon)
        self._outages = self._stripes.outages(first, grid.horizon)
        has_trees = 2 * self._ring.size * self._stripes.capacity.nbytes <= ROOM_BYTES
        trees, places = (stripes, 0) if has_trees else (0, stripes * lanes)
        self._tree = np.zeros((trees, 2 * self._ring.size, resources, lanes), dtype=np.int32)
        self._breaks = np.full((places, _LEAST_BREAKS), self._ring.first, dtype=np.int32)
        self._left = np.zeros((places, _LEAST_BREAKS, resources), dtype=np.int32)
        self._count = np.ones(places, dtype=np.int64)
        self._numbers = self._ring.numbers()
        self._kinds: dict[tuple[object, ...], BundleKind] = {}
        self._known_amounts: dict[Resources, I64] = {}
        if has_trees:
            self._set(self._ring.first, self._ring.end)
        else:
            self._left[:, 0] = self._stripes.capacity.transpose(0, 2, 1).reshape(places, resources)
            self._close(self._outages)

    @property
    def machines(self) -> int:
        """How many machines there are."""
        return self._stripes.machines

    @property
    def outages(self) -> I64:
        """int64[k, 3]: (machine, first step, end step) of every machine of every outage."""
        return self._outages

    @property
    def dense_width(self) -> int:
        """Steps of a column where machines by columns are to take no more than `ROOM_BYTES`."""
        steps = self._ring.end - self._ring.first
        return max(1, -(-2 * steps * self._stripes.capacity.nbytes // ROOM_BYTES))

    @property
    def nbytes(self) -> int:
        """Bytes of the trees, or of the lists."""
        return self._tree.nbytes + self._breaks.nbytes + self._left.nbytes

    def copy(self) -> MachineRoom:
        """Return an independent copy."""
        other = object.__new__(MachineRoom)
        other.__dict__.update(self.__dict__)
        other._tree = self._tree.copy()
        other._breaks, other._left = self._breaks.copy(), self._left.copy()
        other._count = self._count.copy()
        return other

    def advance(self, grid: TimeGrid, first: int) -> None:
        """Advance to [first, grid.horizon), neither earlier than now; new steps are empty."""
        old = self._ring
        self._ring = old.roll(first, grid.horizon)
        if self._ring.size != old.size:
            self._rebuild(old)
        self._numbers = self._ring.numbers()
        if self._stripes.cluster.recurs:
            self._outages = self._stripes.outages(self._ring.first, self._ring.end)
        if not len(self._count):
            self._set(max(old.end, self._ring.first), self._ring.end)
        elif self._stripes.cluster.recurs:
            later = self._stripes.outages(old.end, self._ring.end)
            self._close(later[later[:, 1] >= old.end])

    def _close(self, outages: I64) -> None:
        """Remove the capacity of machines in outages, if they are lists."""
        self._make_space(self._slots_on(outages[:, 0]))
        _break_kernels().close_between(self._table(), outages)

    def _rebuild(self, old: TimeRing) -> None:
        """Move the columns that stay to a larger ring."""
        ring, before = self._ring, self._tree
        if len(self._count):
            return
        shape = before.shape
        self._tree = np.zeros((shape[0], 2 * ring.size, *shape[2:]), dtype=np.int32)
        kept = np.arange(ring.first, min(old.end, ring.end))
        self._tree[:, ring.size + kept % ring.size] = before[:, old.size + kept % old.size]
        if len(kept):
            self._numbers = ring.numbers()
            _tree_kernels().lift_columns(self._table(), int(kept[0]), int(kept[-1]) + 1)

    def _set(self, start: int, end: int) -> None:
        if start < end and self.machines:
            stripes = self._stripes
            kernels = _tree_kernels()
            kernels.set_columns(self._table(), stripes.capacity, self._outages, start, end)

    def _table(self) -> MachineTable:
        stripes = self._stripes
        lists = self._breaks, self._left, self._count
        return MachineTable(
            self._tree, *lists, self._numbers, stripes.first_machine, stripes.lane_of
        )

    def _slots_on(self, machines: I64) -> int:
        """Return the most slots that one machine has of slots on these machines."""
        return int(np.bincount(machines[machines >= 0]).max(initial=0))

    def _make_space(self, slots: int, *, always: bool = True) -> None:
        """Let the list of every machine, if machines have some, take so many slots more.

        Unless it must `always` be so, lists take no more than `_MOST_BREAKS` together.
        """
        if not len(self._count):
            return
        needed = int(self._count.max()) + 2 * slots + 1
        if needed <= self._breaks.shape[1]:
            return
        _break_kernels().join_breaks(self._table())
        needed = int(self._count.max()) + 2 * slots + 1
        length = 2 * needed
        if not always:
            length = min(length, _MOST_BREAKS // len(self._count))
        more = length - self._breaks.shape[1]
        if more > 0 and 2 * needed > self._breaks.shape[1]:
            self._breaks = np.pad(self._breaks, ((0, 0), (0, more)))
            self._left = np.pad(self._left, ((0, 0), (0, more), (0, 0)))

    def _open_table(self, pieces: int = 0) -> MachineTable:
        """Return the table with some space in its lists, for a search of machines.

        Parameters
        ----------
        pieces
            Limit of bundles on one machine.
        """
        self._make_space(max(_SOME_SLOTS, pieces), always=False)
        return self._table()

    def _amounts(self, bundle: Resources) -> I64:
        """Return a bundle's use, in the form for compiled code."""
        known = self._known_amounts.get(bundle)
        if known is None:
            if len(self._known_amounts) >= _MOST_KINDS:
                self._known_amounts = {}
            known = self._known_amounts[bundle] = self._stripes.amounts(bundle)
        return known

    def _kind(
        self,
        bundle: Resources,
        label: str | None,
        rule: MachineRule,
        values: tuple[int, ...] | None = None,
    ) -> BundleKind:
        """Return bundles of one kind, on the machines of some values of `within` if it is said."""
        key = (bundle, label, rule.spread, rule.domain, rule.within, values)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds = {}
            kind = self._kinds[key] = self._kind_of(bundle, label, rule, values)
        return kind

    def _kind_of(
        self,
        bundle: Resources,
        label: str | None,
        rule: MachineRule,
        values: tuple[int, ...] | None,
    ) -> BundleKind:
        stripes = self._stripes
        if values is not None:
            whole = self._kind(bundle, label, rule)
            value_of = stripes.values(rule.within)[1]
            return whole._replace(order=whole.order[np.isin(value_of[whole.order], values)])
        amounts = stripes.amounts(bundle)
        largest = stripes.capacity.max(axis=(0, 2), initial=1)[amounts[:, 0]]
        order = stripes.order(bundle, label, rule.domain if rule.spread else None)
        return BundleKind(amounts, 1.0 / largest, order, stripes.domains(rule), rule.spread)

    def _kinds_in(
        self, asked: _Asked, beside: I64 | None, start: int, end: int, lease: int = 0
    ) -> list[BundleKind]:
        """Return the kinds of bundles to try: one, or under `within` one for each set of values.

        Parameters
        ----------
        beside
            int64[k, 4]: slots that the atom holds already (`Stripes.value_sets`).
        start, end, lease
            The steps that bundles are to be there for: all, or with a lease so many of them.
        """
        bundle, label, rule = asked
        if rule.within is None:
            return [self._kind(bundle, label, rule)]
        sets = self._value_sets(asked, beside, start, end, lease)
        return [self._kind(bundle, label, rule, one) for one in sets]

    def _value_sets(
        self, asked: _Asked, beside: I64 | None, start: int, end: int, lease: int = 0
    ) -> list[tuple[int, ...]]:
        def held(value: int) -> I64:
            kind = self._kind(*asked, (value,))
            if not lease:
                return np.array([self._find_slots(kind, start, end, 2**31)])
            return self._most_held(kind, start, end, lease)

        return self._stripes.value_sets(asked[2], beside, held)

    def _in_one_value(
        self,
        asked: _Asked,
        beside: I64 | None,
        pieces: I64,
        attempt: Callable[[BundleKind], tuple[I64, I64]],
        left: Callable[[I64], int],
    ) -> tuple[I64, I64]:
        """Return (slots taken, rest) of an attempt in the value that holds all with least capacity.

        If none holds all, of the one that leaves least.

        Parameters
        ----------
        pieces
            int64[p, 3]: start step, end step, bundles.
        attempt
            Takes slots; returns them and the rest, all zeros or empty if there is none.
        left
            Returns how many bundles a rest is.
        """
        if not len(pieces):
            return attempt(self._kind(*asked))
        span = int(pieces[:, 0].min()), int(pieces[:, 1].max())
        kinds = self._kinds_in(asked, beside, *span)
        if len(kinds) == 1:
            return attempt(kinds[0])
        needed = int(pieces[:, 2].max())
        counts = [self._find_slots(kind, *span, 2**31) for kind in kinds]
        best: tuple[int, BundleKind] | None = None
        for at in sorted(range(len(kinds)), key=lambda i: (counts[i] < needed, counts[i])):
            slots, rest = attempt(kinds[at])
            if not rest.any():
                return slots, rest
            self.take(slots, asked[0], -1)
            if best is None or left(rest) < best[0]:
                best = left(rest), kinds[at]
        assert best is not None
        return attempt(best[1])

    def lay_joint(self, wanted: Sequence[Wanted]) -> Joint:
        """Take slots for atoms that are all in one value of `within`, as `lay_some` does.

        In the value of the slots that they hold already; else in the one that holds all with the
        least capacity; if none does, in the one that holds most.
        """
        beside = np.concatenate([one.beside for one in wanted])
        needed = sum(int(one.pieces[:, 2].sum()) for one in wanted)

        def kinds_in(values: tuple[int, ...]) -> list[BundleKind]:
            return [self._kind(one.bundle, one.label, one.rule, values) for one in wanted]

        def held(value: int) -> F64:
            kinds = kinds_in((value,))
            slots, _ = self._lay_all(wanted, kinds)
            self.release_joint(wanted, slots)
            shares = [(kind.amounts[:, 1] * kind.weights).max(initial=0) for kind in kinds]
            pairs = zip(slots, shares, strict=True)
            return np.array([sum(own[:, 2].sum() * share for own, share in pairs)])

        sets = self._stripes.value_sets(wanted[0].rule, beside, held)
        found: dict[tuple[int, ...], int] = {}
        for values in sorted(sets, key=lambda one: self._capacity_for(wanted, kinds_in(one))):
            slots, rests = self._lay_all(wanted, kinds_in(values))
            if not any(map(len, rests)):
                return Joint(slots, rests, {})
            found[values] = needed - sum(map(_bundles_missing, rests))
            self.release_joint(wanted, slots)
        slots, rests = self._lay_all(wanted, kinds_in(max(found, key=lambda one: found[one])))
        if len(beside):
            return Joint(slots, rests, {})
        return Joint(slots, rests, self._by_name(wanted[0].rule, found))

    def _capacity_for(
        self, wanted: Sequence[Wanted], kinds: Sequence[BundleKind]
    ) -> tuple[bool, int]:
        """Return whether some atom on its own finds too few slots, and how many each finds on its
        own."""
        short, total = False, 0
        for one, kind in zip(wanted, kinds, strict=True):
            if len(one.pieces):
                start, end = int(one.pieces[:, 0].min()), int(one.pieces[:, 1].max())
                count = self._find_slots(kind, start, end, 2**31)
                short = short or count < int(one.pieces[:, 2].max())
                total += count
        return short, total

    def _by_name(
        self, rule: MachineRule, found: Mapping[tuple[int, ...], int]
    ) -> dict[tuple[str, ...], int]:
        names = self._stripes.values(rule.within)[0]
        return {tuple(names[i] for i in one): count for one, count in found.items() if one}

    def _lay_all(
        self, wanted: Sequence[Wanted], kinds: Sequence[BundleKind]
    ) -> tuple[list[I64], list[I64]]:
        """Take slots for each atom, on the machines of its kind; return them and the rest."""
        found = [
            self._lay_on(kind, _joint(one.pieces), one.beside, whole=False)
            for one, kind in zip(wanted, kinds, strict=True)
        ]
        return [slots for slots, _ in found], [rest for _, rest in found]

    def release_joint(self, wanted: Sequence[Wanted], slots: Sequence[I64]) -> None:
        """Release the slots that `lay_joint` has taken."""
        for one, own in zip(wanted, slots, strict=True):
            self.take(own, one.bundle, -1)

    def _unlaid(self, asked: _Asked, beside: I64 | None, short: I64) -> Unlaid:
        """Return the pieces without a machine; under `within`, the part that the best value
        holds."""
        start, end, needed, found = short.tolist()
        kinds = self._kinds_in(asked, beside, start, end)
        if len(kinds) > 1:
            most = max(self._find_slots(kind, start, end, needed) for kind in kinds)
            found = min(max(found, most), needed - 1)
        return Unlaid(start, end, needed, found)

    def take(self, slots: I64, bundle: Resources, sign: int) -> None:
        """Take slots (sign 1) or give them back (-1), whether there is room or not.

        Parameters
        ----------
        slots
            int64[k, 4]: start step, end step, bundles, machine. Slots outside the table are cut
            off; machine -1 is none.
        """
        if len(slots):
            if len(self._count):
                self._make_space(self._slots_on(slots[:, 3]))
            amounts = self._amounts(bundle)
            _tree_kernels().take_slots(self._table(), amounts, _copy_of(slots), sign)

    def is_away(self, machine: int, step: int) -> bool:
        """Return whether an outage of a machine touches a step."""
        outages = self.outages
        mine = outages[outages[:, 0] == machine]
        return bool(((mine[:, 1] <= step) & (mine[:, 2] > step)).any())

    def fits(self, slots: I64, bundle: Resources) -> bool:
        """Return whether all slots together could be taken and leave no machine below zero."""
        return bool(self._fits(slots, bundle))

    def _fits(self, slots: I64, bundle: Resources) -> bool:
        from planner.machines.kernels.fitting import all_fit

        if not len(slots):
            return True
        if any(name not in self._stripes.shifts for name in bundle):
            return not np.any((slots[:, 3] >= 0) & (slots[:, 2] > 0))
        return bool(all_fit(self._table(), self._amounts(bundle), _copy_of(slots)))

    def count(
        self,
        start: int,
        end: int,
        bundle: Resources,
        rule: MachineRule = ANYWHERE,
        label: str | None = None,
        most: int = 2**31,
    ) -> int:
        """Return how many bundles find a slot over all of [start, end), at most `most`."""
        kinds = self._kinds_in((bundle, label, rule), None, start, end)
        return max(self._find_slots(kind, start, end, most) for kind in kinds)

    def _find_slots(self, kind: BundleKind, start: int, end: int, most: int) -> int:
        from planner.machines.kernels.counting import count_over

        return int(count_over(self._open_table(), kind, start, end, most))

    def count_by_value(
        self, start: int, end: int, bundle: Resources, rule: MachineRule, label: str | None
    ) -> dict[tuple[str, ...], int]:
        """Return how many bundles find a slot over all of [start, end), by values of `within`."""
        asked = (bundle, label, rule)
        counts = {
            one: self._find_slots(self._kind(*asked, one), start, end, 2**31)
            for one in self._value_sets(asked, None, start, end)
        }
        return self._by_name(rule, counts)

    def most_held(
        self,
        start: int,
        end: int,
        lease: int,
        bundle: Resources,
        label: str | None,
        within: str | None = None,
    ) -> I64:
        """Return int64[end - start]: the maximum number of bundles if each stays for a lease.

        An upper bound on what any agent can place in [start, end) in addition to present
        slots; under `within` in the best value of this domain at each step.
        """
        kinds = self._kinds_in((bundle, label, MachineRule(within=within)), None, start, end)
        most: I64 = np.maximum.reduce([self._most_held(one, start, end, lease) for one in kinds])
        return most

    def _most_held(self, kind: BundleKind, start: int, end: int, lease: int) -> I64:
        from planner.machines.kernels.most_held import most_held

        held = np.zeros(end - start, dtype=np.int64)
        most_held(self._table(), kind, start, end, lease, held)
        return held

    def cells(self, start: int, end: int) -> int:
        """Return the number of cells in [start, end) that `most_held` reads."""
        return len(self._stripes.group_of) * (end - start)

    def stand(
        self, rows: I64, bundle: Resources, label: str | None, rule: MachineRule
    ) -> I64 | Unlaid:
        """Place the rows of one atom that occurs once and take the slots, or return the pieces
        without one.

        As `lay` does with the pieces of the rows, in one call.

        Parameters
        ----------
        rows
            int64[m, 3]: start step, end step, bundles; sorted and disjoint.

        Returns
        -------
        int64[k, 4], sorted by start, end and machine; or, with nothing taken, the pieces without a
        machine.
        """
        from planner.machines.kernels.standing import stand_rows

        def attempt(wanted: BundleKind) -> tuple[I64, I64]:
            found: tuple[I64, I64] = stand_rows(self._open_table(len(rows)), wanted, _copy_of(rows))
            return found

        asked = (bundle, label, rule)
        slots, short = self._in_one_value(asked, None, rows, attempt, _bundles_short)
        return self._unlaid(asked, None, short) if len(short) else slots

    def lay(
        self,
        pieces: I64,
        bundle: Resources,
        label: str | None,
        rule: MachineRule,
        beside: I64 | None = None,
    ) -> I64 | None:
        """Lay pieces on machines and take the slots; None, with nothing taken, if some find none.

        Parameters
        ----------
        pieces
            int64[p, 3]: start step, end step, bundles. Each bundle stays on one machine over its
            whole interval.
        beside
            int64[k, 4]: slots that the atom holds already, which count for the rule.

        Returns
        -------
        int64[k, 4], sorted by start, end and machine, or None.
        """
        slots, missing = self._lay(pieces, (bundle, label, rule), beside, whole=True)
        return None if len(missing) else slots

    def lay_in_parts(
        self,
        pieces: I64,
        bundle: Resources,
        label: str | None,
        rule: MachineRule,
        lease: int,
        beside: I64 | None = None,
    ) -> I64 | Unlaid:
        """Lay pieces and take the slots; bundles may change machine between leases.

        A bundle stays where it is as long as it can. Nothing is taken where some find no machine.

        Parameters
        ----------
        lease
            Steps that a bundle is on a machine at least.

        Returns
        -------
        int64[k, 4], sorted by start, end and machine; or the pieces without a machine.
        """
        from planner.machines.kernels.handovers import lay_in_parts

        rows, asked = _joint(pieces), (bundle, label, rule)

        def attempt(wanted: BundleKind) -> tuple[I64, I64]:
            found: tuple[I64, I64] = lay_in_parts(
                self._open_table(len(rows)), wanted, rows, _beside(beside), lease
            )
            return found

        slots, short = self._in_one_value(asked, beside, rows, attempt, _bundles_short)
        return self._unlaid(asked, beside, short) if len(short) else slots

    def lay_kinds(
        self,
        pieces: I64,
        kinds: Sequence[tuple[Resources, str | None, MachineRule]],
        *,
        keeps: bool,
    ) -> tuple[I64, I64] | None:
        """Lay pieces of several kinds without a spread and take the slots.

        Parameters
        ----------
        pieces
            int64[p, 5]: start step, end step, bundles, the machine that is tried first or -1, and
            the place of its kind.
        keeps
            Whether pieces without a machine come first, then those that can stay, then the
            others; otherwise all come in their order.

        Returns
        -------
        int64[k, 4] and int64[k], the piece that each slot is of; None, with nothing taken, if
        some find no machine.
        """
        from planner.machines.kernels.moving import PackedKinds, lay_kinds

        each = [self._kind(bundle, label, ANYWHERE) for bundle, label, _ in kinds]
        packed = PackedKinds(
            np.concatenate([one.amounts for one in each]),
            np.concatenate([one.weights for one in each]),
            np.concatenate([one.order for one in each]),
            np.cumsum([0, *(len(one.amounts) for one in each)]),
            np.cumsum([0, *(len(one.order) for one in each)]),
        )
        slots, source = lay_kinds(self._open_table(len(pieces)), packed, _copy_of(pieces), keeps)
        return (slots, source) if len(slots) else None

    def lay_some(
        self,
        pieces: I64,
        bundle: Resources,
        label: str | None,
        rule: MachineRule,
        beside: I64 | None = None,
    ) -> tuple[I64, I64]:
        """Do the same as `lay` and keep the found slots; return them, and the pieces without
        one."""
        return self._lay(pieces, (bundle, label, rule), beside, whole=False)

    def _lay(
        self,
        pieces: I64,
        kind: _Asked,
        beside: I64 | None,
        *,
        whole: bool,
    ) -> tuple[I64, I64]:
        asked = _joint(pieces)

        def attempt(wanted: BundleKind) -> tuple[I64, I64]:
            return self._lay_on(wanted, asked, beside, whole=whole)

        return self._in_one_value(kind, beside, asked, attempt, _bundles_missing)

    def _lay_on(
        self, kind: BundleKind, asked: I64, beside: I64 | None, *, whole: bool
    ) -> tuple[I64, I64]:
        """Take slots for joined pieces on machines of a kind; return them and the rest."""
        from planner.machines.kernels.laying import lay_pieces

        if not len(asked):
            return _NO_SLOTS.copy(), asked
        table = self._open_table(len(asked))
        slots, missing = lay_pieces(table, kind, asked, _beside(beside), whole)
        left = asked[missing > 0]
        left[:, 2] = missing[missing > 0]
        return _in_order(slots), left

    def search(
        self,
        atom: SlotAtom,
        room: I64,
        tries: int,
        best_of: int,
        beside: I64 | None = None,
    ) -> I64 | None:
        """Find slots for one atom wherever its window allows, and take them.

        Rectangles first: heights from the lowest, up to `tries` starts that the pool allows, the
        best fit of the first `best_of` that find machines. Else, where bundles may be handed over,
        lease by lease: free runs of machines, or whole blocks of a gang.

        Parameters
        ----------
        room
            int64[hi - lo]: bundles that the pool allows at each step of the window.
        beside
            int64[k, 4]: slots that the atom holds already, which count for the rule.

        Returns
        -------
        int64[k, 4], sorted by start, end and machine; None, with nothing taken, if there are none.
        """
        from planner.machines.kernels.leases import search_atom

        sought, cut = self._task(atom, room, tries, best_of)
        if sought is None:
            return None
        span = sought.lo, sought.hi, atom.lease
        kinds = self._kinds_in((atom.bundle, atom.label, atom.rule), beside, *span)
        best: tuple[tuple[int, int], I64] | None = None
        for wanted in kinds:
            slots: I64 = search_atom(
                self._open_table(), wanted, sought, cut, _beside(beside), atom.rule.handover
            )
            if len(kinds) == 1:
                return slots if len(slots) else None
            if not len(slots):
                continue
            start, end = int(slots[:, 0].min()), int(slots[:, 1].max())
            spare = self._find_slots(wanted, start, end, 2**31)
            key = (end, spare) if atom.early else (spare, -start)
            if best is None or key < best[0]:
                best = key, slots
            self.take(slots, atom.bundle, -1)
        if best is None:
            return None
        self.take(best[1], atom.bundle, 1)
        return best[1]

    def most_found(
        self, atom: SlotAtom, room: I64, tries: int, beside: I64 | None = None
    ) -> tuple[int, int]:
        """Return (start, bundles) of the start where most of the lowest rectangle find a slot.

        It checks the same starts as `search`, and returns (window start, 0) if there are none.
        """
        from planner.machines.kernels.rectangles import most_slots

        sought, cut = self._task(atom, room, tries, 1)
        if sought is None:
            return atom.lo, 0
        span = sought.lo, sought.hi, atom.lease
        kinds = self._kinds_in((atom.bundle, atom.label, atom.rule), beside, *span)
        each = [most_slots(self._open_table(), one, sought, cut, _beside(beside)) for one in kinds]
        start, found = max(each, key=lambda one: int(one[1]))
        return int(start), int(found)

    def _task(
        self, atom: SlotAtom, room: I64, tries: int, best_of: int
    ) -> tuple[SearchTask | None, I64]:
        """Return the atom inside the room's steps, with the pool's room there."""
        ring = self._ring
        lo, hi = max(atom.lo, ring.first), min(atom.hi, ring.end)
        if lo >= hi or atom.work < 1:
            return None, room[:0]
        numbers = (atom.least, atom.most, atom.multiple, atom.lease, atom.work, int(atom.early))
        sought = SearchTask(lo, hi, *numbers, max(1, tries), max(1, best_of))
        return sought, _copy_of(room[lo - atom.lo : hi - atom.lo])


@cache
def _break_kernels() -> ModuleType:
    """Return the compiled part of lists, loaded only where machines have some."""
    from planner.machines.kernels import breaks

    return breaks


@cache
def _tree_kernels() -> ModuleType:
    """Return the compiled part, loaded when first needed: it takes a moment."""
    from planner.machines.kernels import tree

    return tree


def _copy_of(values: I64) -> I64:
    """Return a copy: compiled code would treat a read-only or sliced array as another type and
    compile twice."""
    return np.array(values, dtype=np.int64, order="C")


def _beside(slots: I64 | None) -> I64:
    return _NO_SLOTS.copy() if slots is None else _copy_of(slots)


def _bundles_short(short: I64) -> int:
    return int(short[2] - short[3])


def _bundles_missing(left: I64) -> int:
    return int(left[:, 2].sum())


def _joint(pieces: I64) -> I64:
    """Return pieces with those of one interval joined, the longest first, then the earliest."""
    if len(pieces) <= _FEW:
        return _joint_few(pieces)
    kept: I64 = _copy_of(pieces[pieces[:, 2] > 0])
    order = np.lexsort((kept[:, 0], kept[:, 0] - kept[:, 1]))
    kept = kept[order]
    new = np.append(True, np.any(kept[1:, :2] != kept[:-1, :2], axis=1))
    joined: I64 = kept[new]
    joined[:, 2] = np.add.reduceat(kept[:, 2], np.flatnonzero(new))
    return joined


def _joint_few(pieces: I64) -> I64:
    """Do as `_joint` without NumPy's cost of a call."""
    counts: dict[tuple[int, int], int] = {}
    for start, end, bundles in pieces.tolist():
        if bundles > 0:
            counts[start - end, start] = counts.get((start - end, start), 0) + bundles
    found = [(start, start - less, count) for (less, start), count in sorted(counts.items())]
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def _in_order(slots: I64) -> I64:
    """Return slots sorted by start, end and machine."""
    if len(slots) < 2:
        return slots
    ordered: I64 = slots[np.lexsort((slots[:, 3], slots[:, 1], slots[:, 0]))]
    return ordered
