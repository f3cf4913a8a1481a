"""A Slurm as a cluster file: groups of identical nodes, outages, and the node of each machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode, SlurmReservation
from dispatch.backends.slurm.control.settings import read_settings
from planner.files import read_cluster
from service.importers.slurm_cluster import SlurmModel, SlurmView, import_slurm

AT = 1_795_424_500
MODEL = SlurmModel("agenda", "scavenge", "agenda", 60, 14 * 86_400, jobs=True)
BOTH = ("agenda", "main", "scavenge")


def node(name: str, cpus: int = 4, state: str = "IDLE", **more: object) -> SlurmNode:
    """Return a node."""
    whole = {"flags": (), "reason": "", "partitions": BOTH, **more}
    return SlurmNode(name, cpus, 8000, state, **whole)  # type: ignore[arg-type]


def job(
    id_: int, *nodes: str, partition: str = "main", name: str = "run", minutes: int = 5
) -> SlurmJob:
    """Return a job that runs."""
    found = SlurmJob(id_, name, "bob", "", "RUNNING", "", nodes, partition=partition)
    return replace(found, limit_min=minutes, ends_s=AT + 60 * minutes)


def test_identical_nodes_are_a_group_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Ten comes after two; another size, another group; a node outside a partition is left out."""
    nodes = [node(f"c{n}") for n in (10, 2, 1)]
    nodes += [node("c3", 8, gres=(("gpu", 2),)), node("login", partitions=("main",))]
    found = import_slurm(SlurmView(nodes, (), (), AT), MODEL)
    assert dict(found.machines) == {"c-0": "c1", "c-1": "c2", "c-2": "c10", "c2-0": "c3"}

    path = tmp_path / "cluster.toml"
    path.write_text(found.cluster)
    cluster = read_cluster(path)
    assert [(group.name, group.count) for group in cluster.machines] == [("c", 3), ("c2", 1)]
    assert cluster.machines[1].resources["gpu"] == 2
    settings = tmp_path / "slurm.toml"
    settings.write_text(found.settings)
    assert dict(read_settings(settings).machines) == dict(found.machines)


def test_the_type_of_gpus_is_a_label(tmp_path: Path) -> None:
    """Nodes whose GPUs differ are two groups."""
    gpus = {"gres": (("gpu", 2),)}
    nodes = [node("g1", **gpus, gpu_type="a100"), node("g2", **gpus, features=("fat",))]
    path = tmp_path / "cluster.toml"
    path.write_text(import_slurm(SlurmView(nodes, (), (), AT), MODEL).cluster)
    groups = read_cluster(path).machines
    assert [set(group.labels) for group in groups] == [{"gpu-a100"}, {"fat"}]


def test_licenses_are_pools(tmp_path: Path) -> None:
    """By their names, but for those that nodes have already or that no resource can have."""
    counts = {"matlab": 3, "gpu": 9, "flex@host": 2, "ansys": 0, "CPU": 4, "c": 1}
    nodes = [node("c1", gres=(("gpu", 2),))]
    found = import_slurm(SlurmView(nodes, (), (), AT, counts), MODEL)
    path, settings = tmp_path / "cluster.toml", tmp_path / "slurm.toml"
    path.write_text(found.cluster)
    settings.write_text(found.settings)
    assert [(pool.name, pool.count) for pool in read_cluster(path).pools] == [("matlab", 3)]
    assert read_settings(settings).licenses == ("matlab",)


def test_a_node_that_is_added_gets_the_next_machine() -> None:
    """Those of an import before keep theirs, in every group, though another comes before them."""
    nodes = [node("c2"), node("c3"), node("c9", 8)]
    before = import_slurm(SlurmView(nodes, (), (), AT), MODEL).machines
    known = {name: machine for machine, name in before.items()}
    assert known == {"c2": "c-0", "c3": "c-1", "c9": "c2-0"}
    nodes += [node("c1"), node("c0", 8), node("c4", 16)]
    after = import_slurm(SlurmView(nodes, (), (), AT), replace(MODEL, known=known)).machines
    assert {name: machine for machine, name in after.items()} == known | {
        "c1": "c-2",
        "c0": "c2-1",
        "c4": "c3-0",
    }


def test_no_node_becomes_another_machine_without_a_word() -> None:
    """One that left frees capacity for the next, which promises were not made on."""
    view = SlurmView([node("c2"), node("c4")], (), (), AT)
    known = {"c2": "c-0", "c3": "c-1", "c4": "c-2"}
    with pytest.raises(ValueError, match=r"c4 \(c-2, now c-1\).*restore c3"):
        import_slurm(view, replace(MODEL, known=known))


def test_the_origin_of_an_import_before_stays(tmp_path: Path) -> None:
    """A Plan keeps it; what is away is so from now on."""
    view = SlurmView([node("n1", flags=("DRAIN",))], (), (), AT + 7200)
    path = tmp_path / "cluster.toml"
    path.write_text(import_slurm(view, replace(MODEL, origin_s=AT // 60 * 60)).cluster)
    cluster = read_cluster(path)
    assert cluster.origin is not None
    assert cluster.origin.timestamp() == AT // 60 * 60
    assert [one.start_ms for one in cluster.outages] == [7_200_000]


def test_what_takes_nodes_away_is_an_outage(tmp_path: Path) -> None:
    """A drained node, maintenance to come and a job; not Agenda's own, nor what is pushed aside."""
    view = SlurmView(
        [node("n1", flags=("DRAIN",)), *(node(f"n{n}") for n in (2, 3, 4))],
        [
            SlurmReservation("maint", AT + 3600, AT + 7200, ("n2",), ("root",), ("MAINT",)),
            SlurmReservation("agenda_r_1", AT, AT + 60, ("n3",), ("root",), ()),
        ],
        [
            job(7, "n3"),
            job(8, "n4", partition="scavenge"),
            job(9, "n4", name="agenda/x/w/0"),
        ],
        AT,
    )
    found = import_slurm(view, MODEL)
    path = tmp_path / "cluster.toml"
    path.write_text(found.cluster)
    outages = read_cluster(path).outages
    assert sorted((one.kind, one.indices) for one in outages) == [
        ("drain", (2,)),
        ("loss", (0,)),
        ("reserved", (1,)),
    ]
    assert import_slurm(view, replace(MODEL, jobs=False)).outages == 2


def test_a_job_without_a_limit_counts_to_the_horizon_and_is_named() -> None:
    """Who imports is reported."""
    found = import_slurm(SlurmView([node("n1")], (), [job(7, "n1", minutes=0)], AT), MODEL)
    assert (found.outages, found.endless) == (1, (7,))


def test_partitions_without_nodes_are_an_error() -> None:
    """The message names them."""
    with pytest.raises(ValueError, match="no node is in the partition agenda and scavenge"):
        import_slurm(SlurmView([node("n1", partitions=("main",))], (), (), AT), MODEL)
