"""What a Plan file says of a Plan."""

from __future__ import annotations

import json
from typing import Any

from planner.metrics import measure
from planner.plan.plan import Plan
from planner.workload.plan import document_of


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return a Plan as a Plan file says it, without metrics."""
    metrics = measure([], plan.cluster.nominal, plan.grid.horizon)
    document = document_of(plan, "gree", "submitted", metrics).to_json()
    del document["metrics"]
    return dict(json.loads(json.dumps(document)))
