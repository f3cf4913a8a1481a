"""Cost as the third stage: value, then falls, then what the steps cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.milp.agent import MILP
from planner.agents.milp.columns import lay_out
from planner.agents.milp.objectives import min_model_falls
from planner.cluster.cluster import Cluster, Price
from planner.files import FileError
from planner.files.cluster_file import cluster_from_json
from planner.metrics import RequestOutcome, measure, outcome_of
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.request import Request
from planner.value import PriceList, prices_of, score_of
from rdl.resources import Resources
from tests.builders import a_cluster, a_request
from tests.examples import some_of
from tests.rdl.brute_force import satisfying

HORIZON, MACHINES = 5, 3
CORE = Resources.from_json({"cpu": 1})

#: Atoms of one core: (g, h, lease, work), in steps of 1 ms.
SHAPES = ((1, 1, 1, 1), (1, 2, 1, 3), (2, 2, 1, 4), (1, 3, 2, 4), (2, 2, 2, 4), (1, 2, 1, 2))


def priced(*factors: float) -> Cluster:
    """Return three machines of one core for five steps, each at a price of its own."""
    built = a_cluster().step("0.001s").horizon("0.005s").machines("plain", MACHINES, cpu=1).build()
    prices = tuple(Price(at, at + 1, factor) for at, factor in enumerate(factors))
    return Cluster(built.step_ms, built.horizon_ms, built.machines, prices=prices)


def requests_of(rng: np.random.Generator, cluster: Cluster) -> list[Request]:
    """Draw two or three requests of one or two atoms."""
    found = []
    for index in range(int(rng.integers(2, 4))):
        atoms = [
            f"atom(<1 cpu>, {g}, {h}, 0.00{lease}, 0.00{work})"
            for g, h, lease, work in rng.choice(SHAPES, size=int(rng.integers(1, 3)))
        ]
        text = atoms[0] if len(atoms) == 1 else f"order({atoms[0]}, {atoms[1]})"
        drawn = a_request(f"r{index}", text).weight(float(rng.integers(1, 3)))
        try:
            found.append(drawn.on(cluster))
        except ValueError:
            found.append(a_request(f"r{index}", atoms[0]).on(cluster))
    return found


def ways_of(request: Request) -> Iterator[tuple[bool, np.ndarray, int]]:
    """Yield whether it is held, its cores at every step, and its falls, of every way to hold it."""
    yield False, np.zeros(HORIZON, dtype=np.int64), 0
    for allocation in satisfying(request.graph.expression, HORIZON):
        heights = [np.array(held) for _, held in allocation[0]]
        falls = sum(int(np.maximum(0, -np.diff([0, *held, 0])).sum()) for held in heights)
        yield True, np.sum(heights, axis=0), falls


def best_of(requests: Sequence[Request], factors: Sequence[float]) -> tuple[float, int, float]:
    """Return the best (value, falls, cost) of all joint plans, in this order."""
    nominal = Resources.from_json({"cpu": MACHINES})
    worth = [measured.weight * measured.size for measured in _sizes(requests, nominal)]
    best: tuple[float, int, float] | None = None
    for ways in product(*(list(ways_of(one)) for one in requests)):
        used = np.sum([held for _, held, _ in ways], axis=0)
        if (used > MACHINES).any():
            continue
        value = sum(w for w, (is_held, _, _) in zip(worth, ways, strict=True) if is_held)
        falls = sum(one[2] for one in ways)
        found = (-round(value, 9), falls, round(float(used @ np.array(factors)) / MACHINES, 9))
        best = found if best is None else min(best, found)
    assert best is not None
    return -best[0], best[1], best[2]


def _sizes(requests: Sequence[Request], nominal: Resources) -> list[RequestOutcome]:
    return [outcome_of(one, PlacementResult(None), nominal) for one in requests]


def scored(
    requests: Sequence[Request], results: Sequence[PlacementResult], cluster: Cluster
) -> tuple[float, int, float]:
    """Return (value, falls, cost) of what an agent answered, as the metrics have them."""
    outcomes = [
        outcome_of(*pair, cluster.reference) for pair in zip(requests, results, strict=True)
    ]
    prices = prices_of(cluster, cluster.grid())
    found = measure(outcomes, cluster.nominal, HORIZON, prices=prices)
    assert found.cost is not None
    assert found.to_json()["cost"] == pytest.approx(found.cost)
    return round(found.value, 9), found.falls, round(found.cost, 9)


@pytest.mark.parametrize("seed", some_of(range(60), 15))
def test_milp_maximises_value_then_falls_then_cost(seed: int) -> None:
    """On random tiny sets all three equal those of full enumeration, in that order."""
    rng = np.random.default_rng(seed)
    factors = rng.integers(0, 5, size=HORIZON).astype(float).tolist()
    cluster = priced(*factors)
    requests = requests_of(rng, cluster)
    plan = Plan(cluster, cluster.grid())

    results, report = MILP.solve(requests, plan.snapshot(), Limits())

    assert report.status == "optimal"
    assert scored(requests, results, cluster) == pytest.approx(best_of(requests, factors))
    held = [Admit(*pair, "milp") for pair in zip(requests, results, strict=True) if pair[1].placed]
    assert not plan.prepare(held, 0, joint=True).conflicts


@pytest.mark.parametrize("agent", ["exact", "hybrid"])
@pytest.mark.parametrize("seed", range(10))
def test_exact_pays_for_cost_with_nothing(agent: str, seed: int) -> None:
    """With prices the plan is worth no less and falls no more than the best; it costs no less."""
    rng = np.random.default_rng(1000 + seed)
    factors = rng.integers(0, 5, size=HORIZON).astype(float).tolist()
    cluster = priced(*factors)
    requests = requests_of(rng, cluster)
    view = Plan(cluster, cluster.grid()).snapshot()
    results = agent_named(agent).plan(requests, view, Limits(work=200))
    value, falls, cost = best_of(requests, factors)
    found = scored(requests, results, cluster)
    assert found[0] == pytest.approx(value)
    assert found[1:] >= (falls, cost - 1e-9)


def test_cost_moves_a_block_to_where_it_is_cheap() -> None:
    """One block that fits anywhere lands on the cheap steps; without prices nothing tells why."""
    cluster = priced(5, 5, 1, 1, 5)
    request = a_request("r", "atom(<1 cpu>, 3, 3, 0.002, 0.006)").on(cluster)
    [held] = MILP.plan([request], Plan(cluster, cluster.grid()).snapshot(), Limits())
    assert held.rows.tolist() == [[2, 4, 3]]
    outcome = outcome_of(request, held, cluster.reference)
    assert measure([outcome], cluster.nominal, HORIZON).cost is None
    assert "cost" not in measure([outcome], cluster.nominal, HORIZON).to_json()


def test_cost_never_pays_with_falls() -> None:
    """Cheap steps apart from each other are left alone where splitting would fall again."""
    cluster = priced(0, 9, 0, 9, 0)
    request = a_request("r", "atom(<1 cpu>, 1, 1, 0.001, 0.003)").on(cluster)
    [held] = MILP.plan([request], Plan(cluster, cluster.grid()).snapshot(), Limits())
    assert score_of([request], [held], cluster.reference)[1] == -1
    assert held.rows.tolist() in ([[0, 3, 1]], [[2, 5, 1]])


@pytest.mark.parametrize("seed", range(20))
def test_no_plan_falls_less_than_the_least(seed: int) -> None:
    """What ends the second solve early is a bound on every plan that holds all requests."""
    rng = np.random.default_rng(500 + seed)
    cluster = priced(1, 1, 1, 1, 1)
    requests = requests_of(rng, cluster)
    view = Plan(cluster, cluster.grid()).snapshot()
    least = min_model_falls(lay_out(requests, view))
    alone = [min(falls for held, _, falls in ways_of(one) if held) for one in requests]
    assert 0 < least <= sum(alone)


def test_prices_outside_the_horizon_count_nowhere() -> None:
    """A price before the first step, or past the last, raises no step's factor."""
    cluster = priced()
    early = Cluster(1, 5, cluster.machines, prices=(Price(-3, -1, 7.0), Price(-1, 1, 2.0)))
    assert early.price_factors(early.grid()).tolist() == [2.0, 1.0, 1.0, 1.0, 1.0]
    rows = np.array([[3, 9, 2]])
    assert PriceList(np.ones(5)).cost([(CORE, rows)], CORE) == 4.0


def test_a_price_that_ends_before_it_starts_is_refused() -> None:
    """The file's problem is named at its place."""
    machines = [{"name": "m", "count": 1, "resources": {"cpu": 1}}]
    prices = [{"start": "2m", "end": "1m", "factor": 2}]
    document = {"step": "1s", "horizon": "1h", "machines": machines, "prices": prices}
    with pytest.raises(FileError, match="the price ends before it starts"):
        cluster_from_json(document)
