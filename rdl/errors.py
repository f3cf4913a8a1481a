"""Problems of a request: the error, its position, and a suggested fix."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar, overload

from rdl.limits import MOST_PROBLEMS

if TYPE_CHECKING:
    from rdl.expressions import Expression

#: Codes of problems found without a Plan (docs/api.md lists all codes).
MALFORMED = "malformed"
UNSATISFIABLE = "unsatisfiable"
BEYOND_HORIZON = "beyond_horizon"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    Attributes
    ----------
    code
        ``malformed``, ``unsatisfiable`` or ``beyond_horizon``.
    message
        The error, one sentence without a full stop.
    span
        ``(start, end)`` character offsets in the source text, or None for JSON.
    pointer
        JSON pointer into a JSON source, or None for text.
    fix
        A suggested fix, or None if there is no short one.
    """

    code: str
    message: str
    span: tuple[int, int] | None = None
    pointer: str | None = None
    fix: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the shape of one entry of ``errors`` in a problem document."""
        return {
            "pointer": self.pointer,
            "span": None if self.span is None else list(self.span),
            "code": self.code,
            "message": self.message,
            "fix": self.fix,
        }


class RdlError(ValueError):
    """A source that cannot become a WorkGraph, with all its problems.

    Attributes
    ----------
    problems
        At least one, in source order.
    source
        The text the spans point into, or None for JSON.
    fragments
        Complete expressions inside unreadable ones, each with its JSON pointer (empty for text):
        their further problems can be reported at the same time.
    """

    def __init__(
        self,
        problems: tuple[Problem, ...],
        source: str | None = None,
        fragments: tuple[tuple[Expression, str], ...] = (),
    ) -> None:
        self.problems = problems
        self.source = source
        self.fragments = fragments
        super().__init__(render(problems, source))

    def __reduce__(self) -> tuple[type[RdlError], tuple[tuple[Problem, ...], str | None]]:
        """Pickle its arguments: requests may be refused in another process."""
        return type(self), (self.problems, self.source)

    @property
    def code(self) -> str:
        """The common code: ``malformed`` if any problem is, else that of the first."""
        codes = [problem.code for problem in self.problems]
        return MALFORMED if MALFORMED in codes else codes[0]


P = TypeVar("P")
Q = TypeVar("Q")


class ProblemList(Sequence[P]):
    """The first problems of an input, and the number of further ones.

    Parameters
    ----------
    problems
        Known problems.
    most
        Largest number of kept problems.

    Attributes
    ----------
    more
        Number of problems that were only counted.
    """

    def __init__(self, problems: Iterable[P] = (), most: int = MOST_PROBLEMS) -> None:
        self._kept: list[P] = []
        self._most = most
        self.more = 0
        self.extend(problems)

    @property
    def full(self) -> bool:
        """Whether the next problem is only counted."""
        return len(self._kept) >= self._most

    @property
    def total(self) -> int:
        """Number of problems, kept or counted."""
        return len(self._kept) + self.more

    def __bool__(self) -> bool:
        return self.total > 0

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, index: int) -> P: ...
    @overload
    def __getitem__(self, index: slice) -> list[P]: ...
    def __getitem__(self, index: int | slice) -> P | list[P]:
        return self._kept[index]

    def count_only(self) -> bool:
        """Count a problem if the list is full; False if not, then the caller must append it."""
        if self.full:
            self.more += 1
        return self.full

    def append(self, problem: P) -> None:
        """Keep a problem, or count it."""
        if not self.count_only():
            self._kept.append(problem)

    def extend(self, problems: Iterable[P]) -> None:
        """Add problems, and the count of those that another list only counted."""
        for problem in problems:
            self.append(problem)
        if isinstance(problems, ProblemList):
            self.more += problems.more

    def each(self, change: Callable[[P], Q]) -> ProblemList[Q]:
        """Return the list with every kept problem changed."""
        changed: ProblemList[Q] = ProblemList(map(change, self._kept), self._most)
        changed.more += self.more
        return changed


class TooManyProblemsError(Exception):
    """Stops a reader; the problems it collected say why."""


#: Most known words to compare with an unknown one.
_MOST_COMPARED: Final = 2_000

#: Searches for a nearest word left to the present answer; None: unlimited.
_searches: Final[ContextVar[list[int] | None]] = ContextVar("searches", default=None)


@contextmanager
def limited_suggestions(most: int = MOST_PROBLEMS) -> Iterator[None]:
    """Limit the number of searches by `nearest` inside; further ones find nothing.

    A search takes longer than reading the word, so an answer with 20 problems makes 20 searches.
    """
    token = _searches.set([most])
    try:
        yield
    finally:
        _searches.reset(token)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` most likely meant, or None."""
    left = _searches.get()
    if left is not None:
        if not left[0]:
            return None
        left[0] -= 1
    by_folded = {candidate.casefold(): candidate for candidate in islice(known, _MOST_COMPARED)}
    # A hostile word may have a million characters; no known one has.
    found = difflib.get_close_matches(word[:64].casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return a fix for an unknown word: the nearest known word, else all of them."""
    found = nearest(word, known)
    if found is not None:
        return f"did you mean {found!r}?"
    return f"write one of {', '.join(islice(known, 12))}" if known else "none is known here"


def quote(text: str, most: int = 40) -> str:
    """Return `text` in quotes for a message, cut short and without control characters."""
    return ascii(text if len(text) <= most else f"{text[:most]}...")


def render(problems: tuple[Problem, ...], source: str | None) -> str:
    """Return all problems as text, each with its line and a caret if the source is text."""
    return "\n".join(_render_one(problem, source) for problem in problems)


def _render_one(problem: Problem, source: str | None) -> str:
    fix = f"; {problem.fix}" if problem.fix else ""
    head = f"{problem.message}{fix}"
    if problem.span is None or source is None:
        return f"{problem.pointer}: {head}" if problem.pointer else head
    start, end = problem.span
    line_start = source.rfind("\n", 0, start) + 1
    line_end = source.find("\n", start)
    line_end = len(source) if line_end < 0 else line_end
    if line_end > start and source[line_end - 1] == "\r":
        line_end -= 1
    line_number = source.count("\n", 0, start) + 1
    shown, column = _clip(source[line_start:line_end], start - line_start)
    width = max(1, min(end, line_end) - start)
    carets = "^" * max(1, min(width, len(shown) - column))
    where = f"line {line_number}, column {start - line_start + 1}"
    return f"{where}: {head}\n    {shown}\n    {' ' * column}{carets}"


def _clip(line: str, column: int, reach: int = 60) -> tuple[str, int]:
    """Return a part of a long line around `column`, and the column in that part."""
    if len(line) <= 2 * reach:
        return _printable(line), column
    first = max(0, column - reach)
    head = "..." if first else ""
    tail = "..." if first + 2 * reach < len(line) else ""
    piece = _printable(line[first : first + 2 * reach])
    return f"{head}{piece}{tail}", column - first + len(head)


def _printable(piece: str) -> str:
    """Replace tabs and control characters by blanks, so that carets align."""
    if piece.isprintable():
        return piece
    return "".join(letter if letter.isprintable() else " " for letter in piece)
