"""The best joint plan of a few tiny requests, by trying every combination of allocations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from planner.request import Request
from planner.value import cores_of, size_of
from rdl.expressions import AnyOf, Atom, Every, Expression, children_of
from rdl.resources import Resources
from tests.rdl.brute_force import Allocation, satisfying


def best_value(
    requests: Sequence[Request],
    capacity: Resources,
    horizon: int,
    average: tuple[float, int] | None = None,
    keep: Collection[int] = (),
    least: Mapping[int, float] | None = None,
) -> float:
    """Return the most value that fits in a constant `capacity`, whatever else is refused.

    Requests stand on a grid of 1 ms steps, submitted at 0; weights and preferences count.
    `average` is a share of capacity that no window of this many steps may exceed on average.
    `keep` are the indexes of requests that may not be refused; minus infinity if that cannot be.
    `least` is what a request must be worth where it is held, by index.
    """
    options = [options_of(request, capacity, horizon) for request in requests]
    for index, value in (least or {}).items():
        options[index] = [one for one in options[index] if one[0] >= value * (1 - 1e-9)]
    refusable = [index not in keep for index in range(len(requests))]
    names = sorted(capacity)
    free = np.array([[capacity[name]] * horizon for name in names], dtype=np.int64)
    left = np.zeros((len(names), 0), dtype=np.int64)
    window = 1
    if average is not None:
        window = average[1]
        most = [int(average[0] * capacity[name] * window) for name in names]
        left = np.repeat(np.array(most, dtype=np.int64)[:, None], horizon + window - 1, axis=1)
    return _search(list(zip(options, refusable, strict=True)), 0, (free, left, window))


def options_of(
    request: Request, capacity: Resources, horizon: int
) -> list[tuple[float, np.ndarray]]:
    """Return (value, amounts[resource, step]) of each distinct way to hold a request."""
    size = request.weight * size_of(request.graph, capacity)
    found: dict[bytes, tuple[float, np.ndarray]] = {}
    for allocation in satisfying(request.graph.expression, horizon):
        used = _used(request.graph.expression, allocation, sorted(capacity), horizon)
        value = size * _worth(request.graph.expression, "", dict(allocation[1]), capacity)[1]
        if value > found.get(used.tobytes(), (-1.0, used))[0]:
            found[used.tobytes()] = (value, used)
    return sorted(found.values(), key=lambda option: -option[0])


def _used(
    expression: Expression, allocation: Allocation, names: list[str], horizon: int
) -> np.ndarray:
    used = np.zeros((len(names), horizon), dtype=np.int64)
    for path, held in allocation[0]:
        bundle = _at(expression, path)
        amounts = [bundle.get(name, 0) for name in names]
        used += np.outer(amounts, held)
    return used


def _at(expression: Expression, path: str) -> Resources:
    for part in path.split(".") if path else []:
        expression = children_of(expression)[int(part.split("@")[0])]
    assert isinstance(expression, Atom)
    return expression.bundle


def _worth(
    here: Expression, path: str, taken: Mapping[str, int], capacity: Resources
) -> tuple[float, float]:
    """Return the size of an expression and its worth: parts add up by size, options multiply."""
    below = [
        (path + "." * bool(path) + str(index), child)
        for index, child in enumerate(children_of(here))
    ]
    if isinstance(here, Atom):
        return here.work_ms / 3_600_000 * cores_of(here.bundle, capacity), 1.0
    if isinstance(here, AnyOf):
        size = _worth(below[0][1], below[0][0], {}, capacity)[0]
        at, child = below[taken.get(path, 0)]
        prefer = 1.0 if here.prefer is None else here.prefer[taken.get(path, 0)]
        return size, prefer * _worth(child, at, taken, capacity)[1]
    if isinstance(here, Every):  # of tiny requests none has a choice inside
        assert here.times is not None
        size, worth = _worth(here.of, path, taken, capacity)
        return size * here.times, worth
    parts = [_worth(child, at, taken, capacity) for at, child in below]
    total = sum(size for size, _ in parts)
    return total, sum(size * worth for size, worth in parts) / total if total else 1.0


def _search(
    options: list[tuple[list[tuple[float, np.ndarray]], bool]],
    index: int,
    room: tuple[np.ndarray, np.ndarray, int],
) -> float:
    if index == len(options):
        return 0.0
    ways, refusable = options[index]
    best = _search(options, index + 1, room) if refusable else float("-inf")
    rest = sum(max((value for value, _ in later), default=0.0) for later, _ in options[index + 1 :])
    free, left, window = room
    for value, used in ways:
        if value + rest <= best:
            break
        free_after, left_after = free - used, left
        if left.shape[1]:
            left_after = left - np.array([np.convolve(row, np.ones(window, int)) for row in used])
        if (free_after >= 0).all() and (left_after >= 0).all():
            after = (free_after, left_after, window)
            best = max(best, value + _search(options, index + 1, after))
    return best
