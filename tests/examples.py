"""How many examples tests draw: a part in `make test`, all in `.ci/run` and `make soak`.

They are the same for everybody: drawn from the name of the test, as `tests/conftest.py` says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import pytest
from hypothesis import is_hypothesis_test, settings

#: Where this is set, all are drawn.
ALL_EXAMPLES: Final = "AGENDA_ALL_EXAMPLES"

#: Part that is drawn elsewhere, and the fewest of it.
_PART: Final = 4
_FEWEST: Final = 8


def draw_a_part(items: Iterable[pytest.Item]) -> None:
    """Have every law draw a part of the examples that its settings name; a sweep draws all."""
    laws = {
        getattr(item, "function", None) for item in items if not item.get_closest_marker("sweep")
    }
    for law in laws:
        if is_hypothesis_test(law):
            law = cast("Any", law)
            whole = law._hypothesis_internal_use_settings
            count = min(whole.max_examples, max(_FEWEST, whole.max_examples // _PART))
            law._hypothesis_internal_use_settings = settings(whole, max_examples=count)


def some_of(cases: Sequence[Any], count: int) -> list[Any]:
    """Return the first `count` cases of a test's parameters; where all are drawn, all of them."""
    drawn = cases if ALL_EXAMPLES in os.environ else cases[:count]
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.examples)
        for one in drawn
    ]
