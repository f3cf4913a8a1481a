"""The input of LoTES: machine configurations, job classes, and the service rates of the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lp.result import FloatArray

_Number = TypeVar("_Number", bound=np.generic)

FIT_TOLERANCE = 1e-9
"""A job fits when it exceeds what is left by at most this share of a machine (0.12 / 0.01)."""


@dataclass(frozen=True, slots=True)
class MachineConfigurations:
    """Kinds of machines: J configurations over L resources.

    Attributes
    ----------
    names, resources
        J and L names.
    count
        Machines of each configuration, n_j, shape (J,).
    capacity
        Capacity of one machine, c_jl, shape (J, L).
    """

    names: tuple[str, ...]
    resources: tuple[str, ...]
    count: NDArray[np.int64]
    capacity: FloatArray

    @classmethod
    def of(
        cls,
        count: ArrayLike,
        capacity: ArrayLike,
        *,
        resources: Sequence[str] = ("cores", "memory"),
        names: Sequence[str] | None = None,
    ) -> MachineConfigurations:
        """Check and freeze arrays given in any form.

        Raises
        ------
        ValueError
            If shapes disagree, a count is negative or not whole, a capacity is negative, or there
            is no machine.
        """
        counts = _read_only_copy(np.asarray(count, dtype=np.float64))
        capacities = _read_only_copy(np.asarray(capacity, dtype=np.float64))
        if capacities.ndim != 2 or capacities.shape != (counts.size, len(resources)):
            raise ValueError(
                f"capacity has shape {capacities.shape}: expected one row for each of "
                f"{counts.size} configurations and one column for each of {list(resources)}"
            )
        labels = (
            tuple(names) if names is not None else _numbered_names("configuration", counts.size)
        )
        if len(labels) != counts.size:
            raise ValueError(f"{len(labels)} names for {counts.size} configurations")
        _check_numbers(counts, "count", labels)
        _check_numbers(capacities, "capacity", labels)
        if (counts != np.round(counts)).any() or counts.sum() == 0:
            raise ValueError(f"count is {counts.tolist()}: expected whole numbers, not all zero")
        return cls(labels, tuple(resources), _read_only_copy(counts.astype(np.int64)), capacities)

    @property
    def machines(self) -> int:
        """Number of machines."""
        return int(self.count.sum())

    @property
    def configuration_of(self) -> NDArray[np.int32]:
        """Configuration of each machine, shape (machines,), in ascending order."""
        return np.repeat(np.arange(self.count.size, dtype=np.int32), self.count)

    def with_share(self, share: float) -> MachineConfigurations:
        """The same proportions with `share` of the machines, at least one of each configuration.

        Raises
        ------
        ValueError
            If `share` is not positive.
        """
        if share <= 0:
            raise ValueError(f"share is {share}: expected a number > 0")
        wanted = np.where(self.count > 0, np.maximum(np.round(self.count * share), 1), 0)
        return MachineConfigurations.of(
            wanted, self.capacity, resources=self.resources, names=self.names
        )


@dataclass(frozen=True, slots=True)
class JobClasses:
    """Kinds of jobs: K classes over L resources.

    Attributes
    ----------
    share
        Share of arrivals, alpha_k, shape (K,); sums to one.
    request
        Mean request, r_kl, shape (K, L).
    time_h
        Mean processing time in hours on a machine of speed one, shape (K,).
    scale
        Units for comparing requests to find the nearest class, shape (L,).
    """

    names: tuple[str, ...]
    share: FloatArray
    request: FloatArray
    time_h: FloatArray
    scale: FloatArray

    @classmethod
    def of(
        cls,
        share: ArrayLike,
        request: ArrayLike,
        time_h: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        scale: ArrayLike | None = None,
    ) -> JobClasses:
        """Check and freeze arrays given in any form; shares are divided by their sum.

        Raises
        ------
        ValueError
            If shapes disagree, a number is negative or not finite, a time is zero, or all shares
            are zero.
        """
        shares = np.asarray(share, dtype=np.float64)
        requests = _read_only_copy(np.asarray(request, dtype=np.float64))
        times = _read_only_copy(np.asarray(time_h, dtype=np.float64))
        if shares.ndim != 1 or requests.ndim != 2 or times.shape != shares.shape:
            raise ValueError(
                f"shapes {shares.shape}, {requests.shape}, {times.shape} of share, request and "
                "time_h: expected (K,), (K, L), (K,)"
            )
        if requests.shape[0] != shares.size:
            raise ValueError(f"{requests.shape[0]} rows of requests for {shares.size} shares")
        labels = tuple(names) if names is not None else _numbered_names("class", shares.size)
        if len(labels) != shares.size:
            raise ValueError(f"{len(labels)} names for {shares.size} classes")
        for values, what in ((shares, "share"), (requests, "request"), (times, "time_h")):
            _check_numbers(values, what, labels)
        if (times == 0).any():
            raise ValueError(f"time_h of {labels[int(np.argmin(times))]!r} is 0: expected > 0")
        if shares.sum() <= 0:
            raise ValueError("every share is 0: expected at least one class that arrives")
        units = np.ones(requests.shape[1]) if scale is None else np.array(scale, dtype=np.float64)
        return cls(
            labels, _read_only_copy(shares / shares.sum()), requests, times, _read_only_copy(units)
        )

    def nearest(self, request: ArrayLike) -> NDArray[np.int64]:
        """Class whose mean request is nearest, in units of `scale`; shape (n,) for (n, L)."""
        points = np.atleast_2d(np.asarray(request, dtype=np.float64)) / self.scale
        centres = self.request / self.scale
        best = np.zeros(len(points), dtype=np.int64)
        least = np.full(len(points), np.inf)
        for index, centre in enumerate(centres):
            distance = ((points - centre) ** 2).sum(axis=1)
            closer = distance < least
            best[closer], least[closer] = index, distance[closer]
        return best


@dataclass(frozen=True, slots=True)
class Unserved:
    """A class that no machine can serve, and the nearest configuration.

    Attributes
    ----------
    shortfall
        Largest request / capacity over the resources at `nearest`: 1.2 means 20 % too large.
    """

    name: str
    reason: str
    nearest: str
    shortfall: float


@dataclass(frozen=True, slots=True)
class LotesInstance:
    """Configurations, classes and the service rates mu_jk of the pairs.

    Attributes
    ----------
    rate
        Jobs per hour that one slot of configuration j finishes for class k, shape (J, K); zero
        if a class may not run.
    """

    configurations: MachineConfigurations
    classes: JobClasses
    rate: FloatArray

    @classmethod
    def of(
        cls,
        configurations: MachineConfigurations,
        classes: JobClasses,
        *,
        speed: ArrayLike = 1.0,
    ) -> LotesInstance:
        """Rates from mean times: mu_jk = speed_jk / time_k; speed 0 forbids a pair.

        Raises
        ------
        ValueError
            If the resources disagree, or a speed is negative or has the wrong shape.
        """
        shape = (len(configurations.names), len(classes.names))
        if classes.request.shape[1] != len(configurations.resources):
            raise ValueError(
                f"classes ask for {classes.request.shape[1]} resources, machines have "
                f"{len(configurations.resources)}: {list(configurations.resources)}"
            )
        try:
            speeds = np.broadcast_to(np.asarray(speed, dtype=np.float64), shape)
        except ValueError:
            raise ValueError(f"speed has shape {np.shape(speed)}: expected {shape}") from None
        _check_numbers(speeds, "speed", configurations.names)
        return cls(configurations, classes, _read_only_copy(speeds / classes.time_h))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of configurations, classes and resources: J, K, L."""
        return (*self.rate.shape, len(self.configurations.resources))

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether one mean job of class k fits an empty machine of j, shape (J, K)."""
        return self.fill() <= 1 + FIT_TOLERANCE

    def fill(self) -> FloatArray:
        """Largest request / capacity over the resources, shape (J, K); 0 / 0 counts as 0."""
        request, capacity = self.classes.request[None], self.configurations.capacity[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(request > 0, request / capacity, 0.0)
        return np.asarray(ratio.max(axis=2, initial=0.0))

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Pairs with machines, a positive rate, and capacity for one mean job, shape (J, K)."""
        return (self.rate > 0) & self.fits & (self.configurations.count[:, None] > 0)

    def classes_without_machine(self) -> tuple[Unserved, ...]:
        """Classes without a usable pair, each with the reason and the nearest configuration."""
        usable, fill = self.usable, self.fill()
        present = self.configurations.count > 0
        found = []
        for k, name in enumerate(self.classes.names):
            if usable[:, k].any():
                continue
            allowed = present & (self.rate[:, k] > 0)
            fill_k = np.where(allowed if allowed.any() else present, fill[:, k], np.inf)
            nearest = int(np.argmin(fill_k))
            reason = (
                "its mean request fits no machine" if allowed.any() else "every rate of it is zero"
            )
            label = self.configurations.names[nearest]
            found.append(Unserved(name, reason, label, float(fill[nearest, k])))
        return tuple(found)


def _numbered_names(kind: str, count: int) -> tuple[str, ...]:
    return tuple(f"{kind}-{index + 1}" for index in range(count))


def _read_only_copy(array: NDArray[_Number]) -> NDArray[_Number]:
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def _check_numbers(values: FloatArray, what: str, names: Sequence[str]) -> None:
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        position = np.unravel_index(int(np.argmax(wrong)), values.shape)
        raise ValueError(
            f"{what} of {names[int(position[0])]!r} is {values[position]}: expected a number >= 0"
        )
