"""CP-SAT proves whole sets of few requests: what enumeration finds, with every form of request."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.agents.exact.incumbent import Incumbent
from planner.agents.exact.proof.whole_cp import WholeCp
from planner.agents.exact.proof.whole_cp_proof import WholeCpProof
from planner.agents.milp import rayon
from planner.agents.milp.codec import decode, encode
from planner.plan.plan import Plan
from planner.request import Request
from planner.view import PlanView
from tests.planner.agents.exact.proof.whole_sets import whole_of
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, tiny_requests


def _view() -> PlanView:
    return Plan(CLUSTER, CLUSTER.grid()).view()


def _proven(requests: list[Request], keep: frozenset[int] = frozenset()) -> Incumbent:
    """Return what CP-SAT alone comes to, from no plan."""
    incumbent, other = whole_of(requests, _view(), keep)
    WholeCpProof(incumbent, other.solve_input, other.budget).prove(lambda: False)
    return incumbent


@pytest.mark.parametrize("seed", range(24))
def test_it_proves_what_enumeration_finds(seed: int) -> None:
    """Plan and bound meet at the best of all combinations."""
    # Weights that are no whole numbers: rounding of values must not show.
    requests = [replace(one, weight=1 + 0.377 * i) for i, one in enumerate(tiny_requests(seed))]
    incumbent = _proven(requests)
    best = best_value(requests, CAPACITY, HORIZON)
    assert incumbent.value == pytest.approx(best)
    assert best * (1 - 1e-9) <= incumbent.bound <= best * (1 + 1e-6)
    assert incumbent.is_proven


@pytest.mark.parametrize("seed", range(8))
def test_it_keeps_what_may_not_be_lost(seed: int) -> None:
    """With the last request kept it is the best that holds it, or proven that none does."""
    requests = tiny_requests(seed)
    incumbent = _proven(requests, frozenset({2}))
    best = best_value(requests, CAPACITY, HORIZON, keep=[2])
    assert incumbent.whole == (best >= 0)
    assert incumbent.bound == (pytest.approx(best) if best >= 0 else best)


def test_a_stop_ends_it() -> None:
    """Whatever is known by then stands."""
    incumbent, other = whole_of(tiny_requests(1), _view())
    WholeCpProof(incumbent, other.solve_input, other.budget).prove(lambda: True)
    assert incumbent.bound >= incumbent.value


def test_a_plan_to_start_from_is_one_of_the_model() -> None:
    """A plan has a value for every variable, and reads back the same."""
    requests = tiny_requests(3)
    incumbent = _proven(requests)
    built = rayon.build(requests, _view())
    whole = WholeCp(built)
    whole.add_hint(incumbent.results)
    assert len(whole.variables) == built.model.column_count
    again = decode(np.asarray(encode(incumbent.results, built)), built)
    assert [one.placed for one in again] == [one.placed for one in incumbent.results]
