"""An audit after the fact: what schedulers claimed, held against the cell's policy (Omega, 3.4).

The loop enforces that a machine is not overfull, limits of schedulers and precedence as claims are
made. The audit reads only the log of claims, and tells where that broke the policy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dispatch.simulation.cell.architecture import Architecture
from dispatch.simulation.cell.kernels.arrays import CLAIMS, TRANSACTIONS
from dispatch.simulation.cell.simulator import CellRun
from dispatch.simulation.cell.workload import F64, I64, WHOLE

#: What is told of each kind, at most.
_MOST = 10


class _Held(NamedTuple):
    """Claims of a run: who made each, where, what it held, and from when to when."""

    transaction: I64
    machine: I64
    cores: I64
    memory: I64
    begin_s: F64
    end_s: F64


def audit_claims(run: CellRun, architecture: Architecture) -> list[str]:
    """Return what broke the policy, a line each; nothing where all is well.

    Told are machines that held more than they are, schedulers that held more than their limit, and
    tasks that were evicted for a job without a higher precedence: ten of each kind at most.
    """
    held = _held(run)
    return [
        *_full_machines(held)[:_MOST],
        *_limits(held, run, architecture)[:_MOST],
        *_evictions(run, architecture)[:_MOST],
    ]


def _held(run: CellRun) -> _Held:
    log, claims = run.log, int(run.counts[CLAIMS])
    tasks = log.tasks[: run.counts[TRANSACTIONS]]
    transaction = np.repeat(np.arange(len(tasks), dtype=np.int64), tasks)
    end_s = log.end_s[transaction]
    if len(log.precedence.level):
        evicted = log.precedence.evictor[:claims] >= 0
        end_s = np.where(evicted, log.precedence.evicted_s[:claims], end_s)
    return _Held(
        transaction,
        log.claim[:claims],
        log.cores[transaction],
        log.memory[transaction],
        log.begin_s[transaction],
        end_s,
    )


def _peaks(groups: I64, held: _Held, amounts: I64) -> tuple[I64, I64, F64]:
    """Return the most that each group ever held, and when; what ends gives way to what begins."""
    ends = held.end_s > held.begin_s
    group = np.concatenate([groups[ends], groups])
    time = np.concatenate([held.end_s[ends], held.begin_s])
    change = np.concatenate([-amounts[ends], np.where(ends, amounts, 0)])
    order = np.lexsort((change, time, group))
    group, time, total = group[order], time[order], np.cumsum(change[order])
    first = np.flatnonzero(np.diff(group, prepend=-2))
    before = np.concatenate([[0], total[first[1:] - 1]]) if len(first) else total[:0]
    level = total - np.repeat(before, np.diff(first, append=len(group)))
    last = np.lexsort((level, group))[np.append(first[1:], len(group)) - 1] if len(first) else first
    return group[last], level[last], time[last]


def _full_machines(held: _Held) -> list[str]:
    found = []
    for name, amounts in (("cores", held.cores), ("memory", held.memory)):
        for machine, most, at in zip(*_peaks(held.machine, held, amounts), strict=True):
            if most > WHOLE:
                found.append(f"machine {machine} held {most / WHOLE:.3f} of its {name} at {at:g} s")
    return found


def _limits(held: _Held, run: CellRun, architecture: Architecture) -> list[str]:
    found = []
    owner = run.log.owner[held.transaction]
    whole = len(run.machines.cores) * WHOLE
    for name, amounts in (("cores", held.cores), ("memory", held.memory)):
        for one, most, at in zip(*_peaks(owner, held, amounts), strict=True):
            if one < 0:
                continue
            limit = architecture.schedulers[one].limit
            if limit < 1.0 and most > round(limit * whole):
                found.append(
                    f"scheduler {one} held {most / whole:.3f} of the cell's {name} at {at:g} s; "
                    f"its limit is {limit:g}"
                )
    return found


def _evictions(run: CellRun, architecture: Architecture) -> list[str]:
    log, scale = run.log, np.array(architecture.precedence)
    evictor = log.precedence.evictor[: run.counts[CLAIMS]]
    claims = np.flatnonzero(evictor >= 0)
    victims = log.job[log.precedence.transaction[claims]]
    of_victims = scale[run.states.type[victims]]
    of_evictors = scale[run.states.type[evictor[claims]]]
    wrong = np.flatnonzero(of_evictors <= of_victims)
    return [
        f"a task of job {victims[at]} (precedence {of_victims[at]}) was evicted for job "
        f"{evictor[claims[at]]} (precedence {of_evictors[at]})"
        for at in wrong.tolist()
    ]
