"""What Slurm writes is read, in the forms of several versions; settings say what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.job_names import job_name, key_of
from dispatch.backends.slurm.control.records import expand_hostlist, job_of, node_of, reservation_of
from dispatch.backends.slurm.control.settings import read_settings
from dispatch.backends.slurm.job_records import JobFinding, end_of
from dispatch.backends.slurm.reserved.reservation_keeper import word_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("n1", ("n1",)),
        ("n[1-3,7],login", ("n1", "n2", "n3", "n7", "login")),
        ("r[08-10]n[1-2]", ("r08n1", "r08n2", "r09n1", "r09n2", "r10n1", "r10n2")),
    ],
)
def test_a_hostlist_is_its_names(text: str, names: tuple[str, ...]) -> None:
    """Ranges keep their zeros, brackets may stand twice."""
    assert expand_hostlist(text) == names


def test_a_job_is_read_in_the_forms_of_two_versions() -> None:
    """22.05 writes plain numbers and one state, later ones objects and lists."""
    old = {
        "job_id": 7, "name": "a/x/w/0", "user_name": "bob", "comment": "", "job_state": "FAILED",
        "state_reason": "NonZeroExitCode", "nodes": "n1", "required_nodes": "n1", "exit_code": 768,
        "partition": "main", "resv_name": "r1,r2", "submit_time": 5, "start_time": 6,
        "end_time": 9, "time_limit": 4294967295, "restart_cnt": 1,
    }  # fmt: skip
    given = {"set": True, "infinite": False}
    new = {
        **old, "job_state": ["FAILED"], "submit_time": {**given, "number": 5},
        "exit_code": {"status": ["ERROR"], "return_code": {**given, "number": 3}},
        "time_limit": {"set": False, "infinite": True, "number": 0},
    }  # fmt: skip
    found = job_of(old)
    assert found == job_of(new)
    assert (found.status >> 8, found.reservations, found.limit_min) == (3, ("r1", "r2"), 0)
    assert end_of(found) == (JobFinding.FAILED, "exit code 3 (job 7)")


@pytest.mark.parametrize(
    ("state", "flags", "is_up"),
    [
        ("idle", [], True),
        ("allocated", ["NOT_RESPONDING"], True),
        ("unknown", [], True),
        ("idle", ["DRAIN"], False),
        ("down", ["NOT_RESPONDING"], False),
        ("mixed", ["REBOOT_ISSUED"], False),
    ],
)
def test_a_node_takes_work_unless_it_is_down_or_drained(
    state: str, flags: list[str], is_up: bool
) -> None:
    """One that is silent, or was not heard yet after a restart, is Slurm's to judge."""
    entry = {"name": "n1", "cpus": 4, "real_memory": 2000, "gres": "gpu:a100:2(S:0),gpu:v100:1"}
    node = node_of({**entry, "state": state, "state_flags": flags})
    assert node.is_up is is_up
    assert node.is_up is node_of({**entry, "state": [state, *flags]}).is_up
    assert node.gres == (("gpu", 3),)
    assert node.gpu_type == ""
    entry |= {"state": state, "state_flags": flags}
    one = node_of(entry | {"gres": "gpu:a100:2(S:0),fpga:1"})
    assert (one.gres, one.gpu_type) == ((("fpga", 1), ("gpu", 2)), "a100")
    assert node_of(entry | {"gres": "gpu:4"}).gpu_type == ""


def test_a_reservation_is_read_from_its_line() -> None:
    """Nodes and users are lists; no one is none."""
    line = (
        "ReservationName=a_r_1 StartTime=100 EndTime=160 Duration=00:01:00 Nodes=n[1-2] NodeCnt=2 "
        "Features=(null) PartitionName=(null) Flags=FLEX,OVERLAP Users=root,bob Accounts=(null)"
    )
    found = reservation_of(line)
    assert (found.start_s, found.end_s, found.nodes) == (100, 160, ("n1", "n2"))
    assert (found.users, found.flags) == (("root", "bob"), ("FLEX", "OVERLAP"))


@pytest.mark.parametrize("key", [("a-1", "w", 0), ("a:b@c", "p/q/r", 12)])
def test_a_component_is_named_by_its_job(key: tuple[str, str, int]) -> None:
    """Its name is the key, for one prefix alone."""
    assert key_of("agenda", job_name("agenda", key)) == key
    assert key_of("other", job_name("agenda", key)) is None


def test_names_of_others_are_no_components() -> None:
    """Short names and names without a number are other people's jobs."""
    assert [key_of("agenda", name) for name in ("agenda", "agenda/x/w", "agenda/x/w/y")] == [
        None
    ] * 3


def test_two_ids_have_two_words() -> None:
    """Signs that Slurm accepts no name are replaced, and the word says that they were."""
    assert word_of("r-1.x") == "r-1.x"
    assert len({word_of(one) for one in ("a_b", "a-b", "a:b", "a@b")}) == 4


def test_settings_tell_every_problem(tmp_path: Path) -> None:
    """Unknown and missing keys, bad values, each with what would be right."""
    path = tmp_path / "slurm.toml"
    path.write_text('promised = "a b"\nbest_efort = "x"\npoll_s = 0\n')
    with pytest.raises(SlurmError) as caught:
        read_settings(path)
    text = str(caught.value)
    assert "unknown key 'best_efort'; did you mean 'best_effort'?" in text
    for part in ("no key 'machines'", "promised is a name", "poll_s is a number"):
        assert part in text


def test_settings_name_each_node_once(tmp_path: Path) -> None:
    """Two machines cannot be one node."""
    path = tmp_path / "slurm.toml"
    path.write_text('promised = "a"\nbest_effort = "b"\n[machines]\nm-0 = "n1"\nm-1 = "n1"\n')
    with pytest.raises(SlurmError, match="names the node n1 twice"):
        read_settings(path)


def test_away_is_an_error_of_slurm() -> None:
    """Who catches the one catches the other."""
    assert issubclass(SlurmAwayError, SlurmError)
