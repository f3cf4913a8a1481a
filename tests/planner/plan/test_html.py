"""What a notebook shows of a Plan."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.colours import COLOURS
from planner.files import WorkloadLine, cluster_from_json
from planner.plan.plan import Plan
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_from_nothing

GANG = "window(atom(<1 cpu>, 2, 2, 10s, 20s), 0, 20)"


def machines() -> Cluster:
    """Return forty machines of a core."""
    group = {"name": "m", "count": 40, "resources": {"cpu": 1}}
    return cluster_from_json({"step": "1s", "horizon": "60s", "machines": [group]}, "here")


def planned(*tenants: str) -> Plan:
    """Return a Plan that holds a gang of each tenant."""
    cluster = machines()
    lines = [WorkloadLine(f"r{number}", GANG, tenant) for number, tenant in enumerate(tenants)]
    workload = compile_workload(lines, cluster)
    return plan_from_nothing(cluster, workload, agent_named("earliest")).plan


def pictures(plan: Plan) -> list[ET.Element]:
    """Return the drawings of a Plan, each read as XML."""
    html = plan._repr_html_()
    assert html.startswith("<div")
    return [ET.fromstring(one) for one in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


def points(shape: ET.Element) -> list[tuple[float, float]]:
    """Return the corners of a shape."""
    pairs = [one.split(",") for one in shape.attrib["points"].split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_a_plan_without_reservations_is_a_line() -> None:
    """Nothing is drawn of nothing."""
    plan = Plan(machines(), machines().grid())
    assert "0 reservations" in plan._repr_html_()
    assert pictures(plan) == []


def test_layers_lie_on_each_other_under_the_line_of_capacity() -> None:
    """One layer a tenant; their heights add up to what is held, in parts of the highest."""
    plan = planned("ads", "ml")
    (picture,) = pictures(plan)
    *layers, line = picture
    capacity = plan.cluster.nominal["cpu"]
    assert min(y for _, y in points(line)) == 0
    tops = sorted(min(y for _, y in points(layer)) for layer in layers)
    heights = [round(capacity * (120 - top) / 120) for top in tops]
    assert heights == [4000, 2000]
    assert {layer.attrib["fill"] for layer in layers} == set(COLOURS[:2])


def test_names_are_text_and_many_tenants_share_a_layer() -> None:
    """A name with markup is shown as it is; past eight tenants the rest are one layer."""
    html = planned("<b>&", "other")._repr_html_()
    assert "&lt;b&gt;&amp;" in html
    assert "<b>&" not in html.replace("<b>Plan", "")
    many = planned(*(f"t{number:02}" for number in range(12)))
    (picture,) = pictures(many)
    assert len(picture) == len(COLOURS) + 2  # the others, and the capacity
    assert "others" in many._repr_html_()
