"""Find the atoms that must end before another begins, so that it is not anticipated too early."""

from __future__ import annotations

from dispatch.applications.application import Application
from rdl.expressions import Expression, Graph, Order, children_of


def predecessors_of(expression: Expression, atom: str) -> tuple[str, ...]:
    """Return the path prefixes of all atoms that must have ended before `atom` may begin.

    Parameters
    ----------
    expression
        The request as submitted.
    atom
        Path of an atom, with or without occurrence numbers; returned paths include the same
        numbers.

    Raises
    ------
    ValueError
        If there is no such atom.
    """
    found: list[str] = []
    here, walked = expression, ""
    for step in atom.split(".") if atom else ():
        number = step.partition("@")[0]
        children = children_of(here)
        if not number.isdecimal() or int(number) >= len(children):
            raise ValueError(f"there is no atom {atom!r} in the request")
        place = int(number)
        found += [f"{walked}{other}" for other in _before(here, place)]
        here, walked = children[place], f"{walked}{step}."
    return tuple(found)


def is_below(path: str, prefix: str) -> bool:
    """Return whether `path` is `prefix` or below it."""
    return path == prefix or path.startswith((f"{prefix}.", f"{prefix}@"))


def _before(group: Expression, place: int) -> list[int]:
    """Return the children of a group that precede one of them."""
    if isinstance(group, Order):
        return list(range(place))
    if not isinstance(group, Graph):
        return []
    reached: set[int] = set()
    frontier = [place]
    while frontier:
        after = frontier.pop()
        fresh = {edge.before for edge in group.edges if edge.after == after} - reached
        reached |= fresh
        frontier += fresh
    return sorted(reached)


class AliveAtoms:
    """Number of current executions for each atom of each reservation."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}

    def count(self, application: Application, sign: int) -> None:
        """Add or remove one execution, by `sign`."""
        if application.reservation is not None and application.atom is not None:
            alive = self._counts.setdefault(application.reservation, {})
            alive[application.atom] = alive.get(application.atom, 0) + sign

    def __eq__(self, other: object) -> bool:
        """Return whether the same atoms have the same number of current executions."""
        return isinstance(other, AliveAtoms) and self._positive() == other._positive()

    __hash__ = None  # type: ignore[assignment]

    def _positive(self) -> dict[tuple[str, str], int]:
        return {
            (reservation, atom): count
            for reservation, counts in self._counts.items()
            for atom, count in counts.items()
            if count
        }

    def have_ended(self, reservation: str, prefixes: tuple[str, ...]) -> bool:
        """Return whether every prefix had executions, and all of them have ended."""
        alive = self._counts.get(reservation, {})
        for prefix in prefixes:
            counts = [count for atom, count in alive.items() if is_below(atom, prefix)]
            if not counts or any(counts):
                return False
        return True
