"""A Plan file with one reservation and one refusal."""

from __future__ import annotations

from tests.planner.plan_documents import EXAMPLE, EXAMPLE_METRICS, document, refusal, reservation

PLAN = document(
    reservation("r1", "atom(<1 cpu>, 1, 10, 240, 2400)", {"": [[440, 680, 10]]}),
    refusals=[
        refusal(
            "r2",
            submitted=0.5,
            expression="atom(<200 cpu>, 1, 1, 1, 1)",
            detail="no",
            binding={
                "path": "",
                "kind": "fit",
                "at": None,
                "resource": "cpu",
                "needed": "500m",
                "free": 0,
                "policy": None,
            },
        )
    ],
    cluster=EXAMPLE["cluster"],
    metrics=EXAMPLE_METRICS | {"requests": 2, "falls": 10, "uniformity": None, "value": 24.0},
)
