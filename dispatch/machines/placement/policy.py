"""The policies that choose machines, by name; kernels know them by their place in the list.

A file of their own, so that who only names a policy loads no kernel.
"""

from __future__ import annotations

from typing import Final, Literal

Policy = Literal["lotes", "greedy", "tetris", "best_fit", "spread"]

POLICIES: Final[tuple[Policy, ...]] = ("lotes", "greedy", "tetris", "best_fit", "spread")
