"""What the machine-level event loop works on: arrivals, counters, and all together."""

# Elements of arrays have no type of their own for mypy.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

from bench.papers.machines.kernels.queues import MachineQueues, Queues, Slots
from dispatch.machines.placement.kernels.arrays import Floats, Ints, Longs
from dispatch.machines.placement.kernels.machines import Fleet, PlacementRules
from dispatch.machines.placement.kernels.scores import Targets

# Slots of `Counters.whole`.
FREE, SEQUENCE, HEAP, WAITING, CURSOR, EVENTS, STARTED, ENDED, LONG = range(9)
RUNNING, ARRIVED, REFUSED = 9, 10, 11
WHOLE_SIZE = 12
# Slots of `Counters.real`.
NOW, WAIT_SUM, WAIT_MAX, AREA_RUNNING, AREA_WAITING, WAIT_SQUARES, MEASURED = range(7)
REAL_SIZE = 7
# Slots of `Slots.turn`: the bucket of ends that was last taken into the heap; how many jobs end
# in later ones; the start with which the buckets' width is fitted again; the job of the bucket
# after that which is at hand next.
BUCKET, LATER, FIT_AT, AHEAD = range(4)
TURN_SIZE = 4

# What `advance` returns.
CONSUMED, MORE_SLOTS, MORE_QUEUE = 0, 1, 2


class Jobs(NamedTuple):
    """A chunk of arrivals in order of time."""

    arrival: Floats
    request: Floats  # (m, L)
    hours: Floats
    job_class: Ints
    draw: Floats  # uniform in [0, 1): the roulette's


class Counters(NamedTuple):
    """Scalars and sums of the run, as arrays so that kernels can change them."""

    whole: Longs
    real: Floats
    used: Floats  # (L,) resources in use now
    area_used: Floats  # (L,) integral over time
    class_started: Longs  # (K + 1,)
    class_wait: Floats  # (K + 1,)
    interval_started: Longs  # (I,)
    interval_wait: Floats
    interval_arrived: Longs
    interval_waiting: Longs  # longest queue seen
    histogram: Longs  # waits: zero, then by logarithm
    start: Floats  # (jobs,) recorded start of each job, or empty
    machine: Ints


class Measuring(NamedTuple):
    """What of a run is measured, and in which grain; times in hours."""

    warm_up: float  # starts before it are not measured
    interval: float  # length of the intervals of `Counters.interval_*`
    long_wait: float  # waits above it count as long
    histogram_low: float  # waits up to it share one bucket
    histogram_per_decade: float  # buckets of each factor of ten above it


class World(NamedTuple):
    """All that the event loop reads and changes, but for the arrivals.

    Attributes
    ----------
    fleet, targets
        The machines, and what the policy wants of them.
    queues, waiting
        Waiting jobs by queue, and by machine for the policy that has a queue at each.
    slots
        The jobs in the system.
    counters, measuring
        What has been measured, and what is to be.
    rules
        How machines are chosen.
    """

    fleet: Fleet
    targets: Targets
    queues: Queues
    waiting: MachineQueues
    slots: Slots
    counters: Counters
    measuring: Measuring
    rules: PlacementRules
