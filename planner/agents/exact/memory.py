"""What the exact planner will take of memory, counted before anything is laid out."""

from __future__ import annotations

from collections.abc import Sequence

from planner.request import Request
from planner.view import PlanView
from rdl.work_graph import END, START

#: Bytes of one column of one vertex: caps, three scratch lines shared by a request's vertices.
_CELL = 8
#: Bytes of one slot of a row in three plans.
_SLOT = 72
#: Arrays as large as the profile that the bound's two starts and the search keep.
_COPIES = 12


def predicted_bytes(requests: Sequence[Request], view: PlanView) -> int:
    """Return about how many bytes prices and plans of these requests will take."""
    from planner.agents.exact.ruin_recreate import MOST_ROWS

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
