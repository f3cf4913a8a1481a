"""`agenda serve --local`: commands run on the server's host, and nothing else is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.cli.server_process import ServerProcess, free_port, run_server
from tests.end_to_end.lab import CLUSTER
from tests.end_to_end.master_and_workers import master_and_workers
from tests.end_to_end.server_process import Client
from tests.patience import eventually

STAGES = {
    "extract": {"command": "echo extract on $AGENDA_MACHINE >> NOTES; sleep 1"},
    "publish": {"command": "echo publish >> NOTES; echo done"},
}
RDL = (
    "window(order(extract: atom(<1 cpu>, 1, 1, 4s, 4s), publish: atom(<1 cpu>, 1, 1, 4s, 4s)), "
    "+0, +30m)"
)


def agenda(*words: str) -> list[str]:
    """Return a command."""
    return [sys.executable, "-m", "service.cli.main", *words]


@contextmanager
def local_server(folder: Path, port: int) -> Iterator[ServerProcess]:
    """Serve with an executor of its own, by the command line."""
    (folder / "cluster.toml").write_text(CLUSTER)
    words = ["--cluster", str(folder / "cluster.toml"), "--port", str(port), "--workers", "1"]
    database = ["--database", f"sqlite:///{folder}/agenda.db", "--local", str(folder / "runs")]
    with run_server(agenda("serve", *words, *database), port, folder / "log") as server:
        yield server


def executors_of(folder: Path) -> list[int]:
    """Return the processes of executors that use a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"executor" in words and str(folder / "runs").encode() in words:
            found.append(int(process.name))
    return found


def test_jobs_run_on_the_servers_own_host(tmp_path: Path) -> None:
    """Its stages run in order, with logs; the executor ends with the server, however that ends.

    One that is killed is started again. A server that is started again has one of its own, for
    what came meanwhile.
    """
    port, notes = free_port(), tmp_path / "notes"
    stages = {
        name: {"command": one["command"].replace("NOTES", str(notes))}
        for name, one in STAGES.items()
    }
    with local_server(tmp_path, port) as server:
        client = Client(port)
        body = {"id": "job", "rdl": RDL, "stages": stages, "agent": "earliest"}
        assert client.call("POST", "/v1/pipelines", body)[0] == 201
        eventually(lambda: notes.exists() and "publish" in notes.read_text())
        (process,) = executors_of(tmp_path)
        logs = "/v1/applications/job.publish/logs"
        eventually(
            lambda: [one["text"] for one in client.call("GET", logs)[1]["logs"]] == ["done\n"]
        )
        os.kill(process, signal.SIGKILL)
        seen: list[int] = []

        def is_another() -> bool:
            seen[:] = executors_of(tmp_path)
            return len(seen) == 1 and seen != [process]

        eventually(is_another)
        (process,) = seen
        server.kill()
        eventually(lambda: process not in executors_of(tmp_path))
    with local_server(tmp_path, port):
        body = {"id": "next", "rdl": RDL, "stages": stages, "agent": "earliest"}
        assert Client(port).call("POST", "/v1/pipelines", body)[0] == 201
        eventually(lambda: notes.read_text().count("publish") == 2)

    machine, last = notes.read_text().split("\n")[0].rpartition(" ")[2], "publish"
    assert (machine in ("lab-0", "lab-1"), notes.read_text().split("\n")[1]) == (True, last)
    eventually(lambda: executors_of(tmp_path) == [])


def test_components_find_each_other_on_one_host(tmp_path: Path) -> None:
    """Two applications of a master and workers, at the same time, as processes of one host."""
    port, notes = free_port(), tmp_path / "notes"
    with local_server(tmp_path, port):
        client = Client(port)
        for _ in range(2):
            body = {"application": {"name": "job", "components": master_and_workers(notes, 1)}}
            assert client.call("POST", "/v1/applications", body)[0] == 201
        eventually(lambda: notes.exists() and notes.read_text() == "1 worker0\n" * 2)


def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    """With tokens, too; and not instead of a Slurm, or at a port that no one knows."""
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    base = agenda("serve", "--cluster", str(tmp_path / "cluster.toml"), "--local")
    tries = {
        "refusing to listen on '0.0.0.0' with --local": ["--host", "0.0.0.0", "--auth", "token"],
        "--local needs a --port": ["--port", "0"],
        "the executor of --local calls the server too": ["--auth", "token"],
        "'/nowhere' is no folder of this host": ["--mount", "/nowhere"],
        "components run on executors or in Slurm": ["--slurm", str(tmp_path / "cluster.toml")],
    }
    for message, words in tries.items():
        ran = subprocess.run(
            [*base, *words], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={name: value for name, value in os.environ.items() if "AGENDA_TOKEN" not in name},
        )  # fmt: skip
        code = 2 if "--mount" in words else 1  # a wrong value of an option
        assert (ran.returncode, message in ran.stderr) == (code, True), ran.stderr
    assert not (tmp_path / "agenda-local").exists()


def test_an_executor_says_which_machines_it_is(tmp_path: Path) -> None:
    """All of them or those that are named, and one of the two."""
    for words in ([], ["--all", "--machine", "lab-0"]):
        ran = subprocess.run(
            agenda("executor", *words), cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, "--machine NAME, or --all" in ran.stderr) == (1, True)
