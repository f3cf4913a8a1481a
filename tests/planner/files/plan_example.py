"""A Plan file written by hand: one reservation and one refusal."""

from __future__ import annotations

PLAN = {
    "cluster": {
        "step": "1s",
        "horizon": "800s",
        "machines": [{"name": "m", "count": 100, "resources": {"cpu": 1}}],
    },
    "version": 1,
    "step_s": 1,
    "agent": "gree",
    "order": "submitted",
    "reservations": [
        {
            "id": "r1",
            "tenant": "ads",
            "queue": "default",
            "submitted": 0,
            "state": "accepted",
            "weight": 1.0,
            "priority": 0,
            "revision": 1,
            "agent": "gree",
            "expression": "atom(<1 cpu>, 1, 10, 240, 2400)",
            "choices": {},
            "notes": [],
            "atoms": [{"path": "", "bundle": {"cpu": 1}, "allocation": [[440, 680, 10]]}],
        }
    ],
    "refusals": [
        {
            "id": "r2",
            "tenant": "ads",
            "queue": "default",
            "submitted": 0.5,
            "weight": 1.0,
            "priority": 0,
            "expression": "atom(<200 cpu>, 1, 1, 1, 1)",
            "code": "capacity",
            "detail": "no",
            "binding": {
                "path": "",
                "kind": "fit",
                "at": None,
                "resource": "cpu",
                "needed": "500m",
                "free": 0,
                "policy": None,
            },
            "offers": [],
        }
    ],
    "metrics": {
        "runtime_ms": 0.1,
        "acceptance": 1.0,
        "accepted": 1,
        "requests": 2,
        "preemption": 10,
        "preemption_inner": 0,
        "uniformity": None,
        "value": 24.0,
        "bound": None,
        "gap": None,
        "status": "placed",
    },
}
