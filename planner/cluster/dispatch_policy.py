"""DispatchPolicy: the operator's options for how work is served.

These are words of the cluster file. The planner stores but does not use them; the dispatcher
(`dispatch.cycle.options`) gives them their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: The order in which machines choose among the waiting classes (LoTES 4.3).
BY_CLASS: Final = "lotes"

#: Orders of waiting applications; `dispatch.pool.ordering` has all but `BY_CLASS` (tested).
ORDERS: Final = (
    "fifo", "fifo-backfill", "priority", "drf",
    "sjf", "sjf-2d", "sjf-3d", "psjf", "psjf-2d", "psjf-3d",
    "srpt", "srpt-2d1", "srpt-2d2", "srpt-3d1", "srpt-3d2",
    "hrrn", "hrrn-2d", "hrrn-3d", "hrrn-2d-printed", "hrrn-3d-printed", BY_CLASS,
)  # fmt: skip

#: How elastic components are granted.
ALLOCATIONS: Final = ("flexible", "malleable")

#: Strategies that choose machines; `dispatch.machines.placement.policy` has the same (tested).
PLACEMENTS: Final = ("lotes", "best_fit", "greedy", "tetris", "spread")

#: How far applications grow into idle capacity; `dispatch.cycle.growth` has the same (tested).
GROWTHS: Final = ("none", "max_parallelism", "global_cap", "relative_size")

#: The order in which an arrival never preempts others.
_SHARES: Final = "drf"


class DispatchPolicyError(ValueError):
    """Options that are invalid or exclude each other.

    Attributes
    ----------
    key, fix
        The invalid option, and a suggested fix.
    """

    def __init__(self, key: str, message: str, fix: str) -> None:
        super().__init__(f"{message}; {fix}")
        self.key = key
        self.message = message
        self.fix = fix


@dataclass(frozen=True, slots=True)
class DispatchPolicy:
    """Order, preemption, growth and placement of applications.

    Attributes
    ----------
    order
        Order of waiting applications with equal priorities; one of `ORDERS`.
    by_priority
        Whether a higher priority goes first, whatever the order.
    interactive_first
        Whether an interactive application goes before a batch one of equal priority.
    preempt
        Whether an arrival that is ordered before the last application in service may take elastic
        components immediately.
    allocation
        ``flexible``: cores first, then elastic components; ``malleable``: a running application
        takes all it can before another starts.
    reclaim
        Whether elastic components are preempted so that cores of others can start.
    placement
        Strategy that chooses machines; one of `PLACEMENTS`.
    tables
        Whether to build dispatch tables; without them ``lotes`` is best fit.
    allow_start
        Whether requests extend each lease by the time that work of their size waits to start.
    grow
        How far components that may grow do so; one of `GROWTHS`.
    grow_below
        For ``global_cap``: largest used share of the machines that are up at which any grows.
    grow_times
        For ``relative_size``: the largest multiple of the requested number.
    spare
        Number of spare machines, as a share of time: in this share no more machines were lost at
        the same time than are kept free of promises; 0 keeps none.

    Raises
    ------
    DispatchPolicyError
        For an unknown word, or two that exclude each other.
    """

    order: str = "fifo"
    by_priority: bool = True
    interactive_first: bool = True
    preempt: bool = True
    allocation: str = "flexible"
    reclaim: bool = True
    placement: str = "lotes"
    tables: bool = True
    allow_start: bool = False
    grow: str = "relative_size"
    grow_below: float = 0.6
    grow_times: int = 4
    spare: float = 0.0

    def __post_init__(self) -> None:
        """Check the words."""
        for key, value, known in (
            ("order", self.order, ORDERS),
            ("allocation", self.allocation, ALLOCATIONS),
            ("placement", self.placement, PLACEMENTS),
            ("grow", self.grow, GROWTHS),
        ):
            if value not in known:
                fix = f"write one of {', '.join(known)}"
                raise DispatchPolicyError(key, f"{value!r} is not known here", fix)
        if not 0 <= self.grow_below <= 1:
            fix = "write a number from 0 to 1"
            raise DispatchPolicyError("grow_below", f"{self.grow_below} is no share", fix)
        if self.grow_times < 1:
            message = f"{self.grow_times} times is less than what was requested"
            raise DispatchPolicyError("grow_times", message, "write 1 or more")
        if not 0 <= self.spare <= 1:
            fix = "write a number from 0 to 1"
            raise DispatchPolicyError("spare", f"{self.spare} is no share", fix)
        if self.preempt and self.order == _SHARES:
            message = "fair shares do not order two requests, so none may preempt"
            raise DispatchPolicyError("preempt", message, "write false, or leave it out")
        if self.preempt and self.order == BY_CLASS:
            message = "what runs is never stopped for a class that is below its share"
            raise DispatchPolicyError("preempt", message, "write false, or leave it out")
        if self.order == BY_CLASS and not (self.placement == BY_CLASS and self.tables):
            key = "tables" if self.placement == BY_CLASS else "placement"
            fix = "write placement = 'lotes' and tables = true, or leave them out"
            raise DispatchPolicyError(key, "the order 'lotes' follows the dispatch table", fix)
        if not self.preempt and self.order.startswith("psjf"):
            fix = f"write order = {self.order[1:]!r} for the same without preemption"
            raise DispatchPolicyError("preempt", f"{self.order} is preemptive", fix)
        if not self.by_priority and self.order == "priority":
            fix = "write order = 'fifo' for the oldest first"
            raise DispatchPolicyError("by_priority", "this order goes by priority", fix)
        if self.reclaim and self.allocation == "malleable":
            message = "malleable applications keep what they have"
            raise DispatchPolicyError("reclaim", message, "write false, or leave it out")


def complete_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a policy, completed with omitted ones that follow from them."""
    follows: dict[str, Any] = {}
    order = str(words.get("order", ""))
    if order in (_SHARES, BY_CLASS) or order.startswith("psjf"):
        follows["preempt"] = order.startswith("psjf")
    if order == "priority":
        follows["by_priority"] = True
    if words.get("allocation") == "malleable":
        follows["reclaim"] = False
    return follows | dict(words)
