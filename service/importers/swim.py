"""Import SWIM traces (bytes and submission times of MapReduce jobs) as requests with deadlines.

The trace has no durations, containers or deadlines; all three are modelled. A map task reads at
most 128 MiB and a reduce task at most 1 GiB, a container handles 1 MiB per second, and no task
takes less than 10 s. A job is `order(map, reduce)`, in waves if it has more tasks than the cluster
has containers. The time it takes alone is computed on the grid (rounded lease times waves); the
deadline is its submission, rounded up to a step, plus (1 + slack) of that time, rounded up: every
job of the trace can meet its deadline on an empty cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from service.importers.lines import (
    LARGEST,
    Imported,
    Names,
    Omissions,
    Slack,
    TraceError,
    TraceMachines,
    task_atom,
    window_text,
)

MIB = 1 << 20
MAP_BYTES = 128 * MIB
REDUCE_BYTES = 1024 * MIB
BYTES_PER_SECOND = MIB
LEAST_TASK_S = 10

_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class SwimModel:
    """Settings for turning bytes into tasks and deadlines; the defaults are the model of
    docs/importers.md."""

    pool: TraceMachines = field(default_factory=lambda: TraceMachines(40, 32, 128))
    step_s: int = 10
    slack: Slack = field(default_factory=Slack)
    tenant: str = "facebook"


@dataclass(frozen=True, slots=True)
class _Stage:
    """Equal tasks that run in parallel as far as containers allow."""

    tasks: int
    lease_s: int

    def steps_alone(self, containers: int, step_s: int) -> int:
        """Return the steps that the stage takes alone: waves of rounded leases."""
        waves = -(-self.tasks // containers)
        return waves * -(-self.lease_s // step_s)


def import_swim(
    text: Iterable[str], model: SwimModel, generator: np.random.Generator, limit: int | None = None
) -> Imported:
    """Read SWIM's six tab-separated columns into workload lines.

    Parameters
    ----------
    text
        Lines: id, submission (s), gap to the previous (s), map input, shuffle and output (bytes).
    model
        The cluster and the constants of the model.
    generator
        Draws one slack per job, in order of the trace, so that slacks do not depend on the size of
        the cluster.
    limit
        Only the first `limit` jobs.

    Raises
    ------
    TraceError
        If no line has six columns with numbers of the right kind.
    """
    lines: list[dict[str, object]] = []
    omissions = Omissions()
    names, last = Names(), 0
    for number, raw in enumerate(text, start=1):
        if not raw.strip():
            continue
        if limit is not None and len(lines) >= limit:
            break
        with omissions.reading(number):
            name, submitted, stages = _job(raw, number)
            end = _deadline(submitted, stages, model, generator)
            if (why := names.why_not(name, number, end)) is not None:
                omissions.add(number, why)
                continue
            last = max(last, end)
            atoms = [task_atom(s.tasks, s.lease_s, model.pool.containers) for s in stages]
            of = atoms[0] if len(atoms) == 1 else {"order": atoms}
            lines.append(
                {
                    "id": name,
                    "tenant": model.tenant,
                    "submitted": submitted,
                    "rdl": window_text(submitted, end, of),
                }
            )
    return Imported(tuple(lines), model.step_s, last, omissions.finish())


def _job(raw: str, number: int) -> tuple[str, int, list[_Stage]]:
    columns = raw.rstrip("\r\n").split("\t")
    if len(columns) != _COLUMNS:
        raise TraceError(f"line {number}: {_COLUMNS} tab-separated columns, not {len(columns)}")
    try:
        submitted, maps, shuffle = int(columns[1]), int(columns[3]), int(columns[4])
    except ValueError as error:
        raise TraceError(f"line {number}: times and bytes are whole numbers ({error})") from error
    if not 0 <= min(submitted, maps, shuffle) <= max(submitted, maps, shuffle) <= LARGEST:
        raise TraceError(f"line {number}: times and bytes are from 0 to {LARGEST}")
    stages = [_stage(maps, MAP_BYTES)]
    if shuffle:
        stages.append(_stage(shuffle, REDUCE_BYTES))
    return columns[0], submitted, stages


def _stage(size: int, per_task: int) -> _Stage:
    """Split `size` bytes into equal tasks, at least one."""
    tasks = max(1, -(-size // per_task))
    return _Stage(tasks, max(LEAST_TASK_S, -(-size // (tasks * BYTES_PER_SECOND))))


def _deadline(
    submitted: int, stages: list[_Stage], model: SwimModel, generator: np.random.Generator
) -> int:
    alone = sum(stage.steps_alone(model.pool.containers, model.step_s) for stage in stages)
    length = -(-alone * (1.0 + model.slack.draw(generator)) // 1)
    return (-(-submitted // model.step_s) + int(length)) * model.step_s
