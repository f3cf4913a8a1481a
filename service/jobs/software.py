"""The software that tasks compute with: results are the same only with the same versions."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from service.jobs.pool import TaskPoolError

#: Packages that a result depends on; Agenda first.
_PACKAGES: Final = ("cluster-agenda", "numpy", "numba", "scipy", "ortools", "highspy")


def software_here() -> dict[str, str]:
    """Return the versions of what this process computes with."""
    return {"python": platform.python_version(), **{one: _version(one) for one in _PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def require_same_software(ours: Mapping[str, str], theirs: Any, where: str) -> None:
    """Refuse a worker that computes with other versions.

    Parameters
    ----------
    theirs
        What `software_here` returned there, or the exception it met.

    Raises
    ------
    TaskPoolError
        Naming the worker, and both versions of what differs.
    """
    if isinstance(theirs, ModuleNotFoundError):
        raise TaskPoolError(
            f"the Dask worker {where} has no Agenda: install cluster-agenda[dask] "
            f"{ours['cluster-agenda']} there"
        )
    if isinstance(theirs, BaseException):
        raise TaskPoolError(f"the Dask worker {where}: {type(theirs).__name__}: {theirs}")
    for name, here in ours.items():
        there = theirs.get(name, "none")
        if there != here:
            raise TaskPoolError(
                f"the Dask worker {where} has {name} {there}, here it is {here}; results are the "
                "same only with the same versions: install those there"
            )
