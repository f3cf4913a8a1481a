"""What a placed request holds: the short way of single atoms against the way of trees."""

from __future__ import annotations

import numpy as np
import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, MachineGroup
from planner.plan.plan import Plan
from planner.reservations.holding import _atoms_of, holding_of
from rdl.resources import Resources
from tests.builders import a_request

_LONE = [
    "window(atom(<1 cpu>, 1, 4, 2, 14), 0, 40)",
    "window(atom(<1 cpu>, 2, 2, 5, 20), 3, 30)",
    'window(atom(<1 cpu>, 1, 2, 4, 9, on="ssd"), 0, 40)',
]


def _cluster() -> Cluster:
    machines = (
        MachineGroup("plain", 4, Resources.of({"cpu": 1000})),
        MachineGroup("fast", 2, Resources.of({"cpu": 1000}), frozenset({"ssd"})),
    )
    return Cluster(1000, 100_000, machines)


@pytest.mark.parametrize("text", _LONE)
@pytest.mark.parametrize("agent", ["gree", "gree-l", "earliest"])
def test_a_single_atom_holds_what_it_would_in_a_tree(text: str, agent: str) -> None:
    """Path, bundle, machines, rows, begin and finish are those of the way for any graph."""
    cluster = _cluster()
    request = a_request("r", text).on(cluster)
    plan = Plan(cluster, cluster.grid())
    result = agent_named(agent).plan([request], plan.view(), Limits())[0]
    assert result.placed
    held = holding_of(request, result)
    (atom,) = held.atoms
    (general,) = _atoms_of(request.graph, result)
    told = (atom.path, atom.bundle, atom.label, atom.shifts, atom.released, atom.inner)
    other = (general.path, general.bundle, general.label, general.shifts, None, general.inner)
    assert told == other
    assert np.array_equal(atom.rows, general.rows)
    assert (held.begin, held.finish) == (int(atom.rows[0, 0]), int(atom.rows[-1, 1]))
    assert held.endless == 0
