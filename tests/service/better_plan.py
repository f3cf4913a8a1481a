"""A Plan that an optimisation makes better, and what it finds."""

from __future__ import annotations

from typing import Any

import msgspec

from planner.agent import Limits
from planner.optimization.codec import change_to_json
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from service.jobs.job import OptimizationJob
from service.store import OptimizationRow
from tests.service.conftest import Service

#: Stands in the middle of the only place of the other; three quarters of the cluster each.
IN_THE_WAY = "window(atom(<1 cpu>, 8, 8, 1800, 14400), 30m, 100m)"
LEFT_OUT = "window(atom(<1 cpu>, 8, 8, 1800, 14400), 40m, 80m)"


def two_in_the_way(service: Service) -> None:
    """Reserve the binding limit of another request, which is refused."""
    service.reserve("a", IN_THE_WAY, agent="earliest")
    assert service.ask("b", LEFT_OUT).status_code == 409


def found(service: Service, id_: str = "p-1", **row: Any) -> str:
    """Keep what an optimisation of the Plan as it is finds, as its process would; return its id."""
    runtime = service.runtime
    with runtime.reading() as plan:
        better = optimize(
            plan,
            None,
            OptimizeScope(admit_refused=True),
            OptimizeOptions(Limits(work=60, seed=1), solver=""),
        )
    changes = [change_to_json(one) for one in better.changes]
    result = {"based_on": better.based_on, "changes": changes}
    result |= {"found": better.to_json(), "diff": {}}
    rows, now_ms = runtime.optimizations.rows, runtime.optimizations.now_ms()
    document = msgspec.json.encode(OptimizationJob(0))
    kept = {"state": "finished", "result": msgspec.json.encode(result), **row}
    rows.add(OptimizationRow(id_, now_ms, document, now_ms, **kept), most=9)
    return id_
