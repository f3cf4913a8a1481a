"""The input of stage 3: the bin that each machine emulates, and the wheels of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lp.lotes.assignment import Assignment
from lp.lotes.instance import JobClasses, LotesInstance
from lp.result import FloatArray

Wheel = Literal["delta", "flow"]


@dataclass(frozen=True, slots=True)
class DispatchTable:
    """Targets of every machine and class, frozen.

    Machines are numbered by configuration, then by bin.

    Attributes
    ----------
    configuration_of, bin_of
        Configuration and bin of each machine, shape (machines,).
    bins
        N_ijk of the bins in use, shape (B, K).
    wheel
        rho_jk, shape (J, K): each column sums to one, or to zero for a class without a target.
    requests, scale
        Mean requests of the classes and the units in which they are compared with a new job's
        request, shapes (K, L), (L,).
    arrival_rate
        lambda per hour that the table sustains in expectation.
    """

    configurations: tuple[str, ...]
    classes: tuple[str, ...]
    resources: tuple[str, ...]
    capacity: FloatArray
    configuration_of: NDArray[np.int32]
    bin_of: NDArray[np.int32]
    bins: NDArray[np.int32]
    wheel: FloatArray
    requests: FloatArray
    scale: FloatArray
    arrival_rate: float

    def rate_for(self, classes: JobClasses) -> float:
        """Lambda per hour that these targets sustain for another mix of the same classes.

        Times are for machines of speed one; the rate is zero if a class that arrives has no target.
        """
        running = self.bins[self.bin_of].sum(axis=0)
        needed = classes.share * classes.time_h
        asked = needed > 0
        return float((running[asked] / needed[asked]).min())

    @property
    def machines(self) -> int:
        """Number of machines."""
        return int(self.bin_of.size)

    def to_json(self) -> dict[str, object]:
        """The table with machines as runs of equal bins."""
        edges = np.flatnonzero(np.diff(self.bin_of, prepend=-1))
        lengths = np.diff(np.append(edges, self.bin_of.size))
        return {
            "configurations": list(self.configurations),
            "classes": list(self.classes),
            "resources": list(self.resources),
            "requests": self.requests.tolist(),
            "arrival_rate_per_h": self.arrival_rate,
            "wheel": self.wheel.tolist(),
            "runs": [
                {
                    "configuration": self.configurations[self.configuration_of[edge]],
                    "first_machine": int(edge),
                    "machines": int(length),
                    "jobs": self.bins[self.bin_of[edge]].tolist(),
                }
                for edge, length in zip(edges, lengths, strict=True)
            ],
        }


def dispatch_table(
    instance: LotesInstance, assignment: Assignment, *, wheel: Wheel = "delta"
) -> DispatchTable:
    """Build the table of an assignment.

    Parameters
    ----------
    wheel
        `delta`: the paper's ratio Delta_jkl / sum_m Delta_mkl, which is N_jk / sum_m N_mk for
        every resource with r_kl > 0. `flow`: N_jk mu_jk over its sum, the share of arrivals that
        a configuration can finish; the two differ where rates depend on the configuration.
    """
    configurations, classes = instance.configurations, instance.classes
    used = assignment.machines > 0
    bins = assignment.bins.select(used)
    machines = assignment.machines[used]
    bin_of = np.repeat(np.arange(machines.size, dtype=np.int32), machines)
    configuration_of = configurations.configuration_of
    if bin_of.size != configuration_of.size:
        raise ValueError(f"{bin_of.size} machines have bins, there are {configuration_of.size}")
    weight = assignment.in_service * (instance.rate if wheel == "flow" else 1.0)
    total = weight.sum(axis=0)
    share = np.divide(weight, total, out=np.zeros(weight.shape), where=total > 0)
    for array in (bin_of, configuration_of, share):
        array.flags.writeable = False
    return DispatchTable(
        configurations=configurations.names,
        classes=classes.names,
        resources=configurations.resources,
        capacity=configurations.capacity,
        configuration_of=configuration_of,
        bin_of=bin_of,
        bins=bins.jobs,
        wheel=share,
        requests=classes.request,
        scale=classes.scale,
        arrival_rate=assignment.arrival_rate,
    )
