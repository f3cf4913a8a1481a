"""Names of parts of a request for people: the given name, or words for its need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from rdl.errors import RdlError
from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Graph,
    Order,
    Together,
    Void,
    Window,
    children_of,
)
from rdl.time_grid import duration_text

#: Occurs in a canonical text with names.
_NAME_MARK = ": "
#: Start of every atom in a canonical text.
_ATOM_MARK = "atom("
#: Occurs in a path in a recurrence.
_RUN_MARK = "@"

_ORDINALS: Final = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)

#: Most positions that are named in words; a deeper part is named by its path.
_MOST_PLACES: Final = 3

#: Most atoms of a `together` that are all named.
_MOST_MEMBERS: Final = 3
_OPERATORS: Final[dict[type, str]] = {
    AllOf: "all",
    AnyOf: "any",
    Order: "order",
    Graph: "graph",
    Together: "together",
}


class PartNames:
    """The names of the parts of one request in refusals, offers, lists and pages.

    A part is named after its innermost named ancestor or itself, except the whole request, with the
    numbers of the children below it (``train.0``); then the occurrences of recurrences on the path
    follow (``train@3``). If several parts have the name, the path follows it. A part without a name
    is described by its need (`rdl.names.words_of_part`), and the only atom of a request has no
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
            return _words_of_part(self._expression, path) if path else self._expression.name
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


def place_words(domain: str, values: int) -> str:
    """Return ``one rack``, or ``at most 2 values of rack``."""
    return f"one {domain}" if values == 1 else f"at most {values:,} values of {domain}"


def _has_one_atom(expression: Expression) -> bool:
    """Return whether a request has at most one atom, which then needs no words."""
    atoms = _atoms(expression)
    next(atoms, None)
    return next(atoms, None) is None


def _words_of_part(expression: Expression, path: str) -> str | None:
    """Return the words for the part at a path without names on it.

    ``2 x <1 cpu> for 1h (second of all)``; in a recurrence ``2 x <1 cpu> for 1h (second of all, run
    4)``, runs counted from 1. For the only atom of a request it is None, since that is the request
    itself, or ``run 4 of the request`` if it recurs.

    Parameters
    ----------
    path
        Child numbers joined by dots, each with an optional ``@k``. None for a path that is not in
        the expression.
    """
    here, places, runs = expression, list[str](), list[str]()
    for part in path.split(".") if path else []:
        number, _, occurrence = part.partition("@")
        children = children_of(here)
        if not number.isdecimal() or int(number) >= len(children):
            return None
        if occurrence.isdecimal():
            runs.append(f"run {int(occurrence) + 1}")
        if not isinstance(here, Every | Window):  # their only child needs no number
            places.insert(0, f"{_ordinal(int(number))} of {_OPERATORS[type(here)]}")
        here = children[int(number)]
    if not path or _has_one_atom(expression):
        return f"{' of '.join(reversed(runs))} of the request" if runs else None
    if len(places) > _MOST_PLACES:
        places, runs = [path], []
    where = [*places, *reversed(runs)]
    return f"{_need(here)} ({', '.join(where)})" if where else _need(here)


def _need(part: Expression) -> str:
    """Return a short description of a part's needs."""
    while isinstance(part, Every | Window):
        part = children_of(part)[0]
    if isinstance(part, Atom):
        return _atom(part)
    if isinstance(part, Void):
        return f"void of up to {part.maximum:,} x <{part.bundle}>"
    if isinstance(part, Together) and len(part.children) <= _MOST_MEMBERS:
        return f"together of {' and '.join(map(_need, part.children))}"
    return f"{_OPERATORS[type(part)]} of {len(children_of(part))}"


def _atom(atom: Atom) -> str:
    """Return the words for an atom: a gang with its time, anything else with its work."""
    if atom.minimum == atom.maximum and atom.work_ms == atom.lease_ms * atom.maximum:
        return f"{atom.minimum:,} x <{atom.bundle}> for {duration_text(atom.lease_ms)}"
    wide = f"{atom.minimum:,}"
    if atom.maximum != atom.minimum:
        wide = f"{atom.minimum:,} to {atom.maximum:,}"
    return f"{wide} x <{atom.bundle}> for {duration_text(atom.work_ms)} of work"


def _ordinal(index: int) -> str:
    """Return an ordinal in words up to the tenth, then as ``11th``."""
    if index < len(_ORDINALS):
        return _ORDINALS[index]
    number = index + 1
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _atoms(expression: Expression) -> Iterator[Atom]:
    pending = [expression]
    while pending:
        here = pending.pop()
        if isinstance(here, Atom):
            yield here
        pending.extend(children_of(here))
