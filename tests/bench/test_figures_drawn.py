"""Figures 12 and 14 as tables: who stands in them, and what is told of several seeds or of one."""

from __future__ import annotations

from statistics import stdev
from typing import Any

import pytest

from bench.exact_curves import summary as curve_summary
from bench.exact_curves import table as curve_table
from bench.papers.figures_drawn import summary, table

ACCEPTED = (0.5, 0.6, 0.8)


def point(seed: int, accepted: float) -> dict[str, Any]:
    """Return what two agents made of one set."""
    one = {"seconds": 0.1, "falls": 4.0, "uniformity": 1.0, "gap": None}
    agents = {
        "gree": {**one, "acceptance": accepted},
        "gree-paper": {**one, "acceptance": accepted / 2},
    }
    return {"figure": "12", "kind": "atoms", "x": 100, "seed": seed, "agents": agents}


def test_the_printed_gree_is_shown_next_to_the_repaired_one() -> None:
    """Both have a column, since the paper's figures are of the printed one."""
    points = [point(seed, accepted) for seed, accepted in enumerate(ACCEPTED)]
    head, _, row, *_ = table(summary(points))

    assert head.startswith("| set | gree | gree-paper |")
    spread = 100 * stdev(ACCEPTED)
    assert row.startswith(f"| 100 atoms | 63.3 ± {spread:.1f} | 31.7 ± {spread / 2:.1f} |")


def test_one_seed_of_a_figure_has_no_spread() -> None:
    """A single seed is reported as it is."""
    assert "±" not in "".join(table(summary([point(1, 0.5)])))


def test_curves_tell_the_same_kind_of_deviation() -> None:
    """The spread of gaps is the sample's too, and one seed has none."""
    gaps = (1.0, 2.0, 4.0)
    lines = [
        {
            "set": "wide 1.2",
            "seed": seed,
            "limit_s": 5.0,
            "gaps": [(0.5, gap)],
            **dict.fromkeys(("gree", "portfolio", "value", "bound", "cpu_s", "wall_s"), 1.0),
        }
        for seed, gap in enumerate(gaps)
    ]
    found: Any = curve_summary(lines)["wide 1.2"]["gap_percent"]

    assert found["5 s"] == (pytest.approx(2.33), pytest.approx(stdev(gaps), abs=0.005), 4.0)
    assert "±" not in "".join(curve_table(curve_summary(lines[:1])))
