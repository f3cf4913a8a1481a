"""Problems of a file: the error, its position, and a suggested fix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from rdl.errors import ProblemList


@dataclass(frozen=True, slots=True)
class FileProblem:
    """One problem.

    Attributes
    ----------
    message
        What is wrong, one sentence without a full stop.
    pointer
        JSON pointer into the document (of the line, in a workload), or None.
    line
        Line number from 1, or None if there is only a pointer.
    fix
        A suggested fix, or None.
    """

    message: str
    pointer: str | None = None
    line: int | None = None
    fix: str | None = None

    def __str__(self) -> str:
        """Return one line: position, error and suggested fix."""
        line = "" if self.line is None else f"line {self.line}: "
        pointer = f"{self.pointer}: " if self.pointer else ""
        return f"{line}{pointer}{self.message}{f'; {self.fix}' if self.fix else ''}"


#: The problems that a reader of files collects.
FileProblems: TypeAlias = ProblemList[FileProblem]


class FileError(ValueError):
    """A file that cannot be read, with its first problems and the number of further ones.

    Attributes
    ----------
    path
        The file, or a word for the source of the document.
    problems
        At least one, in document order.
    """

    def __init__(self, path: str, problems: Iterable[FileProblem]) -> None:
        self.path = path
        self.problems = FileProblems(problems)
        more = self.problems.more
        rest = [f"{path}: and {more:,} more"] if more else []
        super().__init__("\n".join([*(f"{path}: {one}" for one in self.problems), *rest]))

    @property
    def line(self) -> int | None:
        """Line of the first problem."""
        return self.problems[0].line

    @property
    def pointer(self) -> str | None:
        """Pointer of the first problem."""
        return self.problems[0].pointer

    @property
    def message(self) -> str:
        """Message of the first problem."""
        return self.problems[0].message

    @property
    def fix(self) -> str | None:
        """Fix of the first problem."""
        return self.problems[0].fix
