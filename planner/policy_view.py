"""What window-average policies leave, as agents see it (greedy.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class AverageLimits:
    """Slack of every window-average limit.

    For limit i with window W = `windows[i]`, `slack[i, tau - first + offset]` is A W - F(tau), F
    being the use inside [tau, tau + W); every tau whose window touches the horizon is kept, so
    `offset` is the largest window.

    Attributes
    ----------
    windows
        int64[n], in steps.
    slack
        int64[n, offset + steps], in amount-steps; read-only.
    offset
        Column of tau = first.
    names
        (policy, resource) of each limit, for refusals.
    """

    windows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    slack: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    offset: int = 0
    names: tuple[tuple[str, str], ...] = ()
