"""Limits on sources, so that a hostile one gets a clear error quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Deepest nesting. Reading, formatting and comparing take up to four of the interpreter's thousand
#: Python frames per level; the rest belongs to the caller.
DEEPEST: Final = 200

#: Most problems in a report; further ones are rarely worth reading.
MOST_PROBLEMS: Final = 20


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """Bounds of one request.

    Attributes
    ----------
    max_source
        Most characters of a text, RDL or JSON.
    max_depth
        Deepest nesting of operators, at most 200.
    max_atoms
        Most atoms, voids and operators without children.
    max_occurrences
        Most occurrences that `every` unrolls to.
    max_options
        Most options of one `any`.
    max_edges
        Most arrows of all graphs together.
    """

    max_source: int = 1_000_000
    max_depth: int = DEEPEST
    max_atoms: int = 20_000
    max_occurrences: int = 10_000
    max_options: int = 1_000
    max_edges: int = 100_000

    def __post_init__(self) -> None:
        """Check the limits themselves.

        Raises
        ------
        ValueError
            If a limit is not positive, or the depth is too large for the interpreter's stack.
        """
        for name in ("max_source", "max_depth", "max_atoms", "max_occurrences", "max_options"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.max_edges < 0:
            raise ValueError(f"max_edges must be zero or more, not {self.max_edges}")
        if self.max_depth > DEEPEST:
            raise ValueError(f"max_depth is at most {DEEPEST}, not {self.max_depth}")


DEFAULT_LIMITS: Final = SourceLimits()
