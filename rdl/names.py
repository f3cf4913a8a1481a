"""Names of parts of a request for people: the given name, or words for its need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from rdl.errors import RdlError
from rdl.expressions import Every, Expression, Graph, Window, children_of
from rdl.part_words import words_of_part

#: Occurs in a canonical text with names.
_NAME_MARK = ": "
#: Start of every atom in a canonical text.
_ATOM_MARK = "atom("
#: Occurs in a path in a recurrence.
_RUN_MARK = "@"


class PartNames:
    """The names of the parts of one request in refusals, offers, lists and pages.

    A part is named after its innermost named ancestor or itself, except the whole request, with the
    numbers of the children below it (``train.0``); then the occurrences of recurrences on the path
    follow (``train@3``). If several parts have the name, the path follows it. A part without a name
    is described by its need (`rdl.part_words.words_of_part`), and the only atom of a request has no
    name: it is the request.
    """

    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        self._counts: Counter[str] | None = None

    def at(self, path: str) -> str | None:
        """Return the name of the part at a path, or None if it is the request itself.

        Parameters
        ----------
        path
            Child numbers joined by dots, each with an optional ``@k`` (docs/rdl.md, "Paths").
        """
        here, name = self._expression, None
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
            elif not isinstance(parent, Every | Window):  # their only child needs no number
                rest.append(number)
        if name is None:
            return words_of_part(self._expression, path) if path else self._expression.name
        text = ".".join([name, *rest]) + "".join(occurrences)
        return text if self._count(name) == 1 else f"{text} ({path})"

    def _count(self, name: str) -> int:
        """Return how many parts have a name."""
        if self._counts is None:
            self._counts = Counter(_names(self._expression))
        return self._counts[name]


def part_name(expression: Expression, path: str) -> str | None:
    """Return the name of one part; for many parts use `PartNames`."""
    return PartNames(expression).at(path)


def part_name_of_text(text: str, path: str) -> str | None:
    """Return the name of a part of a canonical text; None also if it is unreadable."""
    if _NAME_MARK not in text and _RUN_MARK not in path and text.count(_ATOM_MARK) < 2:
        return None
    names = _names_of_text(text)
    return None if names is None else names.at(path)


@lru_cache(maxsize=256)
def _names_of_text(text: str) -> PartNames | None:
    from rdl.text.parser import parse

    try:
        return PartNames(parse(text))
    except RdlError:
        return None


def _name_of_child(here: Expression, index: int) -> str | None:
    if isinstance(here, Graph):
        return here.names[index]
    return children_of(here)[index].name


def _names(expression: Expression) -> Iterator[str]:
    """Yield the name of every named part below the whole."""
    pending = [expression]
    while pending:
        here = pending.pop()
        children = children_of(here)
        pending.extend(children)
        for index in range(len(children)):
            name = _name_of_child(here, index)
            if name is not None:
                yield name
