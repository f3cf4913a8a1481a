"""Pools and quotas that lend hold in every command on files, as they do on a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.service.cli.command_line import agenda, write_day

POOLS = """
step = "60s"
horizon = "12h"
[[machines]]
name = "plain"
count = 10
resources = { cpu = 4, memory = "16 GiB" }
[[pools]]
name = "matlab"
count = 2
[[outages]]
machines = "matlab"
count = 1
start = "6h"
end = "12h"
kind = "maintenance"
"""
ONE = "window(atom(<1 cpu, 1 matlab>, {0}, {0}, 3600, 3600), {1}, {2})"

#: Two licences at a time, one of them away from the seventh hour on.
USERS = [
    {"id": "now-1", "rdl": ONE.format(1, 0, 3600)},
    {"id": "now-2", "rdl": ONE.format(1, 0, 3600)},
    {"id": "now-3", "rdl": ONE.format(1, 0, 3600)},
    {"id": "both-later", "rdl": ONE.format(2, 21600, 25200)},
    {"id": "one-later", "rdl": ONE.format(1, 21600, 25200)},
]

LENDING = """
step = "60s"
horizon = "24h"
[[machines]]
name = "plain"
count = 10
resources = { cpu = 1, memory = "4 GiB" }
[[policies]]
name = "ads"
type = "quota"
tenant = "ads"
guarantee = { cpu = 6 }
cohort = "all"
lend = "6h"
[[policies]]
name = "ml"
type = "quota"
tenant = "ml"
guarantee = { cpu = 4 }
cohort = "all"
lend = "6h"
"""
TEN = "window(atom(<1 cpu>, 10, 10, 3600, 3600), {0}, {1})"
BORROWERS = [
    {"id": "near", "tenant": "ml", "rdl": TEN.format(7200, 10800)},
    {"id": "far", "tenant": "ml", "rdl": TEN.format(43200, 46800)},
]
SAID = (
    "cohort all: a plan of files is made at its start, so quotas lend only its first 6h; a server "
    "lends 6h ahead of each instant\n"
)

AGENTS = ["gree", "headroom", "exact", "milp"]


def _refused(plan: Path) -> dict[str, str]:
    return {one["id"]: one["code"] for one in json.loads(plan.read_text())["refusals"]}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_pool_limits_a_plan_of_files(tmp_path: Path, agent: str) -> None:
    """Two of three users at a time, none of two licences while one is away, also afterwards."""
    day, plan, better = write_day(tmp_path, POOLS, USERS), tmp_path / "a.json", tmp_path / "b.json"
    assert agenda("plan", *day, "--agent", agent, "--out", plan).exit_code == 0
    refused = _refused(plan)
    assert set(refused.values()) == {"capacity"}
    assert len(refused) == 2
    assert "both-later" in refused
    options = ("--admit-refused", "--work", "200", "--no-solver", "--out", better)
    assert agenda("optimize", plan, *options).exit_code == 0
    assert _refused(better) == refused
    assert agenda("validate", better).exit_code == 0


@pytest.mark.parametrize("agent", AGENTS)
def test_quotas_lend_only_near_the_start_of_a_plan_of_files(tmp_path: Path, agent: str) -> None:
    """What is borrowed within six hours is granted; half a day ahead it is not, and it is said."""
    day, plan = write_day(tmp_path, LENDING, BORROWERS), tmp_path / "plan.json"
    planned = agenda("plan", *day, "--agent", agent, "--out", plan)
    assert planned.stderr.endswith(SAID)
    assert _refused(plan) == {"far": "quota"}
    options = ("--admit-refused", "--work", "200", "--no-solver", "--out", plan)
    assert agenda("optimize", plan, *options).exit_code == 0
    assert _refused(plan) == {"far": "quota"}
    assert agenda("validate", plan).exit_code == 0


def test_comparisons_and_sizes_keep_both(tmp_path: Path) -> None:
    """No number of machines buys a licence, or what a quota does not lend."""
    for folder, cluster, lines, accepted in (
        ("p", POOLS, USERS, [3, 3]), ("l", LENDING, BORROWERS, [1, 1]),
    ):  # fmt: skip
        (tmp_path / folder).mkdir()
        day = write_day(tmp_path / folder, cluster, lines)
        compared = agenda("compare", *day, "--agents", "gree,gree-l", "-o", "json")
        runs = json.loads(compared.stdout)["agents"]
        assert [one["metrics"]["accepted"] for one in runs] == accepted
        typed = ("compare", *day, "--agents", "gree-l", "--machines", "10,40", "-o", "json")
        sizes = json.loads(agenda(*typed).stdout)["sizes"]
        assert [one["accepted"] for one in sizes] == accepted
        assert agenda("size", *day, "--of", "requests").exit_code == 3
