"""The example day: reproducible, satisfiable, and shaped as its README says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.files import read_cluster, read_workload
from planner.plan.plan import Plan
from planner.workload.compile import compile_workload
from service.example_day import SEED, example_day, write_example_day
from service.example_day.facts import INPUT_BYTES, draw_quantile, hourly_rate

FIXTURE = Path(__file__).parents[2] / "fixtures" / "example-day"


@pytest.fixture(scope="module")
def lines() -> list[dict[str, object]]:
    """The day, generated again."""
    return example_day(np.random.default_rng(SEED))


def test_the_fixture_is_what_the_generator_makes(tmp_path: Path) -> None:
    """fixtures/example-day is rebuilt byte for byte by the generator in the package."""
    for made in write_example_day(tmp_path):
        assert made.read_bytes() == (FIXTURE / made.name).read_bytes()


def test_another_seed_gives_another_day(lines: list[dict[str, object]]) -> None:
    """The seed is what decides the day."""
    assert example_day(np.random.default_rng(SEED + 1)) != lines


def test_lines_are_in_order_of_submission_with_unique_ids(
    lines: list[dict[str, object]],
) -> None:
    """A few hundred requests, each id once, in the order in which they are submitted."""
    assert len({line["id"] for line in lines}) == len(lines) == 400
    submitted = [line["submitted"] for line in lines]
    assert submitted == sorted(submitted)  # type: ignore[type-var]


def test_every_kind_of_request_is_in_the_day(lines: list[dict[str, object]]) -> None:
    """Pipelines, graphs, gangs, choices and recurring requests all occur, from six tenants."""
    text = json.dumps(lines)
    for word in ('"order"', '"graph"', '"any"', '"every"', '"gap"', '"on": "gpu"', '"prefer"'):
        assert word in text
    gangs = [atom for line in lines for atom in _atoms(line["rdl"]) if atom["min"] > 1]
    assert all(atom["min"] == atom["max"] for atom in gangs)
    assert len(gangs) > 40
    assert len(Counter(line["tenant"] for line in lines)) == 6


def test_sizes_have_a_heavy_tail(lines: list[dict[str, object]]) -> None:
    """As in the trace, the largest tenth of the requests asks for most of the work."""
    works = sorted(
        sum(atom["work"] * atom["bundle"]["cpu"] for atom in _atoms(line["rdl"])) for line in lines
    )
    assert sum(works[-40:]) > 0.5 * sum(works)


def test_the_day_asks_for_two_thirds_of_the_cluster(lines: list[dict[str, object]]) -> None:
    """First options ask for 0.6 to 0.75 of the core-seconds of the day."""
    cluster = read_cluster(FIXTURE / "cluster.toml")
    asked = sum(
        atom["work"] * atom["bundle"]["cpu"] for line in lines for atom in _atoms(line["rdl"])
    )
    assert 0.6 < asked / (cluster.nominal["cpu"] / 1000 * 86_400) < 0.75


def test_leases_fit_the_step() -> None:
    """The grid rounds no lease and no work: what is reserved is what was requested."""
    cluster = read_cluster(FIXTURE / "cluster.toml")
    workload = compile_workload(read_workload(FIXTURE / "workload.jsonl"), cluster)

    assert [note for request in workload.requests for note in request.graph.notes] == []


def test_every_request_can_be_met_on_the_empty_cluster() -> None:
    """Alone, each request is placed: what is refused is refused because others were first."""
    cluster = read_cluster(FIXTURE / "cluster.toml")
    workload = compile_workload(read_workload(FIXTURE / "workload.jsonl"), cluster)
    assert workload.refusals == ()
    view = Plan(cluster, workload.grid).view()
    agent = agent_named("gree-l")
    refused = [
        request.id
        for request in workload.requests
        if not agent.plan([request], view, Limits())[0].placed
    ]
    assert refused == []


def test_drawn_sizes_follow_the_published_quantiles() -> None:
    """Of 20,000 sizes, a half, nine tenths and 99 % lie below the published quantiles (1 %)."""
    generator = np.random.default_rng(5)
    drawn = np.array([draw_quantile(INPUT_BYTES, generator) for _ in range(20_000)])
    for quantile, value in INPUT_BYTES[1:-1]:
        assert np.mean(drawn < value) == pytest.approx(quantile, abs=0.01)


def test_arrivals_peak_as_published() -> None:
    """The busiest hour has 2.7 times the rate of the median hour."""
    rates = [hourly_rate(hour + 0.5) for hour in range(24)]
    assert max(rates) / float(np.median(rates)) == pytest.approx(2.7, rel=0.05)


def _atoms(rdl: Any) -> list[Any]:
    """All atoms of an RDL value, first options only, occurrences of `every` counted."""
    if isinstance(rdl, list):
        return [atom for child in rdl for atom in _atoms(child)]
    operator = next(iter(rdl))
    body = rdl[operator]
    match operator:
        case "atom":
            return [body]
        case "window":
            return _atoms(body["of"])
        case "every":
            return _atoms(body["of"]) * int(body["times"])
        case "any":
            return _atoms(body[0])
        case "graph":
            return _atoms(list(body["nodes"].values()))
        case _:
            return _atoms(body)
