"""Random numbers of the kernels: xorshift (Marsaglia), whose state is one of the counts."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from bench.papers.cell.kernels.arrays import I64, RANDOM
from bench.papers.cell.kernels.compiled import inner


@inner
def draw(counts: I64, below: int) -> int:
    """Return a number of [0, below)."""
    state = counts[RANDOM]
    state ^= state << 13
    state ^= (state >> 7) & 0x01FFFFFFFFFFFFFF
    state ^= state << 17
    counts[RANDOM] = state
    return ((state >> 11) & 0x000FFFFFFFFFFFFF) % below
