"""The hundred small sets: equal for equal seeds, of few requests, and of every form."""

from __future__ import annotations

from bench.workloads.small_sets import CHOSEN_ON, REPORTED_ON, SEEDS, small_set
from rdl.work_graph import ANY, ATOM, EVERY, KIND, MAX_HEIGHT, MIN_HEIGHT


def test_equal_seeds_make_equal_sets() -> None:
    """And unequal seeds others."""
    texts = [[str(one.graph.expression) for one in small_set(seed)[1]] for seed in (5, 5, 9)]
    assert texts[0] == texts[1] != texts[2]


def test_they_have_five_to_twenty_requests_of_every_form() -> None:
    """Blocks, malleable atoms, choices, recurrences, labels and edges all occur in eight sets."""
    kinds, forms = set(), set()
    for seed in range(1, 9):
        cluster, requests = small_set(seed)
        assert 5 <= len(requests) <= 20
        assert len(cluster.machines) == 2
        assert len(cluster.outages) == 1
        for request in requests:
            vertices = request.graph.vertices
            kinds |= set(vertices[:, KIND].tolist())
            atoms = vertices[vertices[:, KIND] == ATOM]
            forms |= set((atoms[:, MIN_HEIGHT] == atoms[:, MAX_HEIGHT]).tolist())
            forms |= {label for label in request.graph.labels if label}
            forms |= {"edges"} if len(request.graph.edges) else set()
    assert {ATOM, ANY, EVERY} <= kinds
    assert forms == {True, False, "large", "edges"}


def test_the_halves_of_the_seeds_have_nothing_in_common() -> None:
    """What is chosen on one half is reported on the other."""
    assert set(CHOSEN_ON) | set(REPORTED_ON) == set(SEEDS)
    assert not set(CHOSEN_ON) & set(REPORTED_ON)
