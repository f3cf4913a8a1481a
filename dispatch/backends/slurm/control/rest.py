"""SlurmRest: what slurmrestd is asked over HTTP, so that a look at Slurm begins no process.

Commands do the rest: its API (22.05) submits no job on a node by name (``required_nodes`` is
disabled), makes no reservations, and ends a job by SIGKILL at once.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatch.backends.slurm.control.errors import RestAwayError, SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode, job_of, node_of
from rdl.text_file import text_of

#: Most bytes of an answer that are read at once.
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class SlurmRest:
    """A slurmrestd.

    Attributes
    ----------
    url, api
        Where it is, and the version of its API, such as v0.0.38.
    user, token_file
        As who it is asked, and the file of the token; it is read at each call, so that it may be
        replaced.
    timeout_s
        Seconds without a word after which it counts as away; a whole answer may take five times as
        long.
    """

    url: str
    api: str
    user: str
    token_file: str
    timeout_s: float = 6.0

    def ping(self) -> None:
        """Raise what stands in the way."""
        self._call("GET", "ping")

    def jobs(self) -> list[SlurmJob]:
        """Return the jobs that slurmctld knows, those that ended lately included."""
        return [job_of(one) for one in self._list("jobs")]

    def nodes(self) -> list[SlurmNode]:
        """Return all nodes."""
        return [node_of(one) for one in self._list("nodes")]

    def _list(self, what: str) -> list[dict[str, Any]]:
        """Return all jobs or nodes; an answer that has none of the word broke off in its head."""
        found = self._call("GET", what).get(what)
        if not isinstance(found, list):
            raise RestAwayError(f"{self.url} answered no {what}")
        return found

    def _call(self, method: str, path: str) -> dict[str, Any]:
        """Return what slurmrestd answers.

        Raises
        ------
        RestAwayError
            If it does not.
        SlurmAwayError
            If slurmctld does not answer it.
        SlurmError
            If it refuses the token, or there is no such API.
        """
        url = f"{self.url.rstrip('/')}/slurm/{self.api}/{path}"
        try:
            token = text_of(Path(self.token_file).read_bytes()).strip()
        except OSError as error:
            raise SlurmError(f"the token of slurmrestd cannot be read: {error}") from error
        headers = {"X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": token}
        request = urllib.request.Request(url, method=method, headers=headers)
        raw = self._read(request)
        try:
            found = json.loads(raw.decode("utf-8", "replace") or "{}")
        except ValueError as error:
            raise SlurmError(f"{url} answered no JSON: {raw[:80]!r}") from error
        if found.get("errors"):
            first = found["errors"][0]
            text = first.get("description") or first.get("error") or str(first)
            raise SlurmAwayError(f"{url}: {text}")
        assert isinstance(found, dict)
        return found

    def _whole(self, answer: http.client.HTTPResponse) -> bytes:
        """Return the body of an answer.

        Raises
        ------
        TimeoutError
            If it does not end in its time.
        """
        until, pieces = time.monotonic() + 5 * self.timeout_s, []
        while piece := answer.read1(_PIECE):
            pieces.append(piece)
            if time.monotonic() > until:
                raise TimeoutError(f"the answer did not end in {5 * self.timeout_s:g} s")
        if answer.length:
            raise http.client.IncompleteRead(b"", answer.length)
        return b"".join(pieces)

    def _read(self, request: urllib.request.Request) -> bytes:
        """Return the body of an answer; one that broke off is none."""
        url = request.full_url
        try:
            try:
                with urllib.request.urlopen(request, timeout=self.timeout_s) as answer:
                    return self._whole(answer)
            except urllib.error.HTTPError as error:
                if error.code in (401, 403, 404):
                    raise SlurmError(f"{url}: {error.code} {error.reason}") from error
                body = error.read()
                if error.code in (502, 503, 504) and not _is_json(body):
                    # A proxy whose slurmrestd is down; slurmrestd itself says what is wrong.
                    raise RestAwayError(f"{url}: {error.code} {error.reason}") from error
                return body
        except (OSError, http.client.HTTPException) as error:
            raise RestAwayError(f"{url}: {error}") from error


def _is_json(body: bytes) -> bool:
    """Return whether an answer is a JSON object, as all of slurmrestd are."""
    try:
        return isinstance(json.loads(body.decode("utf-8", "replace")), dict)
    except ValueError:
        return False
