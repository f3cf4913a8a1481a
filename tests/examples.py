"""How many examples the most expensive tests draw: a part in `make test`, all in `.ci/run`.

They are the same for everybody: the part is the beginning of all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import pytest
from hypothesis import settings

_Test = TypeVar("_Test", bound=Callable[..., Any])

#: Where this is set, all are drawn.
ALL_EXAMPLES: Final = "AGENDA_ALL_EXAMPLES"

#: Part that is drawn elsewhere, and the fewest of it.
_PART: Final = 4
_FEWEST: Final = 8


def many_examples(count: int = 100, **more: Any) -> Callable[[_Test], _Test]:
    """Return a decorator for a property test that draws this many examples where all are drawn.

    Parameters
    ----------
    more
        Of hypothesis' settings.
    """
    drawn = count if ALL_EXAMPLES in os.environ else min(count, max(_FEWEST, count // _PART))

    def decorate(test: _Test) -> _Test:
        marked: _Test = pytest.mark.examples(settings(max_examples=drawn, **more)(test))
        return marked

    return decorate


def some_of(cases: Sequence[Any], count: int) -> list[Any]:
    """Return the first `count` cases of a test's parameters; where all are drawn, all of them."""
    drawn = cases if ALL_EXAMPLES in os.environ else cases[:count]
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.examples)
        for one in drawn
    ]
