"""Credentials of MUNGE: a user of a cluster's host calls as itself, without a token.

The credential is signed by the daemon of the host, which knows the process's user. Its text is the
call, so that no other server and no other call can be made with it; the daemon of the server's host
refuses it the second time, and after its time to live.
"""

from __future__ import annotations

import subprocess
from typing import Final

from agenda.errors import SettingError

#: Scheme of the header Authorization.
SCHEME: Final = "Munge"

#: Seconds for which a credential is valid; clocks of the hosts may differ by less than that.
_TTL_S: Final = 60

_WAIT_S: Final = 10.0


def signed_text(method: str, host: str, target: str) -> str:
    """Return the text of the credential of a call.

    Parameters
    ----------
    host
        As in the header Host.
    target
        Path and query, as sent.
    """
    return f"agenda {method} {host} {target}"


def credential(socket: str, text: str) -> str:
    """Return a credential of this process's user.

    Parameters
    ----------
    socket
        Of the host's munged.

    Raises
    ------
    SettingError
        If the command ``munge`` is missing or refuses, with its reason.
    """
    command = ["munge", "--socket", socket, "--ttl", str(_TTL_S), "--string", text]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingError(f"munge cannot make a credential: {error}") from error
    if done.returncode:
        raise SettingError(f"munge cannot make a credential: {done.stderr.strip()}")
    return done.stdout.strip()
