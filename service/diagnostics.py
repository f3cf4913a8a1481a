"""Diagnostics of a server for support: versions, settings, Plan, database; and the bundle."""

from __future__ import annotations

import io
import json
import platform
import sys
import tarfile
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from planner.plan.plan import Plan
from service.config import ServiceConfig
from service.exposition import product_version
from service.logs import is_secret_name, redact

#: Packages whose versions matter.
_PACKAGES: Final = (
    "SQLAlchemy", "flask", "gunicorn", "highspy", "msgspec", "numba", "numpy", "ortools",
    "prometheus-client", "psycopg", "pulp", "scipy",
)  # fmt: skip

#: Replacement of a secret.
_HIDDEN: Final = "***"

#: Shortest secret that is searched for: shorter ones would occur in any text.
_SHORTEST: Final = 4


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
        name: _HIDDEN if is_secret_name(name) and isinstance(value, str) else value
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


class SupportBundle:
    """A tar.gz of texts without known secrets or text that looks like one.

    Parameters
    ----------
    folder
        Name of the folder of its files.
    secrets
        Texts that must not occur in it.
    """

    def __init__(self, folder: str, secrets: Iterable[str] = ()) -> None:
        self._folder = folder
        self._secrets = sorted((s for s in secrets if len(s) >= _SHORTEST), key=len, reverse=True)
        self._files: dict[str, bytes] = {}
        self.missing: dict[str, str] = {}

    def add_json(self, name: str, value: object) -> None:
        """Add a JSON document; members with names of secrets are hidden."""
        text = json.dumps(self._clean(value), indent=2, ensure_ascii=False, default=str)
        self._files[name] = text.encode()

    def add_text(self, name: str, text: str) -> None:
        """Add a text."""
        self._files[name] = self._redact(text).encode()

    def add_missing(self, name: str, why: str) -> None:
        """Record that a file is missing, and why."""
        self.missing[name] = self._redact(why)

    def write(self, path: Path) -> list[str]:
        """Write the bundle; return the names of its files."""
        names = sorted(self._files)
        manifest = json.dumps({"files": names, "missing": self.missing}, indent=2).encode()
        with tarfile.open(path, "w:gz") as archive:
            for name, data in [("manifest.json", manifest), *sorted(self._files.items())]:
                entry = tarfile.TarInfo(f"{self._folder}/{name}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return names

    def _clean(self, value: object) -> Any:
        if isinstance(value, Mapping):
            return {
                self._redact(str(key)): _HIDDEN
                if is_secret_name(str(key)) and isinstance(one, str | list | dict)
                else self._clean(one)
                for key, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._clean(one) for one in value]
        return self._redact(value) if isinstance(value, str) else value

    def _redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return redact(text)


def secrets_of_url(url: str) -> list[str]:
    """Return the secrets in a database's URL."""
    try:
        made = sa.make_url(url)
    except sa.exc.ArgumentError:
        return []
    asked = [v for name, v in made.query.items() if is_secret_name(name) and isinstance(v, str)]
    return [*asked, *([str(made.password)] if made.password else [])]


def url_without_secrets(url: str) -> str:
    """Return a database's URL without secrets."""
    try:
        made = sa.make_url(url)
    except sa.exc.ArgumentError:
        return _HIDDEN
    query = {name: _HIDDEN if is_secret_name(name) else v for name, v in made.query.items()}
    return made.set(query=query).render_as_string()


def last_lines(path: Path, count: int) -> str:
    """Return the last lines of a text file; invalid UTF-8 is replaced."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        return "".join(deque(lines, maxlen=count))
