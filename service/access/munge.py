"""The user who made a MUNGE credential, as the daemon of this host reports it."""

from __future__ import annotations

import pwd
import subprocess
import threading
from typing import Final

#: Most credentials that are decoded at the same time: anyone may send one.
_MOST: Final = 4

_WAIT_S: Final = 5.0

#: Longest wait for others' credentials, seconds: a healthy daemon decodes one in milliseconds, and
#: calls that wait take threads from users with tokens.
_TURN_S: Final = 0.5

#: Exit codes of ``unmunge`` if it does not reach the daemon, or gets no answer.
_NO_DAEMON: Final = (6, 7)


class CredentialError(Exception):
    """The credential is not valid for this call; the message says why."""


class DaemonError(Exception):
    """The credential could not be decoded now: the daemon is unavailable or busy."""


class CredentialReader:
    """Decodes credentials with ``unmunge``; any thread may call it.

    Parameters
    ----------
    socket
        The socket of this host's munged.
    """

    def __init__(self, socket: str) -> None:
        self._command = ("unmunge", "--socket", socket, "--keys", "UID", "--numeric")
        self._places = threading.BoundedSemaphore(_MOST)

    def user_of(self, credential: str, text: str) -> str:
        """Return the name of the user who made a credential of a text.

        Raises
        ------
        CredentialError
            If it is forged, too old, used before, of another text, or of an unknown user.
        DaemonError
            If munged is unavailable, or busy with other credentials.
        """
        if not self._places.acquire(timeout=_TURN_S):
            raise DaemonError(f"{_MOST} other credentials are being decoded")
        try:
            done = subprocess.run(
                self._command,
                input=credential,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_WAIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DaemonError(str(error)) from error
        finally:
            self._places.release()
        if done.returncode in _NO_DAEMON:
            raise DaemonError(_reason(done.stderr))
        if done.returncode:
            raise CredentialError(_reason(done.stderr))
        head, _, payload = done.stdout.partition("\n\n")
        if payload != text:
            raise CredentialError("it was made for another call or another server")
        uid = int(head.partition(":")[2])
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            raise CredentialError(f"this host has no user {uid}") from None


def _reason(printed: str) -> str:
    """Return the output of ``unmunge``, without its own name."""
    return printed.strip().removeprefix("unmunge: Error: ").lower()
