"""Where a server is and which token it wants, from arguments or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agenda.connection import DEFAULT_TIMEOUT_S, DEFAULT_URL, Connection
from agenda.errors import SettingError


def connection_of(
    url: str | None = None,
    token: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    environment: Mapping[str, str] = os.environ,
) -> Connection:
    """Return a connection; what is not given stands in the environment.

    AGENDA_SERVER is the URL, AGENDA_TOKEN the token, AGENDA_TOKEN_FILE a file that holds it.

    Raises
    ------
    SettingError
        For a URL, a token or a file that cannot be used.
    """
    used = token or environment.get("AGENDA_TOKEN")
    file = environment.get("AGENDA_TOKEN_FILE")
    if not used and file:
        used = token_in(Path(file))
    return Connection(url or environment.get("AGENDA_SERVER") or DEFAULT_URL, used, timeout_s)


def token_in(path: Path) -> str:
    """Return the token that a file holds.

    Raises
    ------
    SettingError
        If it cannot be read, or holds nothing.
    """
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise SettingError(f"the token file {path} cannot be read: {why}") from error
    if not text:
        raise SettingError(f"the token file {path} is empty")
    return text
