"""Amounts of named resources: immutable integers, with units for reading and writing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from rdl.read_error import ReadError

CPU = "cpu"
MEMORY = "memory"

#: Aliases of resources, all lower case, with their canonical names.
RESOURCE_ALIASES: dict[str, str] = {
    "cpu": CPU,
    "cpus": CPU,
    "core": CPU,
    "cores": CPU,
    "vcore": CPU,
    "vcores": CPU,
    "memory": MEMORY,
    "ram": MEMORY,
    "mem": MEMORY,
}

_BYTES_PER_MIB = 1024 * 1024

#: Bytes per unit of memory; binary units are powers of 1024, decimal units powers of 1000.
MEMORY_UNITS: dict[str, int] = {
    "B": 1,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
}

#: Possessive, without backtracking: a text of a million spaces is rejected in one pass.
_AMOUNT = re.compile(r"\s*+([0-9]++(?:\.[0-9]++)?+)\s*+([A-Za-z]*+)\s*+\Z")

#: The largest amount of one resource; far above any cluster, and far below an int64 overflow when
#: multiplied by steps.
MAX_AMOUNT = 2**40


class AmountError(ReadError):
    """An amount that cannot be read."""


def canonical_resource(name: str) -> str:
    """Return the canonical name of a resource (``RAM`` -> ``memory``).

    Raises
    ------
    AmountError
        If `name` is not an identifier.
    """
    known = RESOURCE_ALIASES.get(name.lower())
    if known is not None:
        return known
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.\-/]*", name):
        raise AmountError(
            f"{name!r} is not a resource name", "write letters, digits, '_', '-', '.'"
        )
    return name


def amount_of(resource: str, number: Decimal, unit: str, *, round_up: bool = True) -> int:
    """Return `number` `unit` of a canonical `resource` as an integer amount.

    Parameters
    ----------
    resource
        A canonical name; ``cpu`` counts millicores, ``memory`` MiB, anything else units.
    number
        The number as written; not negative.
    unit
        The unit written, or ``""``: cores, MiB or units.
    round_up
        Bundles round up and capacity rounds down, so that a promise is never too small.

    Raises
    ------
    AmountError
        If the unit does not belong to the resource, or the amount is out of range.
    """
    if not number.is_finite() or number < 0:
        raise AmountError(f"an amount of {resource} must be zero or more")
    if resource == CPU:
        if unit not in ("", "m"):
            raise AmountError(f"unknown unit {unit!r} for cpu", "write cores (2, 0.5) or 500m")
        exact = number if unit == "m" else number * 1000
    elif resource == MEMORY:
        if unit and unit not in MEMORY_UNITS:
            known = " ".join(MEMORY_UNITS)
            raise AmountError(f"unknown unit {unit!r} for memory", f"write one of {known}")
        exact = number * MEMORY_UNITS[unit] / _BYTES_PER_MIB if unit else number
    elif unit:
        raise AmountError(f"unknown unit {unit!r} for {resource}", "it is counted in whole units")
    else:
        exact = number
    if exact > MAX_AMOUNT:
        raise AmountError(f"an amount of {resource} above {MAX_AMOUNT} is not plausible")
    whole = int(exact)
    return whole + 1 if round_up and exact != whole else whole


@dataclass(frozen=True, slots=True)
class Resources(Mapping[str, int]):
    """Named integer amounts, sorted by name, without zeros.

    ``cpu`` is in millicores, ``memory`` in MiB, everything else in units.
    """

    items_: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, amounts: Mapping[str, int] | Iterable[tuple[str, int]]) -> Resources:
        """Build from integer canonical amounts; zeros are dropped.

        Raises
        ------
        AmountError
            If an amount is negative.
        """
        pairs = amounts.items() if isinstance(amounts, Mapping) else amounts
        kept = sorted((name, int(amount)) for name, amount in pairs if amount)
        for name, amount in kept:
            if amount < 0:
                raise AmountError(f"an amount of {name} must be zero or more, not {amount}")
        return cls(tuple(kept))

    @classmethod
    def from_json(cls, value: object, *, round_up: bool = True) -> Resources:
        """Read ``{"cpu": 4, "memory": "16 GiB"}``; a bare number is cores, MiB or units.

        Raises
        ------
        AmountError
            For anything else; the message names the resource.
        """
        if not isinstance(value, Mapping):
            raise AmountError('amounts are an object such as {"cpu": 4, "memory": "16 GiB"}')
        amounts: dict[str, int] = {}
        for raw_name, raw in value.items():
            if not isinstance(raw_name, str):
                raise AmountError(f"{raw_name!r} is not a resource name")
            name = canonical_resource(raw_name)
            if name in amounts:
                raise AmountError(f"{name} is given twice")
            amounts[name] = _read_amount(name, raw, round_up=round_up)
        return cls.of(amounts)

    def to_json(self) -> dict[str, int | float | str]:
        """Return the form that :meth:`from_json` reads, exactly."""
        return {name: _write_amount(name, amount) for name, amount in self.items_}

    def __getitem__(self, name: str) -> int:
        for known, amount in self.items_:
            if known == name:
                return amount
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def __hash__(self) -> int:
        return hash(self.items_)

    def __str__(self) -> str:
        """Canonical RDL text without the angle brackets: ``1 cpu, 2 GiB memory``."""
        return ", ".join(format_amount(name, amount) for name, amount in self.items_)

    def dominant_share(self, capacity: Resources) -> float:
        """Return the largest share of `capacity` over all resources (Rayon 6.3, DRF).

        A resource that the capacity lacks gives infinity.
        """
        share = 0.0
        for name, amount in self.items_:
            whole = capacity.get(name, 0)
            share = max(share, amount / whole if whole else float("inf"))
        return share


def format_amount(name: str, amount: int) -> str:
    """Return one canonical amount as RDL text: ``2 GiB memory``, ``500m cpu``, ``3 gpu``."""
    if name == CPU:
        return f"{amount // 1000} cpu" if amount % 1000 == 0 else f"{amount}m cpu"
    if name == MEMORY:
        number, unit = _memory_unit(amount)
        return f"{number} {unit} memory"
    return f"{amount} {name}"


def _memory_unit(mib: int) -> tuple[int, str]:
    for unit, size in (("TiB", 1024 * 1024), ("GiB", 1024)):
        if mib and mib % size == 0:
            return mib // size, unit
    return mib, "MiB"


def _read_amount(name: str, raw: object, *, round_up: bool) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise AmountError(f"{name} is a number or a string with a unit, not {raw!r}")
    match = _AMOUNT.match(str(raw)) if isinstance(raw, str) else None
    if isinstance(raw, str):
        if match is None:
            raise AmountError(f"cannot read {raw!r} as an amount of {name}", "write 4 or '16 GiB'")
        return amount_of(name, Decimal(match[1]), match[2], round_up=round_up)
    try:
        return amount_of(name, Decimal(repr(raw)), "", round_up=round_up)
    except InvalidOperation as error:
        raise AmountError(f"{raw!r} is not an amount of {name}") from error


def _write_amount(name: str, amount: int) -> int | float | str:
    if name == CPU:
        return amount // 1000 if amount % 1000 == 0 else f"{amount}m"
    if name == MEMORY:
        number, unit = _memory_unit(amount)
        return f"{number} {unit}"
    return amount
