"""Assets: the modules and styles of the pages, under addresses that change with their content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Final

#: Content types by file extension.
MEDIA: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

_IMPORT: Final = re.compile(r'^(?:import|export)\b[^;"]*?"(\.{1,2}/[^"]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file loaded by a page."""

    body: bytes
    media: str


class Assets:
    """All files of the pages, by folder and name.

    Parameters
    ----------
    found
        The files by ``folder/name``.

    Attributes
    ----------
    digest
        Part of every address; it changes whenever any file changes.
    """

    def __init__(self, found: Mapping[str, Asset]) -> None:
        self._found = found
        text = hashlib.sha256()
        for name in sorted(found):
            text.update(f"{name}\n{len(found[name].body)}\n".encode())
            text.update(found[name].body)
        self.digest = text.hexdigest()[:12]

    def find(self, folder: str, name: str) -> Asset | None:
        """Return a file, or None."""
        return self._found.get(f"{folder}/{name}")

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name (``folder/name``)."""
        return name in self._found

    def address(self, name: str) -> str:
        """Return the URL path of a file.

        Raises
        ------
        KeyError
            If there is no such file.
        """
        self._found[name]
        return f"/ui/static/{self.digest}/{name}"

    def modules_of(self, name: str) -> list[str]:
        """Return a module and all that it imports, each once, the module first."""
        known: list[str] = []
        waiting = [name]
        while waiting:
            one = waiting.pop(0)
            if one not in known:
                known.append(one)
                waiting += self._imports_of(one)
        return known

    def _imports_of(self, name: str) -> list[str]:
        folder = PurePosixPath(name).parent
        named = _IMPORT.findall(self._found[name].body.decode())
        return [_joined(folder, one) for one in named]


def _joined(folder: PurePosixPath, relative: str) -> str:
    parts = list(folder.parts)
    for part in PurePosixPath(relative).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


@cache
def packaged_assets() -> Assets:
    """Return the files of this distribution."""
    found: dict[str, Asset] = {}
    for folder in (files("service.web") / "static").iterdir():
        for file in folder.iterdir():
            media = MEDIA.get(PurePosixPath(file.name).suffix)
            if media is not None:
                found[f"{folder.name}/{file.name}"] = Asset(file.read_bytes(), media)
    return Assets(found)
