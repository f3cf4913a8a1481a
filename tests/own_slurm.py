"""The real Slurm that `.ci/slurm` has started for the tests, whose daemons a test may kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.control.settings import SlurmSettings
from tests.patience import eventually

#: Names the folder of a Slurm, as `.ci/slurm` says.
SLURM_VARIABLE = "AGENDA_SLURM"


@dataclass(frozen=True, slots=True)
class OwnSlurm:
    """A Slurm on loopback: nodes n1, n2, ... of 4 CPUs and 2000 MB.

    Attributes
    ----------
    folder
        Where its configuration is, and the ids of its processes.
    commands
        Its commands.
    """

    folder: Path
    commands: SlurmCommands

    def settings(self, machines: dict[str, str]) -> SlurmSettings:
        """Return settings with a prefix of their own, so that tests do not see each other."""
        return SlurmSettings(
            machines=machines,
            promised="agenda",
            best_effort="scavenge",
            prefix=f"t{uuid.uuid4().hex[:8]}",
            poll_s=0.1,
        )

    def settings_file(self, path: Path, machines: dict[str, str], **more: object) -> Path:
        """Write settings for a server, with a prefix of their own."""
        one = self.settings(machines)
        lines = [
            f'prefix = "{one.prefix}"', f'promised = "{one.promised}"',
            f'best_effort = "{one.best_effort}"', "poll_s = 0.2",
            *(f"{name} = {value!r}" for name, value in more.items()),
            "[machines]", *(f'{name} = "{node}"' for name, node in machines.items()),
        ]  # fmt: skip
        path.write_text("\n".join(lines) + "\n")
        return path

    def jobs(self, prefix: str) -> list[SlurmJob]:
        """Return the jobs whose names begin so, by number."""
        found = [job for job in self.commands.jobs() if job.name.startswith(prefix)]
        return sorted(found, key=lambda job: job.id)

    def clear(self, prefix: str) -> None:
        """Cancel the jobs and delete the reservations whose names begin so."""

        def is_clear() -> bool:
            left = [job.id for job in self.jobs(prefix) if job.is_open]
            self.commands.cancel(left)
            return not left

        eventually(is_clear, pause_s=0.2)
        for one in self.commands.reservations():
            if one.name.startswith(prefix):
                self.commands.delete_reservation(one.name)

    def kill(self, daemon: str) -> None:
        """Kill a daemon, a slurmd by the name of its node; slurmctld is told to end, and has ended.

        Killed, slurmctld would forget jobs of the last seconds: it writes them down later.
        """
        pid = int((self.folder / "pids" / daemon).read_text())
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM if daemon == "slurmctld" else signal.SIGKILL)
        eventually(lambda: _has_ended(pid))

    def start(self, daemon: str) -> None:
        """Start a daemon again that was killed, as it was started before."""
        command = ["bash", str(self.folder / "starts" / daemon)]
        with (self.folder / "log" / daemon).open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        (self.folder / "pids" / daemon).write_text(f"{process.pid}\n")

    def wait_for_nodes(self) -> None:
        """Return when every node takes work."""
        for node in self.commands.nodes():
            if node.flags and "DRAIN" in node.flags:
                self.commands.run("scontrol", "update", f"nodename={node.name}", "state=resume")

        def are_ready() -> bool:
            nodes = self.commands.nodes()
            return all(n.is_up and not n.flags and n.state != "UNKNOWN" for n in nodes)

        eventually(are_ready, pause_s=0.3)


def _has_ended(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it may end between opening and reading
        return True


def own_slurm() -> OwnSlurm:
    """Return the Slurm that there is; skip if there is none."""
    folder = os.environ.get(SLURM_VARIABLE)
    if not folder:
        pytest.skip(f"{SLURM_VARIABLE} names no Slurm; run .ci/slurm python -m pytest -m slurm")
    return OwnSlurm(Path(folder), SlurmCommands())
