"""What is wrong with a request, where, and what would be right."""

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

#: Codes of problems that need no Plan to be found (docs/api.md lists all codes).
MALFORMED = "malformed"
UNSATISFIABLE = "unsatisfiable"
BEYOND_HORIZON = "beyond_horizon"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes
    ----------
    code
        ``malformed``, ``unsatisfiable`` or ``beyond_horizon``.
    message
        What is wrong, one sentence without a full stop.
    span
        ``(start, end)`` character offsets in the source text, or None for JSON.
    pointer
        JSON pointer into a JSON source, or None for text.
    fix
        What would be right, or None when nothing short would say it.
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
    """A source that cannot become a WorkGraph; carries every problem at once.

    Attributes
    ----------
    problems
        At least one, in source order.
    source
        The text the spans point into, or None for JSON.
    fragments
        Expressions that were read whole inside what could not be, each with its JSON pointer
        (empty for text): what else is wrong with them can be reported at once.
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
        """Pickle by what it is made of: work may be refused in another process."""
        return type(self), (self.problems, self.source)

    @property
    def code(self) -> str:
        """The code of the whole: ``malformed`` if any problem is, else that of the first."""
        codes = [problem.code for problem in self.problems]
        return MALFORMED if MALFORMED in codes else codes[0]


P = TypeVar("P")
Q = TypeVar("Q")


class ProblemList(Sequence[P]):
    """The first problems of an input, and how many more there are.

    Parameters
    ----------
    problems
        What is known already.
    most
        How many are kept.

    Attributes
    ----------
    more
        Problems that were only counted.
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
        """How many there are, kept or counted."""
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
        """Count a problem that would not be kept; False if it would be, and is to be made."""
        if self.full:
            self.more += 1
        return self.full

    def append(self, problem: P) -> None:
        """Keep a problem, or count it."""
        if not self.count_only():
            self._kept.append(problem)

    def extend(self, problems: Iterable[P]) -> None:
        """Add problems, and those that another list has only counted."""
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
    """Inside a reader: nothing more can be read, and the problems it gathered say why."""


#: Known words that an unknown one is compared with.
_MOST_COMPARED: Final = 2_000

#: Searches for a nearest word that the present answer may still make; None: as many as it likes.
_searches: Final[ContextVar[list[int] | None]] = ContextVar("searches", default=None)


@contextmanager
def limited_suggestions(most: int = MOST_PROBLEMS) -> Iterator[None]:
    """Inside, `nearest` searches so often, and then finds nothing.

    A search takes longer than reading the word, so an answer that lists 20 problems makes 20.
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
    # A hostile word may be a million characters long; no known one is.
    found = difflib.get_close_matches(word[:64].casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return a fix for an unknown word: the nearest known one, else all of them."""
    found = nearest(word, known)
    if found is not None:
        return f"did you mean {found!r}?"
    return f"write one of {', '.join(islice(known, 12))}" if known else "none is known here"


def quote(text: str, most: int = 40) -> str:
    """Return `text` in quotes for a message, cut short and without control characters."""
    return ascii(text if len(text) <= most else f"{text[:most]}...")


def render(problems: tuple[Problem, ...], source: str | None) -> str:
    """Return all problems as text, each with its line and a caret where the source is text."""
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
    """Return a piece of a long line around `column`, and the column inside it."""
    if len(line) <= 2 * reach:
        return _printable(line), column
    first = max(0, column - reach)
    head = "..." if first else ""
    tail = "..." if first + 2 * reach < len(line) else ""
    piece = _printable(line[first : first + 2 * reach])
    return f"{head}{piece}{tail}", column - first + len(head)


def _printable(piece: str) -> str:
    """Blank tabs and control characters, so that carets stand under what they mean."""
    if piece.isprintable():
        return piece
    return "".join(letter if letter.isprintable() else " " for letter in piece)
