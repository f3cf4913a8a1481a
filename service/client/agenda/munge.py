"""Credentials of MUNGE, with which users of a cluster's hosts call the API without a token.

The daemon of the host, which knows the process's user, signs the credential. Its text is the call
with a digest of its body, so that it is valid for no other call. The daemon of the server's host
refuses it if it is used again, or after its time to live.
"""

from __future__ import annotations

import hashlib
import subprocess
from typing import Final

from agenda.errors import SettingError

#: Scheme of the header Authorization.
SCHEME: Final = "Munge"

#: Seconds for which a credential is valid; the clocks of the hosts must differ by less.
_TTL_S: Final = 60

_WAIT_S: Final = 10.0


def signed_text(method: str, host: str, target: str, body: bytes = b"") -> str:
    """Return the text of the credential for a call.

    Parameters
    ----------
    host
        Value of the header Host.
    target
        Path and query, as sent.
    body
        Body of the call, as sent.
    """
    return f"agenda {method} {host} {target} {hashlib.sha256(body).hexdigest()}"


def credential(socket: str, text: str) -> str:
    """Return a credential of this process's user.

    Parameters
    ----------
    socket
        Socket of the host's munged.

    Raises
    ------
    SettingError
        If the command ``munge`` is missing or fails; the message has its reason.
    """
    command = ["munge", "--socket", socket, "--ttl", str(_TTL_S), "--string", text]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingError(f"munge cannot create a credential: {error}") from error
    if done.returncode:
        raise SettingError(f"munge cannot create a credential: {done.stderr.strip()}")
    return done.stdout.strip()
