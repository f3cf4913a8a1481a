"""A PostgreSQL of a test's own, which the test may kill and start again."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from service.cli.server_process import free_port
from tests.patience import eventually

#: Where Debian has the programs of each version.
_PROGRAMS: Final = "/usr/lib/postgresql"


@dataclass(slots=True)
class OwnPostgres:
    """A PostgreSQL that runs, or was killed.

    Attributes
    ----------
    url
        Of a database whose user may create others.
    """

    url: str
    _programs: Path
    _folder: Path
    _port: int
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        options = ("listen_addresses=127.0.0.1", f"unix_socket_directories={self._folder}")
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data")]
        command += ["-p", str(self._port), *(part for one in options for part in ("-c", one))]

        def runs() -> bool:
            if self._process is None or self._process.poll() is not None:
                # What is left of the one before it may hold its memory for a moment still.
                self._process = subprocess.Popen(
                    command, cwd=self._folder, stderr=subprocess.DEVNULL, **_as_its_user()
                )
            return _answers(self.url)

        assert eventually(runs, pause_s=0.1)

    def kill(self) -> None:
        """End all its processes at this instant, as a loss of power would."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        pids = [self._process.pid, *(int(pid) for pid in children.read_text().split())]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """Yield a PostgreSQL with nothing in it, which is gone afterwards; skip if there is none."""
    programs = sorted(Path(_PROGRAMS).glob("*/bin/initdb"), key=lambda one: int(one.parts[-3]))
    if not programs:
        pytest.skip(f"{_PROGRAMS} holds no PostgreSQL")
    # Its user may not look into folders of root's.
    root = os.getuid() == 0
    folder = Path(tempfile.mkdtemp(prefix="agenda-postgres-", dir="/tmp" if root else None))
    try:
        if root:
            shutil.chown(folder, "postgres")
        made = [str(programs[-1]), "--pgdata", str(folder / "data"), "--username", "agenda"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "cwd": folder, **_as_its_user()}
        subprocess.run([*made, "--auth", "trust", "--no-sync"], check=True, **quiet)
        port = free_port()
        url = f"postgresql+psycopg://agenda@127.0.0.1:{port}/postgres"
        server = OwnPostgres(url, programs[-1].parent, folder, port)
        server.start()
        yield server
        server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_its_user() -> dict[str, Any]:
    """Return how its processes are begun: it refuses to run as root."""
    if os.getuid() != 0:
        return {}
    user = pwd.getpwnam("postgres")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _answers(url: str) -> bool:
    engine = sa.create_engine(url)
    try:
        with engine.connect():
            return True
    except sa.exc.OperationalError:
        return False
    finally:
        engine.dispose()
