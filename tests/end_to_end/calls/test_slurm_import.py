"""A real Slurm in use is imported: the Plan starts true, and nodes can be added to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from dispatch.backends.slurm.control.commands import instant_word
from planner.cluster.cluster import Cluster
from planner.files import read_cluster
from service.cli.main import main
from tests.end_to_end.slurm_lab import NODES, SlurmLab, part, until

pytestmark = pytest.mark.slurm


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[SlurmLab]:
    """Return a lab whose server is not started."""
    with ExitStack() as stack:
        found = SlurmLab(tmp_path, stack)
        stack.callback(found.close)
        yield found


def _import(lab: SlurmLab, settings: Path) -> Cluster:
    words = ["import", "slurm", "--promised", "agenda", "--best-effort", "scavenge"]
    words += ["--prefix", lab.prefix, "--step", "1s", "--horizon", "1h"]
    words += ["--cluster-out", str(lab.cluster), "--settings-out", str(settings)]
    answer = CliRunner().invoke(main, words)
    assert answer.exit_code == 0, answer.output
    return read_cluster(lab.cluster)


def test_a_slurm_in_use_is_imported_as_it_stands(lab: SlurmLab) -> None:
    """A job of others, maintenance to come and a drained node are outages; promises avoid them."""
    name, run = f"upkeep-{lab.prefix}", lab.slurm.commands.run
    run(
        "sbatch", "--parsable", f"--job-name={lab.prefix}-other", "--partition=main", "--time=5",
        "--nodelist=n1", "--exclusive", "--output=/dev/null", "--wrap=sleep 200",
    )  # fmt: skip
    until(lambda: lab.slurm.jobs(f"{lab.prefix}-other")[0].is_up)
    run(
        "scontrol", "create", "reservation", f"reservationname={name}", "users=root",
        f"starttime={instant_word(int(time.time()) + 100)}", "duration=60", "nodes=n2",
        "flags=MAINT,IGNORE_JOBS",
    )  # fmt: skip
    run("scontrol", "update", "nodename=n3", "state=drain", "reason=test")
    try:
        cluster = _import(lab, lab.folder / "imported.toml")
        assert sorted((one.kind, one.indices) for one in cluster.outages) == [
            ("drain", (0,)),
            ("loss", (2,)),
            ("reserved", (1,)),
        ]
        lab.settings = _with_quick_looks_of(lab, lab.folder / "imported.toml")
        lab.serve()
        lab.reserve("all", "window(atom(<4 cpu>, 3, 3, 60, 180), +90, +180)")
        assert lab.slots("all") == {"n-3", "n-4", "n-5"}
    finally:
        lab.slurm.clear(f"{lab.prefix}-other")
        lab.slurm.commands.delete_reservation(name)
        run("scontrol", "update", "nodename=n3", "state=resume")


def _with_quick_looks_of(lab: SlurmLab, imported: Path) -> Path:
    """Return imported settings with quick looks, as the lab's own have."""
    lines = lab.settings.read_text().splitlines()
    extra = [line for line in lines if line.startswith("poll_s")]
    path = imported.with_name("settings.toml")
    path.write_text("\n".join([*extra, imported.read_text()]))
    return path


def test_a_node_is_added_under_a_running_gang(lab: SlurmLab) -> None:
    """Imported again after the first five: they keep their machines, the sixth takes work."""
    imported = lab.folder / "imported.toml"
    _import(lab, imported)
    for path, words in (
        (lab.cluster, ("count = 6", "count = 5")),
        (imported, ('"n-0" = "n1"', "")),
    ):
        path.write_text(path.read_text().replace(*words))
    first = [f'"n-{n - 1}" = "n{n + 1}"' for n in range(1, NODES)]
    text = imported.read_text().partition("[machines]")[0]
    imported.write_text(text + "[machines]\n" + "\n".join(first) + "\n")
    lab.settings = _with_quick_looks_of(lab, imported)
    lab.serve()
    lab.submit("wide", part("c", 1, "sleep 300"), part("e", 5, "sleep 300", core=False))
    until(lambda: len(lab.running("wide")) == 5)
    before = {job.id for job in lab.running("wide")}

    assert lab.server is not None
    lab.server.kill()
    assert _import(lab, imported).machines[0].count == NODES
    assert '"n-5" = "n1"' in imported.read_text()
    lab.settings = _with_quick_looks_of(lab, imported)
    lab.serve()
    until(lambda: len(lab.running("wide")) == NODES)
    assert before <= {job.id for job in lab.running("wide")}
