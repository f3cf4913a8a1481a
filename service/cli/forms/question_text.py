"""Questions about numbers that may have been meant otherwise, as every command asks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def question_lines(source: str | Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each number of a request that somebody should look at twice.

    Parameters
    ----------
    source
        RDL as text, which is shown with the place; or as JSON.
    """
    from rdl.errors import render
    from rdl.meaning.questions import questions

    text = source if isinstance(source, str) else None
    for one in questions(source):
        yield f"question: {render((one,), text)}"
