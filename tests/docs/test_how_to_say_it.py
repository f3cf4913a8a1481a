"""The page of requests from other systems: each is compiled and placed on an idle cluster."""

from __future__ import annotations

import re

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.plan.plan import Plan
from tests.builders import a_cluster, a_request
from tests.docs.pages import ROOT, Block, blocks_of

PAGE = ROOT / "docs" / "how-to-say-it.md"
REQUESTS = [block for block in blocks_of(PAGE) if block.language == "rdl"]

#: A week from Monday, 5 January 2026; half a year for what recurs by months.
_WEEKS = {"days=": "30d", "1mo": "200d", "times=7": "9d"}


def _horizon(text: str) -> str:
    return next((length for word, length in _WEEKS.items() if word in text), "3d")


def test_there_are_twenty_requests_of_six_systems() -> None:
    """Each has a heading of its own system and a line that says what it is."""
    text = PAGE.read_text(encoding="utf-8")
    assert len(REQUESTS) == 20
    assert len(re.findall(r"^\*\*", text, re.MULTILINE)) == 20
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == ["Slurm", "Kueue and Kubernetes", "Airflow", "cron", "YARN", "PBS"]


@pytest.mark.parametrize("block", REQUESTS, ids=lambda block: f"line {block.line}")
def test_each_request_is_promised_on_an_idle_cluster(block: Block) -> None:
    """It is read, compiled for the cluster, and placed."""
    text = "\n".join(block.lines)
    built = a_cluster().step("5m").horizon(_horizon(text)).origin("2026-01-05T00:00:00Z")
    built = built.max_period("31d")
    for rack in range(3):
        built = built.machines(f"cpu{rack}", 40, cpu=32, memory="128 GiB", labels=("nvme", "spot"))
        built = built.machines(f"gpu{rack}", 10, cpu=16, gpu=4, memory="128 GiB")
    document = {**built.document, "pools": [{"name": "matlab", "count": 4}]}
    for group in document["machines"]:
        group["domains"] = {"rack": group["name"][-1]}
    cluster = type(built)(document).build()
    request = a_request("job", text).on(cluster)
    plan = Plan(cluster, request.graph.grid)
    (result,) = agent_named("gree").plan([request], plan.view(), Limits())
    assert result.placed, result.detail
