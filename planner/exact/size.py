"""What the exact planner will take of memory and time, counted before anything is laid out."""

from __future__ import annotations

from collections.abc import Sequence

from planner.request import Request
from planner.view import PlanView
from rdl.work_graph import ATOM, END, KIND, LEASE, MAX_HEIGHT, MIN_HEIGHT, START

#: Bytes of one column of one vertex: caps, three scratch lines shared by a request's vertices.
_CELL = 8
#: Bytes of one slot of a row in three plans.
_SLOT = 72
#: Arrays as large as the profile that the bound's two starts and the search keep.
_COPIES = 12
#: Seconds to look at one lease that ends at one column, about: leases of all lengths from l to
#: 2 l - 1 are looked at for every column of a malleable atom.
_LEASE_S = 1e-9


def predicted_bytes(requests: Sequence[Request], view: PlanView) -> int:
    """Return about how many bytes prices and plans of these requests will take."""
    from planner.exact.search import MOST_ROWS

    caps = slots = largest = 0
    for request in requests:
        vertices = request.graph.vertices
        widths = (vertices[:, END] - vertices[:, START]).clip(1)
        own = int(widths.sum())
        caps += own
        largest = max(largest, own)
        slots += int(widths.clip(max=MOST_ROWS).sum())
    profile = int(view.free.size) * _COPIES
    return _CELL * (caps + 9 * largest + profile) + _SLOT * slots


def predicted_evaluation_s(requests: Sequence[Request]) -> float:
    """Return about how many seconds the bound at one set of prices will take.

    A compiled call of one evaluation is the shortest that the clock can end, so that where it takes
    a good part of the limit, the limit could not be kept.
    """
    looks = 0
    for request in requests:
        atoms = request.graph.vertices
        atoms = atoms[(atoms[:, KIND] == ATOM) & (atoms[:, MIN_HEIGHT] < atoms[:, MAX_HEIGHT])]
        looks += int(((atoms[:, END] - atoms[:, START]).clip(0) * atoms[:, LEASE]).sum())
    return looks * _LEASE_S
