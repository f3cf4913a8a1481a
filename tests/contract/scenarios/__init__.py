"""Scenarios that every agent must answer as derived by hand: the table behind test_agents.py.

A scenario is a sentence, a cluster, what stands in it already, and requests with the answers that
follow from the language and the cluster alone. Rows are given where they are the only ones there
are; elsewhere the oracle and the validator judge. Times are in steps of one second and bundles of
one core unless a scenario says otherwise.
"""

from __future__ import annotations

from tests.contract.scenarios.atoms import ATOMS, LOAD
from tests.contract.scenarios.batches import BATCHES, POLICIES
from tests.contract.scenarios.operators import OPERATORS
from tests.contract.scenarios.recurrences import EVERY
from tests.contract.scenarios.resources import RESOURCES, ROUNDING
from tests.contract.scenarios.togethers import TOGETHERS

#: Agents whose rule is incomplete on purpose: they may refuse what others place, never the reverse.
INCOMPLETE = frozenset({"headroom"})

#: Agents that solve: slower, and judged by fewer random examples.
SOLVERS = frozenset({"milp", "exact", "hybrid"})

SCENARIOS_BY_KIND = {
    "atoms": ATOMS,
    "load": LOAD,
    "resources": RESOURCES,
    "rounding": ROUNDING,
    "operators": OPERATORS,
    "every": EVERY,
    "togethers": TOGETHERS,
    "batches": BATCHES,
    "policies": POLICIES,
}
