"""What is killed on: a database, who opens servers on it, and which of their processes leads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from service.cli.server_process import ServerProcess
from tests.end_to_end.served_plan import CLUSTER
from tests.end_to_end.server_process import serving
from tests.own_postgres import OwnPostgres, own_postgres

#: Opens a server on a port.
Opened = Callable[[int], AbstractContextManager[ServerProcess]]

#: What is loaded before workers are forked, so that a new one serves at once; and the log is pruned
#: up to the snapshot, where what is late is lost if anywhere.
PREPARED: Final = (
    "import service.app, service.store.store as log; "
    "from planner.workload.warm_up import load_kernels; load_kernels(); log.KEPT_BEHIND = 0; "
)

_HOLDER: Final = sa.text("SELECT holder FROM dispatching")


@dataclass(frozen=True, slots=True)
class KillStage:
    """A database with servers on it.

    Attributes
    ----------
    opened
        Opens a server.
    url
        Of the database.
    postgres
        Which server that is; None for a file.
    """

    opened: Opened
    url: str
    postgres: OwnPostgres | None

    def leader(self) -> int | None:
        """Return the process that leads the dispatch, as the database says; None: no one yet."""
        engine = sa.create_engine(self.url)
        try:
            with contextlib.suppress(sa.exc.OperationalError), engine.connect() as connection:
                holder = connection.execute(_HOLDER).scalar()
                return int(str(holder).partition("-")[0]) if holder else None
        finally:
            engine.dispose()
        return None

    def wait_for_another(self, pid: int, longest_s: float) -> None:
        """Return when another process leads, or no one did for so long."""
        until = time.monotonic() + longest_s
        while self.leader() == pid and time.monotonic() < until:
            time.sleep(0.05)


@contextmanager
def stage_of(
    kind: str, folder: Path, workers: int, described: str = CLUSTER
) -> Iterator[KillStage]:
    """Yield an empty database of a kind, and what opens servers on it."""
    folder.mkdir()
    cluster = folder / "cluster.toml"
    cluster.write_text(described)

    def opened(url: str) -> Opened:
        return lambda port: serving(
            url, cluster, workers=workers, snapshot_every=25, port=port, prepared=PREPARED
        )

    if kind == "sqlite":
        url = f"sqlite:///{folder / 'agenda.db'}"
        yield KillStage(opened(url), url, None)
        return
    with own_postgres() as postgres:
        yield KillStage(opened(postgres.url), postgres.url, postgres)
