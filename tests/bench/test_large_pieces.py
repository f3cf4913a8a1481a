"""The second generator of `exact`, and the plans planted in its sets."""

from __future__ import annotations

import numpy as np
import pytest

from bench.workloads.large_pieces import CHOICE_SEEDS, REPORT_SEEDS, LargePieces, large_pieces
from bench.workloads.planted import PLANTERS, planted
from planner.agents.check import check_plan
from rdl.work_graph import LABEL, SATISFIABLE, SHIFT_COUNT

SMALL = LargePieces("mixed", seed=1, requests=20)


def test_equal_sets_are_equal() -> None:
    """The same kind and seed give the same requests, another seed others."""
    first, again = (large_pieces(SMALL)[1] for _ in range(2))
    other = large_pieces(LargePieces("mixed", seed=2, requests=20))[1]
    assert all(
        np.array_equal(one.graph.vertices, two.graph.vertices)
        for one, two in zip(first, again, strict=True)
    )
    assert any(
        not np.array_equal(one.graph.vertices, two.graph.vertices)
        for one, two in zip(first, other, strict=True)
    )


def test_every_request_can_be_placed_alone_and_some_recur_or_name_a_label() -> None:
    """Windows leave capacity for what they ask; occurrences and labels are among the requests."""
    _, requests = large_pieces(SMALL)
    vertices = np.concatenate([request.graph.vertices for request in requests])
    assert all(request.graph.vertices[-1, SATISFIABLE] for request in requests)
    assert (vertices[:, SHIFT_COUNT] > 1).any()
    assert (vertices[:, LABEL] >= 0).any()


def test_no_seed_stands_in_both_halves() -> None:
    """Nothing is reported on a seed that settings were chosen on."""
    assert not set(CHOICE_SEEDS) & set(REPORT_SEEDS)


@pytest.mark.parametrize("form", list(PLANTERS))
def test_a_planted_plan_passes_the_check_and_leaves_nothing_free(form: str) -> None:
    """What is free is what the plan uses: with it, no row has anything left at any step."""
    one = planted(SMALL, form)
    kept = check_plan(one.requests, one.results, one.view)
    placed = [pair for pair in zip(one.requests, kept, strict=True) if pair[1].placed]
    assert [result.placed for result in kept] == [result.placed for result in one.results]
    assert one.view.free.any()
    assert not one.view.after(placed, 1).free.any()


def test_an_unknown_kind_or_form_is_named() -> None:
    """The error says what was written and what would be right."""
    with pytest.raises(ValueError, match="unknown kind 'gang'; write one of workflows, mixed"):
        large_pieces(LargePieces("gang"))
    with pytest.raises(ValueError, match="unknown form 'flat'; write one of jagged, levelled"):
        planted(SMALL, "flat")
