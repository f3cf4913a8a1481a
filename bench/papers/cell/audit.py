"""An audit after the fact: what schedulers claimed, held against the cell's policy (Omega, 3.4).

The loop enforces that a machine is not overfull, limits of schedulers and precedence as claims are
made. The audit reads only the log of claims, and tells where claims broke the policy.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.papers.cell.architecture import Architecture
from bench.papers.cell.initial_state import precedences
from bench.papers.cell.kernels.arrays import CLAIMS, TRANSACTIONS
from bench.papers.cell.simulator import CellRun
from bench.papers.cell.workload import F64, I64, WHOLE

#: What is notified of each kind, at most.
_MOST: Final = 10

#: Machines that are looked at together: what that takes of memory is bounded.
_TOGETHER: Final = 1_000


class _RunClaims(NamedTuple):
    """Claims of a run: transaction and machine of each, what it held, and from when to when."""

    transaction: I64
    machine: I64
    cores: I64
    memory: I64
    begin_s: F64
    end_s: F64


def audit_claims(run: CellRun, architecture: Architecture) -> list[str]:
    """Return what broke the policy, a line each; nothing if all is well.

    Told are machines on which more was held than they have, schedulers that held more than their
    limit, and tasks that were evicted for a job without a higher precedence: ten of each kind at
    most.
    """
    claims = _claims_of(run)
    return [
        *_full_machines(claims, len(run.machines.cores))[:_MOST],
        *_limits(claims, run, architecture)[:_MOST],
        *_evictions(run, architecture)[:_MOST],
    ]


def _claims_of(run: CellRun) -> _RunClaims:
    log, claims = run.log, int(run.counts[CLAIMS])
    tasks = log.tasks[: run.counts[TRANSACTIONS]]
    transaction = np.repeat(np.arange(len(tasks), dtype=np.int64), tasks)
    end_s = log.end_s[transaction]
    if len(log.precedence.level):
        evicted = log.precedence.evictor[:claims] >= 0
        end_s = np.where(evicted, log.precedence.evicted_s[:claims], end_s)
    return _RunClaims(
        transaction,
        log.claim[:claims],
        log.cores[transaction],
        log.memory[transaction],
        log.begin_s[transaction],
        end_s,
    )


def _peaks(groups: I64, claims: _RunClaims) -> tuple[I64, I64, I64]:
    """Return groups, and the most cores and memory that each ever held.

    A claim that ends at an instant is gone before one begins then.
    """
    count = len(groups)
    group = np.concatenate([groups, groups])
    time = np.concatenate([claims.begin_s, claims.end_s])
    begins = np.arange(2 * count) < count
    order = np.lexsort((begins, time, group))
    first = np.flatnonzero(np.diff(group[order], prepend=-2))
    peaks = [
        np.maximum.reduceat(_running_sums(np.concatenate([amounts, -amounts])[order], first), first)
        for amounts in (claims.cores, claims.memory)
    ]
    return group[order][first], peaks[0], peaks[1]


def _running_sums(changes: I64, first: I64) -> I64:
    """Return the sums of changes up to each, again from each place of `first`."""
    sums = np.cumsum(changes)
    before = sums[first] - changes[first]
    return sums - np.repeat(before, np.diff(first, append=len(changes)))


def _full_machines(claims: _RunClaims, machines: int) -> list[str]:
    found: list[str] = []
    for begin in range(0, machines, _TOGETHER):
        some = (begin <= claims.machine) & (claims.machine < begin + _TOGETHER) & _lasts(claims)
        if not some.any():
            continue
        part = _RunClaims._make(column[some] for column in claims)
        for machine, cores, memory in zip(*_peaks(part.machine, part), strict=True):
            if max(cores, memory) > WHOLE:
                found.append(
                    f"machine {machine} held {cores / WHOLE:.3f} of its cores and "
                    f"{memory / WHOLE:.3f} of its memory"
                )
    return found


def _lasts(claims: _RunClaims) -> NDArray[np.bool_]:
    return claims.end_s > claims.begin_s


def _limits(claims: _RunClaims, run: CellRun, architecture: Architecture) -> list[str]:
    found = []
    whole = len(run.machines.cores) * WHOLE
    owner = run.log.owner[claims.transaction]
    for one, scheduler in enumerate(architecture.schedulers):
        own = (owner == one) & _lasts(claims)
        if scheduler.limit >= 1.0 or not own.any():
            continue
        part = _RunClaims._make(column[own] for column in claims)
        _, cores, memory = _peaks(owner[own], part)
        most = max(cores[0], memory[0])
        if most > round(scheduler.limit * whole):
            found.append(
                f"scheduler {one} held {most / whole:.3f} of the cell; "
                f"its limit is {scheduler.limit:g}"
            )
    return found


def _evictions(run: CellRun, architecture: Architecture) -> list[str]:
    log, states = run.log, run.states
    scale = precedences(architecture, states.type, states.scheduler, run.precedence)
    evictor = log.precedence.evictor[: run.counts[CLAIMS]]
    claims = np.flatnonzero(evictor >= 0)
    victims = log.job[log.precedence.transaction[claims]]
    of_victims, of_evictors = scale[victims], scale[evictor[claims]]
    wrong = np.flatnonzero(of_evictors <= of_victims)
    return [
        f"a task of job {victims[at]} (precedence {of_victims[at]}) was evicted for job "
        f"{evictor[claims[at]]} (precedence {of_evictors[at]})"
        for at in wrong.tolist()
    ]
