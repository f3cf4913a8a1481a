"""The names of the placement policies; kernels use their index in the list.

They have a module of their own so that code that only names a policy loads no kernel.
"""

from __future__ import annotations

from typing import Final, Literal

Policy = Literal["lotes", "greedy", "tetris", "best_fit", "spread"]

POLICIES: Final[tuple[Policy, ...]] = ("lotes", "greedy", "tetris", "best_fit", "spread")
