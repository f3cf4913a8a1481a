"""Plan documents by hand, for tests of the validator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.validation.validate import validate
from rdl.resources import Resources

CORE = Resources.of({"cpu": 1000})
SECOND = 1000


def cluster(
    *groups: MachineGroup, horizon: int = 100, outages: Sequence[Outage] = (), **rest: Any
) -> Cluster:
    """Return a cluster of seconds; ten machines of one core by default."""
    machines = groups or (MachineGroup("m", 10, CORE),)
    return Cluster(SECOND, horizon * SECOND, machines, outages=tuple(outages), **rest)


def reservation(
    name: str, expression: str, atoms: dict[str, list[list[int]]], **rest: Any
) -> dict[str, Any]:
    """Return a reservation of one-core bundles; `atoms` are rows by path."""
    bundle, on = rest.pop("bundle", {"cpu": 1}), rest.pop("on", None)
    label = {} if on is None else {"on": on}
    held = [
        {"path": path, "bundle": bundle, "allocation": rows, **label}
        for path, rows in atoms.items()
    ]
    known = {
        "id": name,
        "tenant": "ads",
        "queue": "default",
        "submitted": 0,
        "state": "accepted",
        "weight": 1.0,
        "priority": 0,
        "revision": 1,
        "agent": "gree",
        "expression": expression,
        "choices": {},
        "notes": [],
        "atoms": held,
    }
    return known | rest


def refusal(name: str, **rest: Any) -> dict[str, Any]:
    known = {
        "id": name,
        "tenant": "ads",
        "queue": "default",
        "submitted": 0,
        "weight": 1.0,
        "priority": 0,
        "expression": "atom(<1 cpu>, 1, 1, 1, 1)",
        "code": "capacity",
        "detail": "",
        "binding": None,
        "offers": [],
    }
    return known | rest


def document(
    *reservations: dict[str, Any], refusals: Sequence[dict[str, Any]] = (), **rest: Any
) -> dict[str, Any]:
    """Return a plan document without metrics, so that one fault is one violation."""
    known = {
        "cluster": {},
        "version": 1,
        "step_s": 1,
        "agent": "gree",
        "order": "submitted",
        "reservations": list(reservations),
        "refusals": list(refusals),
        "metrics": None,
    }
    return known | rest


def faults(plan: dict[str, Any], on: Cluster | None = None, **how: Any) -> list[tuple[str, str]]:
    """Return (rule, where) of each violation."""
    return [(v.rule, v.where) for v in validate(plan, cluster=on or cluster(), **how)]


FIVE = "atom(<1 cpu>, 5, 5, 10, 50)"

#: The worked example of docs/files.md: two stages, planned as late as they may run.
STAGES = "window(order(atom(<1 cpu>, 1, 10, 240, 2400), atom(<1 cpu>, 1, 20, 120, 2400)), 0, 800)"
EXAMPLE_RESERVATION = reservation(
    "r1", STAGES, {"0.0": [[440, 680, 10]], "0.1": [[680, 800, 20]]}, promise="pooled"
)
_PART_NAMES = (
    "1 to 10 x <1 cpu> for 40m of work (first of order)",
    "1 to 20 x <1 cpu> for 40m of work (second of order)",
)
EXAMPLE_RESERVATION["atoms"] = [
    {"path": atom["path"], "name": called, **atom}
    for atom, called in zip(EXAMPLE_RESERVATION["atoms"], _PART_NAMES, strict=True)
]
EXAMPLE_METRICS = {
    "runtime_ms": 0.1,
    "acceptance": 1.0,
    "accepted": 1,
    "requests": 1,
    "falls": 30,
    "falls_inner": 0,
    "uniformity": 1.225,
    "value": 1.33333333333,
    "bound": 1.33333333333,
    "gap": 0.0,
    "status": "placed",
}
EXAMPLE = document(
    EXAMPLE_RESERVATION,
    cluster={
        "step": "1s",
        "horizon": "800s",
        "machines": [{"name": "standard", "count": 100, "resources": {"cpu": 1}}],
    },
    metrics=EXAMPLE_METRICS,
)


def placed(
    name: str, expression: str, rows: list[list[int]], slots: Any, **rest: Any
) -> dict[str, Any]:
    """Return a placed reservation of one atom; machine rules in `rest` are requested and held."""
    rule = {
        key: rest.pop(key)
        for key in ("spread", "domain", "within", "values", "handover", "released")
        if key in rest
    }
    words = {
        "spread": "spread={}",
        "domain": "by={}",
        "within": "within={}",
        "values": "values={}",
        "handover": "handover={}",
    }
    asked = [
        words[key].format(_ANSWERS.get(str(rule[key]), rule[key])) for key in words if key in rule
    ]
    text = ", ".join([expression.removesuffix(")"), *asked]) + ")"
    held = reservation(name, text, {"": rows}, **({"promise": "placed"} | rest))
    held["atoms"][0] |= {"slots": slots} | rule
    return held


#: How RDL writes yes and no.
_ANSWERS = {"True": "yes", "False": "no"}
