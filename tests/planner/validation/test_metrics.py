"""The validator counts again what a plan document says of itself."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from planner.validation.validate import validate
from tests.planner.plan_documents import EXAMPLE, FIVE, cluster, document, faults, reservation


@pytest.mark.parametrize("figure", ["accepted", "requests", "falls", "falls_inner"])
def test_metrics_are_recounted(figure: str) -> None:
    """A figure that is one too high is named."""
    wrong = copy.deepcopy(EXAMPLE)
    wrong["metrics"][figure] += 1
    assert [(v.rule, v.where) for v in validate(wrong)] == [("metrics", f"/metrics/{figure}")]


def test_uniformity_is_recounted() -> None:
    """Rounding is forgiven, another figure is not."""
    wrong = copy.deepcopy(EXAMPLE)
    wrong["metrics"]["uniformity"] = 1.23
    assert [v.where for v in validate(wrong)] == ["/metrics/uniformity"]


@pytest.mark.parametrize(
    ("asked", "atoms", "how", "value"),
    [
        (FIVE, {"": [[0, 10, 5]]}, {}, 5.0),
        (FIVE, {"": [[0, 10, 5]]}, {"weight": 3}, 15.0),
        (FIVE, {"": [[0, 10, 5]]}, {"state": "degraded"}, 0.0),
        # The first option is the size, whichever is taken; what the taken one is worth counts.
        (
            f"any(atom(<1 cpu>, 1, 1, 20, 20), window({FIVE}, 0, 20), prefer=[1, 0.5])",
            {"1.0": [[0, 10, 5]]},
            {"choices": {"": 1}},
            1.0,
        ),
        (
            f"every(20s, any({FIVE}, atom(<1 cpu>, 1, 1, 9, 9), prefer=[0.5, 1]), times=2)",
            {"0@0.0": [[0, 10, 5]], "0@1.0": [[20, 30, 5]]},
            {"choices": {"0@0": 0}},
            5.0,
        ),
    ],
)
def test_value_is_recounted(
    asked: str, atoms: dict[str, list[list[int]]], how: dict[str, Any], value: float
) -> None:
    """Weight x size x worth, by pass on ten cores; another figure is named."""
    held = reservation("r", asked, atoms, **how)
    falls, value = sum(rows[-1][2] for rows in atoms.values()), value * 10 / 3600
    said = EXAMPLE["metrics"] | {
        "accepted": int(how.get("state") != "degraded"), "falls": falls, "value": value,
        "bound": None, "gap": None,
    }  # fmt: skip
    wrong = validate(document(held, metrics=said), cluster=cluster())
    assert [v.where for v in wrong] == ["/metrics/uniformity"]
    said |= {"value": value + 0.01}
    wrong = validate(document(held, metrics=said), cluster=cluster())
    assert [v.where for v in wrong] == ["/metrics/uniformity", "/metrics/value"]


def test_a_value_beyond_all_numbers_is_named() -> None:
    """What a document says is near no infinite value: weights have an end, and it is reported."""
    held = reservation("r", FIVE, {"": [[0, 10, 5]]}, weight=1e9)
    said = EXAMPLE["metrics"] | {
        "falls": 5,
        "uniformity": 3.0,
        "value": 5e9 * 10 / 3600,
        "bound": None,
        "gap": None,
    }
    assert validate(document(held, metrics=said), cluster=cluster()) == []
    beyond = document(held | {"weight": 1.7e308}, metrics=said)
    assert faults(beyond) == [("shape", "/reservations/0/weight")]


@pytest.mark.parametrize(
    ("choices", "rule"),
    [({"": -1}, "shape"), ({"": -9}, "shape"), ({"": 9}, "oracle"), ({"9" * 5000: 0}, "oracle")],
)
def test_choices_that_are_none_are_no_crash(choices: dict[str, int], rule: str) -> None:
    """Options below 0 or past the last, and paths of thousands of digits, are named."""
    asked = f"any({FIVE}, atom(<1 cpu>, 1, 1, 9, 9), prefer=[1, 0.5])"
    held = reservation("r", asked, {"0": [[0, 10, 5]]}, choices=choices)
    found = faults(document(held, metrics=EXAMPLE["metrics"] | {"falls": 5}))
    assert found[0][0] == rule


@pytest.mark.parametrize(
    ("more", "gap", "where"),
    [
        (0.0, 0.0, []),
        (-1e-9, 0.0, []),  # solvers round
        (-1.0, 0.0, ["/metrics/bound"]),
        (-1.0, -0.5, ["/metrics/bound"]),
        (1.0, 0.0, ["/metrics/gap"]),
        (None, 0.0, ["/metrics/gap"]),
    ],
)
def test_no_plan_is_worth_more_than_its_bound(
    more: float | None, gap: float, where: list[str]
) -> None:
    """A bound below the value is refused, and a gap that is not that of the two."""
    said = copy.deepcopy(EXAMPLE)
    value = said["metrics"]["value"]
    bound = None if more is None else value + more * max(1.0, value)
    said["metrics"] |= {"bound": bound, "gap": gap}
    assert [v.where for v in validate(said)] == where
