"""Bins: the multisets of jobs that fit on one machine in expectation (LoTES section 4.2).

Only maximal bins matter, those to which no further job can be added. Algorithm 1 as printed can
produce one of them more than once; `enumerate_bins` gives each exactly once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lp.lotes.instance import FIT_TOLERANCE
from lp.result import FloatArray

Counts = NDArray[np.int32]
DEFAULT_LIMIT = 2_000_000
"""Counts (partial bins times classes) beyond which enumeration is refused: the LP over that many
bins would take minutes."""


class TooManyBinsError(ValueError):
    """Enumeration would exceed its limit; the message says by how much and what to do."""


def enumerate_bins(
    capacity: FloatArray, request: FloatArray, *, limit: int = DEFAULT_LIMIT
) -> Counts:
    """All maximal bins of one machine, each once.

    Parameters
    ----------
    capacity
        Shape (L,).
    request
        Mean requests of the classes that may run there, shape (K, L).
    limit
        Maximum number of counts (partial bins times classes) in memory.

    Returns
    -------
    ndarray
        Jobs of each class, shape (bins, K), in descending lexicographic order. Classes that do not
        fit have count zero in every bin; if no class fits, the only bin is empty.

    Raises
    ------
    ValueError
        If a class requests no resource (its count would have no limit).
    TooManyBinsError
        If there are more counts than `limit`.
    """
    scaled = scaled_requests(capacity, request)
    if (scaled <= 0).all(axis=1).any():
        raise ValueError("a class that asks for nothing has no maximum count in a bin")
    fitting = np.flatnonzero(how_many(np.ones(capacity.size), scaled) > 0)
    if not fitting.size:
        return np.zeros((1, len(request)), dtype=np.int32)
    bins = np.zeros((1, fitting.size), dtype=np.int32)
    left = np.ones((1, capacity.size))
    # Placing large requests first keeps the number of partial bins small.
    order = np.argsort(-scaled[fitting].max(axis=1), kind="stable")
    for depth, place in enumerate(order):
        need = scaled[fitting[place]]
        most = how_many_rows(left, need)
        if depth == len(order) - 1:
            bins[:, place] = most
            left = left - most[:, None] * need
            break
        _check_limit(int((most + 1).sum()), fitting.size, limit)
        bins, left = _branch(bins, left, most, int(place), need)
    maximal = np.ones(len(bins), dtype=np.bool_)
    for index in fitting:
        maximal &= how_many_rows(left, scaled[index]) == 0
    full = np.zeros((int(maximal.sum()), len(request)), dtype=np.int32)
    full[:, fitting] = bins[maximal]
    return full[np.lexsort(-full.T[::-1])]


def scaled_requests(capacity: FloatArray, request: FloatArray) -> FloatArray:
    """Requests as fractions of a machine, shape (K, L); infinite if it lacks the resource."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(request > 0, request / capacity, 0.0))


def how_many(left: FloatArray, scaled: FloatArray) -> NDArray[np.int64]:
    """Jobs of each class that fit the free capacity of one machine, shape (K,) for (L,), (K, L)."""
    with np.errstate(divide="ignore"):
        count = np.where(scaled > 0, (left + FIT_TOLERANCE) / scaled, math.inf).min(axis=1)
    return np.asarray(np.floor(count + FIT_TOLERANCE), dtype=np.int64)


def how_many_rows(left: FloatArray, scaled: FloatArray) -> NDArray[np.int64]:
    """Jobs of one class, request (L,), that fit the free capacity of each machine, (n, L)."""
    asked = scaled > 0
    count = ((left[:, asked] + FIT_TOLERANCE) / scaled[asked]).min(axis=1)
    return np.asarray(np.floor(count + FIT_TOLERANCE), dtype=np.int64)


def _branch(
    bins: Counts, left: FloatArray, most: NDArray[np.int64], place: int, need: FloatArray
) -> tuple[Counts, FloatArray]:
    """Extend every partial bin by 0 to `most` jobs of one class."""
    parent = np.repeat(np.arange(len(bins)), most + 1)
    first = np.repeat(np.cumsum(most + 1) - (most + 1), most + 1)
    count = np.arange(len(parent)) - first
    branched = bins[parent]
    branched[:, place] = count
    return branched, left[parent] - count[:, None] * need


def _check_limit(partial: int, classes: int, limit: int) -> None:
    if partial * classes > limit:
        raise TooManyBinsError(
            f"at least {partial} partial bins of {classes} classes on one machine, more than the "
            f"limit of {limit} counts: use the priced mode, which builds only the bins it needs"
        )
