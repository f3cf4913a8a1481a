"""An Agenda server on the Slurm that `.ci/slurm` has started."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.workloads.swim_hour import CPUS
from service.cli.kit.server import Server
from service.cli.server_process import free_port, run_server


@contextmanager
def serving_slurm(slurm: Path, nodes: Sequence[str], agent: str = "gree-l") -> Iterator[Server]:
    """Serve a Plan of the nodes on the Slurm, made by an agent."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name:
        folder = Path(name)
        cluster, settings = folder / "cluster.toml", folder / "slurm.toml"
        cluster.write_text(
            'step = "1s"\nhorizon = "1h"\n[[machines]]\nname = "n"\n'
            f'count = {len(nodes)}\nresources = {{ cpu = {CPUS}, memory = "2000 MiB" }}\n'
        )
        machines = "\n".join(f'n-{index} = "{node}"' for index, node in enumerate(nodes))
        settings.write_text(
            'promised = "agenda"\nbest_effort = "scavenge"\npoll_s = 0.3\n'
            f'rest = "{(slurm / "rest").read_text().strip()}"\n'
            f'token_file = "{slurm / "token"}"\n[machines]\n{machines}\n'
        )
        command = [
            sys.executable, "-c", "from service.cli.main import main; main()", "serve",
            "--database", f"sqlite:///{folder / 'agenda.db'}", "--cluster", str(cluster),
            "--slurm", str(settings), "--port", str(port), "--workers", "1",
            "--agent", agent,
        ]  # fmt: skip
        with run_server(command, port, folder / "log") as process:
            yield Server(f"http://127.0.0.1:{port}")
            process.stop()
