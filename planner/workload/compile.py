"""Compile workload lines to requests, and record why the other lines cannot be compiled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from planner.cluster.cluster import Cluster
from planner.files.workload_file import WorkloadLine, readable
from planner.placement import Code
from planner.plan.records.changes import UncompiledRequest
from planner.request import Request, header_of, text_as_written
from rdl.errors import RdlError
from rdl.limits import DEFAULT_LIMITS, SourceLimits
from rdl.time_grid import TimeGrid


@dataclass(frozen=True, slots=True)
class UncompiledLine:
    """A line that could not become a request.

    Attributes
    ----------
    line
        The line as written.
    error
        All problems of the line.
    expression
        The formatted text if the source could be parsed, else the source, shortened.
    position
        Its index among all lines.
    """

    line: WorkloadLine
    error: RdlError
    expression: str
    position: int

    @property
    def code(self) -> Code:
        """The code of the refusal."""
        return Code(self.error.code)

    @property
    def request(self) -> UncompiledRequest:
        """The line as a request that was not compiled."""
        return UncompiledRequest(**header_of(self.line), expression=self.expression)


@dataclass(frozen=True, slots=True)
class CompiledWorkload:
    """All lines of a workload, compiled on one grid.

    Attributes
    ----------
    grid
        The grid they were compiled on.
    requests
        In order; `positions[i]` is the index of request i among all lines.
    refusals
        Lines that are malformed, unsatisfiable or beyond the horizon.
    recorded
        By id: its recorded run (start, end) in ms from the origin.
    """

    grid: TimeGrid
    requests: tuple[Request, ...]
    positions: tuple[int, ...]
    refusals: tuple[UncompiledLine, ...]
    recorded: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of lines."""
        return len(self.requests) + len(self.refusals)


def compile_workload(
    lines: Iterable[WorkloadLine],
    cluster: Cluster,
    grid: TimeGrid | None = None,
    *,
    exact_work: bool = False,
    limits: SourceLimits = DEFAULT_LIMITS,
) -> CompiledWorkload:
    """Compile lines for a cluster; a line that cannot be compiled does not affect the others.

    Parameters
    ----------
    grid
        The Plan's grid; by default the cluster's.
    exact_work
        Refuse work that cannot be met exactly, instead of using the next possible amount.
    """
    chosen = cluster.grid() if grid is None else grid
    requests: list[Request] = []
    positions: list[int] = []
    refusals: list[UncompiledLine] = []
    recorded: dict[str, tuple[int, int]] = {}
    for position, line in enumerate(lines):
        try:
            request = compile_line(line, cluster, chosen, exact_work=exact_work, limits=limits)
        except RdlError as error:
            refusals.append(UncompiledLine(line, error, readable(line, limits), position))
        else:
            requests.append(request)
            positions.append(position)
            if line.recorded is not None:
                recorded[line.id] = line.recorded
    return CompiledWorkload(chosen, tuple(requests), tuple(positions), tuple(refusals), recorded)


def compile_line(
    line: WorkloadLine,
    cluster: Cluster,
    grid: TimeGrid,
    *,
    exact_work: bool = False,
    limits: SourceLimits = DEFAULT_LIMITS,
) -> Request:
    """Compile one line.

    Raises
    ------
    RdlError
        With all problems of its expression.
    """
    from rdl.compile.compiler import compile_expression
    from rdl.compile.source import read_source

    context = cluster.context(grid, line.submitted_ms, exact_work=exact_work, limits=limits)
    asked = read_source(line.source, limits)
    text = line.source if isinstance(line.source, str) and asked.span is not None else None
    graph = compile_expression(asked, context, text)
    written = text_as_written(line.source, asked, graph.expression)
    return Request(**header_of(line), graph=graph, written=written)
