"""Propagate windows along precedence: earliest starts forward, latest ends backward.

For each part four bounds hold in every plan: no step before `start` or from `end` on, the last step
ends at `first_end` or later, the first starts at `last_start` or sooner. An arrow a -> b with gap
[lo, hi] means lo <= start of b - end of a <= hi. Without maximum gaps, one forward and one backward
sweep find all consequences of the shortest lengths; an option that no longer fits, or a maximum
gap, may allow more, so sweeps are repeated, a bounded number of times: bounds that are not the
tightest are still valid. Recursion is as deep as operators nest.
"""

from __future__ import annotations

from typing import Final

from rdl.compile.parts import FAR, Finding, VertexDraft, blame, settle
from rdl.errors import UNSATISFIABLE
from rdl.local_time import span_words
from rdl.time_grid import TimeGrid, duration_text
from rdl.work_graph import ALL, ANY, ATOM, EVERY

_MOST_SWEEPS: Final = 16


def tighten(root: VertexDraft, grid: TimeGrid) -> None:
    """Narrow the windows of all parts; report parts that can no longer be satisfied.

    Keeps the set of satisfying allocations.
    """
    tightening = _Tightening(grid)
    for _ in range(_MOST_SWEEPS):
        tightening.again = False
        tightening.forward(root, root.start)
        tightening.backward(root, root.end)
        if not tightening.again:
            return
        _settle_all(root)


def _settle_all(part: VertexDraft) -> None:
    for child in part.children:
        if child.children and child.trouble is None:
            _settle_all(child)
    settle(part)


class _Tightening:
    """Sweeps over all parts; `again` is set if another sweep may narrow more."""

    def __init__(self, grid: TimeGrid) -> None:
        self.again = False
        self._grid = grid

    def forward(self, part: VertexDraft, earliest: int) -> int:
        """Raise starts to `earliest`, and propagate; return the earliest end."""
        if part.trouble is not None or (part.failed and part.kind == ATOM):
            return earliest
        start = part.start
        if start < earliest:
            part.start = start = earliest
        kind = part.kind
        if kind == ATOM:
            end = start + part.shortest
            if end < part.first_end:
                end = part.first_end
            part.first_end = end
            if end > part.end:
                self._blame(part)
            return end
        if kind == ALL:
            end = self._forward_all(part)
        else:
            ends = [self.forward(child, start) for child in part.children]
            left = [i for i, child in enumerate(part.children) if not child.failed]
            if kind == ANY:
                self._recount(part, left)
            if not left:
                return start
            part.start = min(part.children[i].start for i in left)
            end = min(ends[i] for i in left) + part.last_shift
        part.first_end = max(part.first_end, end)
        return part.first_end

    def _forward_all(self, part: VertexDraft) -> int:
        children, edges = part.children, part.by_before
        if not edges:
            end = max(self.forward(child, part.start) for child in children)
        else:
            earliest = [part.start] * len(children)
            end, at, count = part.start, 0, len(edges)
            limited = False
            for index in part.topological or range(len(children)):
                ended = self.forward(children[index], earliest[index])
                end = max(end, ended)
                while at < count and edges[at][0] == index:
                    _, after, least, most = edges[at]
                    earliest[after] = max(earliest[after], ended + least)
                    limited = limited or most >= 0
                    at += 1
            if limited:
                self._limit_forward(part)
        part.start = min(child.start for child in children)
        return end

    def _limit_forward(self, part: VertexDraft) -> None:
        """If `b` starts at most `hi` after `a`, `a` ends no earlier than start of b - hi."""
        for before, after, _, most in reversed(part.by_after):
            ahead, behind = part.children[before], part.children[after]
            if most < 0 or ahead.failed or behind.failed or behind.start - most <= ahead.first_end:
                continue
            ahead.first_end = behind.start - most
            self.again = True
            if ahead.first_end > ahead.end:
                self._blame(ahead)
            elif (longest := _longest(ahead)) < FAR:
                ahead.start = max(ahead.start, ahead.first_end - longest)

    def backward(self, part: VertexDraft, latest: int) -> int:
        """Lower ends to `latest`, and propagate; return the latest start."""
        if part.trouble is not None or (part.failed and part.kind == ATOM):
            return latest
        end = part.end
        if end > latest:
            part.end = end = latest
        kind = part.kind
        if kind == ATOM:
            start = min(end - part.shortest, part.last_start)
            part.last_start = start
            if start < part.start:
                self._blame(part)
            return start
        if kind == ALL:
            start = self._backward_all(part)
        else:
            limit = end - part.last_shift
            starts = [self.backward(child, limit) for child in part.children]
            left = [i for i, child in enumerate(part.children) if not child.failed]
            if kind == ANY:
                self._recount(part, left)
            if not left:
                return end
            part.end = max(part.children[i].end for i in left) + part.last_shift
            start = max(starts[i] for i in left)
        part.last_start = min(part.last_start, start)
        return part.last_start

    def _backward_all(self, part: VertexDraft) -> int:
        children, edges = part.children, part.by_after
        if not edges:
            start = min(self.backward(child, part.end) for child in children)
        else:
            latest = [part.end] * len(children)
            start, at = part.end, len(edges) - 1
            limited = False
            for index in reversed(part.topological or range(len(children))):
                started = self.backward(children[index], latest[index])
                start = min(start, started)
                while at >= 0 and edges[at][1] == index:
                    before, _, least, most = edges[at]
                    latest[before] = min(latest[before], started - least)
                    limited = limited or most >= 0
                    at -= 1
            if limited:
                self._limit_backward(part)
        part.end = max(child.end for child in children)
        return start

    def _limit_backward(self, part: VertexDraft) -> None:
        """If `b` starts at most `hi` after `a`, it starts no later than end of a + hi."""
        for before, after, _, most in part.by_before:
            ahead, behind = part.children[before], part.children[after]
            if most < 0 or ahead.failed or behind.failed or ahead.end + most >= behind.last_start:
                continue
            behind.last_start = ahead.end + most
            self.again = True
            if behind.last_start < behind.start:
                self._blame(behind)
            elif (longest := _longest(behind)) < FAR:
                behind.end = min(behind.end, behind.last_start + longest)

    def _recount(self, choice: VertexDraft, left: list[int]) -> None:
        """Update the shortest length of a choice after options have failed."""
        shortest = min((choice.children[i].shortest for i in left), default=0)
        if shortest != choice.shortest or (not left and not choice.failed):
            choice.shortest, choice.failed = shortest, not left
            self.again = True

    def _blame(self, part: VertexDraft) -> None:
        grid = self._grid
        if (
            part.first_end > part.start + part.shortest
            or part.last_start < part.end - part.shortest
        ):
            message = "the largest gaps around it leave it no place"
        else:
            need = duration_text(part.shortest * grid.step_ms)
            message = f"it takes at least {need}, but what comes before and after it leaves"
            room = span_words(grid.ms(part.start), grid.ms(part.end), grid)
            message += f" {room}" if part.start < part.end else " no time at all"
        blame(part, Finding(part.source, part.path, UNSATISFIABLE, message))
        self.again = True


def _longest(part: VertexDraft) -> int:
    """Return the largest length of an atom in steps, FAR if unbounded."""
    if part.kind == EVERY and part.children[0].numbers is not None:
        return min(FAR, part.children[0].numbers.longest + part.last_shift)
    return FAR if part.numbers is None else part.numbers.longest
