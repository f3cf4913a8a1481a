"""How the exact planner's loops are compiled: what holds for all files of this package."""

from __future__ import annotations

from pathlib import Path

import planner.exact.problem
import rdl.work_graph
from planner.compiled import Family

#: Compile a loop, keep it in numba's cache, and let other threads run meanwhile.
compiled = Family(
    Path(__file__).parent,
    planner.exact.problem,
    rdl.work_graph,
    nogil=True,
    error_model="numpy",
).kernel
