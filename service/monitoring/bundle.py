"""SupportBundle: files about a server for support, without secrets."""

from __future__ import annotations

import io
import json
import tarfile
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from service.logs import is_secret_name, redact

#: Replacement of a secret.
HIDDEN: Final = "***"

#: Shortest secret that is searched for: shorter ones would occur in any text.
_SHORTEST: Final = 4


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
                self._redact(str(key)): HIDDEN
                if is_secret_name(str(key)) and isinstance(one, str | list | dict)
                else self._clean(one)
                for key, one in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._clean(one) for one in value]
        return self._redact(value) if isinstance(value, str) else value

    def _redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
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
        return HIDDEN
    query = {name: HIDDEN if is_secret_name(name) else v for name, v in made.query.items()}
    return made.set(query=query).render_as_string()


def last_lines(path: Path, count: int) -> str:
    """Return the last lines of a text file; invalid UTF-8 is replaced."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        return "".join(deque(lines, maxlen=count))
