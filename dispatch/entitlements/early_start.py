"""Entitlements that begin early because components start late (Rayon 5.2, the adapter's bias)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dispatch.entitlements.directive import AtomShare, Entitlement
from dispatch.entitlements.start_delay import anticipate
from planner.cluster.cluster import Cluster
from rdl.resources import Resources

_Atoms = Sequence[tuple[str, Resources, str | None]]


def capacity_of(cluster: Cluster, away: frozenset[str]) -> dict[str, int]:
    """Return what all machines but those of `away` offer, canonical amounts by resource."""
    room: dict[str, int] = {}
    for group in cluster.machines:
        up = sum(name not in away for name in group.machine_names()) if away else group.count
        for kind, amount in group.resources.items():
            room[kind] = room.get(kind, 0) + up * amount
    return room


def take(room: dict[str, int], amounts: Mapping[str, int]) -> None:
    """Lower what is left by amounts."""
    for kind, amount in amounts.items():
        room[kind] = room.get(kind, 0) - amount


def early_bundles(
    rows: NDArray[np.int64], atom: NDArray[np.int64], step: int, leads: Sequence[int]
) -> dict[int, int]:
    """Return how many bundles of each atom begin within its lead, by number of the atom.

    Parameters
    ----------
    rows, atom
        int64[m, 3] start, end and bundles, and int64[m] the atom of each row.
    step
        The present step.
    leads
        Steps by atom.
    """
    found: dict[int, int] = {}
    for number, lead in enumerate(leads):
        if lead:
            mine = rows[atom == number]
            here = _height(mine, step)
            more = _height(anticipate(mine, lead, 0), step) - here
            if more > 0:
                found[number] = more
    return found


def _height(rows: NDArray[np.int64], step: int) -> int:
    return int(rows[(rows[:, 0] <= step) & (step < rows[:, 1]), 2].sum())


def with_early(
    planned: Entitlement | None, early: Mapping[int, int], atoms: _Atoms, room: dict[str, int]
) -> tuple[AtomShare, ...]:
    """Return the shares of a reservation with its early bundles, as many as fit in `room`.

    `room` is lowered by them. Nothing is returned where nothing is early.
    """
    shares = {} if planned is None else {share.path: share for share in planned.atoms}
    added = False
    for number, more in early.items():
        path, bundle, label = atoms[number]
        fits = min((room.get(kind, 0) // amount for kind, amount in bundle.items()), default=0)
        count = min(more, max(fits, 0))
        if count:
            before = shares[path].bundles if path in shares else 0
            shares[path] = AtomShare(path, before + count, bundle, label)
            take(room, {kind: amount * count for kind, amount in bundle.items()})
            added = True
    return tuple(shares.values()) if added else ()
