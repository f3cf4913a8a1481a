"""What people call a part of a request: the names its source gives, instead of a path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from rdl.errors import RdlError
from rdl.expressions import Every, Expression, Graph, Window, children_of

#: Part of a path that a canonical text with names has; others need not be read.
_MARK = ": "


def part_name(expression: Expression, path: str) -> str | None:
    """Return what the source calls the part at a path, or None where nothing on the way is named.

    The innermost name on the way counts, without that of the whole request, and with the numbers of
    the children below it (``train.0``); the occurrences of recurrences on the way follow
    (``train@3``). Where several parts have the name, the path stands behind it.

    Parameters
    ----------
    path
        Child numbers joined by dots, each with an optional ``@k`` (docs/rdl.md, "Paths").
    """
    here, name = expression, None
    rest: list[str] = []
    occurrences: list[str] = []
    for part in path.split(".") if path else []:
        number, _, occurrence = part.partition("@")
        children = children_of(here)
        if not number.isdecimal() or int(number) >= len(children):
            return None
        if occurrence:
            occurrences.append(f"@{occurrence}")
        parent, found = here, _name_of_child(here, int(number))
        here = children[int(number)]
        if found is not None:
            name, rest = found, []
        elif not isinstance(parent, Every | Window):  # their one child needs no number
            rest.append(number)
    if name is None:
        return expression.name if not path else None
    text = ".".join([name, *rest]) + "".join(occurrences)
    return text if _count(expression)[name] == 1 else f"{text} ({path})"


def part_name_of_text(text: str, path: str) -> str | None:
    """Return :func:`part_name` of a canonical text; None also where it cannot be read any more."""
    if _MARK not in text:
        return None
    expression = _read(text)
    return None if expression is None else part_name(expression, path)


@lru_cache(maxsize=4096)
def _read(text: str) -> Expression | None:
    from rdl.text.parser import parse

    try:
        return parse(text)
    except RdlError:
        return None


def _name_of_child(here: Expression, index: int) -> str | None:
    if isinstance(here, Graph):
        return here.names[index]
    return children_of(here)[index].name


def _count(expression: Expression) -> Counter[str]:
    """Return how many parts below the whole have each name."""
    return Counter(_names(expression))


def _names(expression: Expression) -> Iterator[str]:
    pending = [expression]
    while pending:
        here = pending.pop()
        children = children_of(here)
        pending.extend(children)
        for index in range(len(children)):
            name = _name_of_child(here, index)
            if name is not None:
                yield name
