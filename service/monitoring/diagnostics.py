"""Diagnostics of a server for support: versions, settings, Plan, database."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from planner.plan.plan import Plan
from service.config import ServiceConfig
from service.logs import is_secret_name
from service.monitoring.bundle import HIDDEN, url_without_secrets
from service.monitoring.exposition import product_version

#: Packages whose versions matter.
_PACKAGES: Final = (
    "SQLAlchemy", "flask", "gunicorn", "highspy", "msgspec", "numba", "numpy", "ortools",
    "prometheus-client", "psycopg", "pulp", "scipy",
)  # fmt: skip


def versions() -> dict[str, Any]:
    """Return the versions of Agenda, Python, the machine, and the packages that matter."""
    return {
        "agenda": product_version(),
        "python": sys.version,
        "platform": platform.platform(),
        "packages": {name: _version_of(name) for name in _PACKAGES},
    }


def settings_of(config: ServiceConfig) -> dict[str, Any]:
    """Return the settings of a server without its secrets."""
    told = {
        name: HIDDEN if is_secret_name(name) and isinstance(value, str) else value
        for name, value in asdict(config).items()
    }
    told["database"] = url_without_secrets(config.database)
    return {name: str(value) if isinstance(value, Path) else value for name, value in told.items()}


def plan_facts(plan: Plan) -> dict[str, Any]:
    """Return the version, time and sizes of a Plan; the caller holds its lock."""
    states: Counter[str] = Counter()
    for (_, state), count in plan.table.counts_by_tenant().items():
        states[state.value] += count
    return {
        "version": plan.version,
        "now": plan.grid.seconds(plan.now),
        "step": plan.grid.seconds(1),
        "horizon": plan.grid.seconds(plan.grid.horizon),
        "reservations": dict(states),
        "refusals": len(plan.refusals),
        "machines": {group.name: group.count for group in plan.cluster.machines},
        "bytes": plan.table.nbytes(),
    }


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
