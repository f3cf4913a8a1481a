"""Whether work that had begun changed its machine from one state of a Plan to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from planner.cluster.cluster import Cluster
from planner.validation.document import (
    PlanViolation,
    UnreadableError,
    milliseconds,
    read_rows,
    read_slots,
)
from planner.validation.machines import NOWHERE, NamedMachines
from planner.validation.slot_rules import height_changes
from rdl.time_grid import TimeGrid

#: Steps of a grid on which every slot of any document lies.
_ENDLESS = 2**40


class _SlotsOfAtom:
    """Slots and released rows of one atom entry, as one document has them."""

    def __init__(self, entry: Mapping[str, object], where: str, grid: TimeGrid) -> None:
        slots = read_slots(entry, where, grid)
        self.rows: dict[str, list[list[int]]] = {}
        if slots is not None:
            for row, machine in zip(slots.rows.tolist(), slots.machines, strict=True):
                if machine is not None:
                    self.rows.setdefault(machine, []).append(row)
        self.released = read_rows(entry.get("released", []), f"{where}/released", grid)

    def bundles_across(self, machine: str, step: int) -> int:
        """Return the bundles on a machine that were there before a step and stay in it."""
        return sum(n for start, end, n in self.rows.get(machine, ()) if start < step < end)

    def bundles_from(self, machine: str, step: int) -> int:
        """Return the bundles that begin on a machine at a step."""
        return sum(n for start, _, n in self.rows.get(machine, ()) if start == step)

    def released_at(self, step: int) -> int:
        """Return the bundles released for a step."""
        rows = self.released
        return int(rows[(rows[:, 0] <= step) & (step < rows[:, 1]), 2].sum())

    def past(self, machine: str, now: int) -> dict[int, int]:
        """Return by how much what a machine held before `now` changes at each step."""
        rows = [(s, min(e, now), n) for s, e, n in self.rows.get(machine, ()) if s < now]
        return {step: change for step, change in height_changes(rows).items() if change}


def begun_slots_moved(
    before: Mapping[str, object],
    after: Mapping[str, object],
    now_s: float,
    *,
    cluster: Cluster | None = None,
) -> list[PlanViolation]:
    """Return the atoms whose begun bundles are on another machine after than before.

    A slot has begun if it starts before `now_s`. It may end earlier or later than it did, and
    what was on a machine that is lost now may continue anywhere. A slot that has not begun may
    move.

    Parameters
    ----------
    before, after
        Documents of two successive states of one Plan: between them the present did not pass the
        start of a slot that moved. `where` in what is found points into `after`.
    now_s
        The present of the later state in seconds from the origin.
    cluster
        That of the later state; by default the one in `after`.

    Raises
    ------
    ValueError
        If slots of a document cannot be read; the message says where and what would be right.
    """
    if cluster is None:
        from planner.files import cluster_from_json

        cluster = cluster_from_json(after.get("cluster"), "cluster")
    grid = cluster.grid().with_horizon(_ENDLESS)
    now = grid.ceil(milliseconds(now_s, "now_s"))
    machines = NamedMachines(cluster, grid)
    old = {key: atom for key, _, atom in _atoms(before, grid)}
    return [
        PlanViolation(where, "moved", detail, key[0], now)
        for key, where, atom in _atoms(after, grid)
        if key in old and (detail := _move_words(old[key], atom, now, machines))
    ]


def _atoms(
    document: Mapping[str, object], grid: TimeGrid
) -> Iterable[tuple[tuple[str, str], str, _SlotsOfAtom]]:
    """Yield ((id, path), where, slots) of every atom entry."""
    reservations = document.get("reservations")
    for i, entry in enumerate(reservations if isinstance(reservations, list) else ()):
        atoms = entry.get("atoms") if isinstance(entry, Mapping) else None
        for j, atom in enumerate(atoms if isinstance(atoms, list) else ()):
            if isinstance(atom, Mapping):
                where = f"/reservations/{i}/atoms/{j}"
                key = str(entry.get("id")), str(atom.get("path"))
                try:
                    yield key, f"{where}/slots", _SlotsOfAtom(atom, where, grid)
                except UnreadableError as error:
                    raise ValueError(f"{error.where}: {error}") from error


def _move_words(old: _SlotsOfAtom, new: _SlotsOfAtom, now: int, machines: NamedMachines) -> str:
    """Return a sentence about bundles that changed machine, or nothing."""
    names = sorted(old.rows.keys() | new.rows.keys())
    step, lost, gained = _change_of_past(old, new, now, names)
    if lost and gained:
        return (
            f"bundles that were on {lost[0]} at step {step} are said to have been on {gained[0]}, "
            f"and it is step {now}"
        )
    lost, gained = [], []
    left = came = 0
    for name in names:
        before, still = old.bundles_across(name, now), new.bundles_across(name, now)
        begun = max(0, new.bundles_from(name, now) - old.bundles_from(name, now))
        # Of what seems to go and come on one machine nothing has moved.
        gone, here = max(0, before - still - begun), max(0, begun - max(0, before - still))
        if gone and not _is_lost(machines, name, now):
            left += gone
            lost.append(name)
        if here:
            came += here
            gained.append(name)
    left -= max(0, new.released_at(now) - old.released_at(now))
    if min(left, came) <= 0:
        return ""
    return (
        f"{min(left, came)} bundles that had begun on {', '.join(lost)} continue at step {now} on "
        f"{', '.join(gained)}"
    )


def _change_of_past(
    old: _SlotsOfAtom, new: _SlotsOfAtom, now: int, names: Sequence[str]
) -> tuple[int, list[str], list[str]]:
    """Return the first step before `now` at which some machines hold less and others more."""
    pasts = [(name, old.past(name, now), new.past(name, now)) for name in names]
    pasts = [one for one in pasts if one[1] != one[2]]
    heights = dict.fromkeys((name for name, _, _ in pasts), 0)
    for step in sorted({step for _, mine, theirs in pasts for step in (*mine, *theirs)}):
        for name, mine, theirs in pasts:
            heights[name] += theirs.get(step, 0) - mine.get(step, 0)
        lost = [name for name, height in heights.items() if height < 0]
        gained = [name for name, height in heights.items() if height > 0]
        if lost and gained:
            return step, lost, gained
    return now, [], []


def _is_lost(machines: NamedMachines, name: str, step: int) -> bool:
    number = machines.number_of(name)
    return number == NOWHERE or machines.is_away(number, step)
