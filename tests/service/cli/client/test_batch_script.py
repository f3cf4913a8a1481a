"""What `agenda sbatch` reads of a batch script and of sbatch's options."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.job_demand import JobDemand
from rdl.compile.source import read_source
from rdl.text.formatter import format_expression
from rdl.text.parser import parse
from service.cli.batch_script import (
    check_licenses,
    kept_apart,
    marked_words,
    read_options,
    request_of,
    whole_nodes,
)
from service.cli.held_job import HeldJob
from service.cli.kit.errors import ERROR, CliError, ExitCode
from service.cli.slurm import _end, _without_own, check_begin, script_name
from tests.service.cli.command_line import agenda

SCRIPT = """#!/bin/bash
#SBATCH --nodes=4 -c 2   # a remark
#AGENDA --deadline=6h
#SBATCH --mem=2G
echo run
#SBATCH --nodes=9
"""


@pytest.fixture(autouse=True)
def _zone() -> Iterator[None]:
    """Leave the zone of this host as it was."""
    yield
    time.tzset()


def test_lines_before_the_first_command_count() -> None:
    """Each mark has its own words, remarks are none."""
    assert marked_words(SCRIPT, "SBATCH") == ["--nodes=4", "-c", "2", "--mem=2G"]
    assert marked_words(SCRIPT, "AGENDA") == ["--deadline=6h"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-QH"], "-H is set by `agenda sbatch`"),
        (["--usage"], "--usage submits nothing"),
        (["-N2", "-N"], "-N needs a value"),
        (["--contiguous=now"], "--contiguous takes no value"),
        (["--no-such"], "--no-such is not known"),
        (["-Z"], "-Z is not known"),
        (["--cpus=4"], "--cpus may be --cpus-per-gpu, --cpus-per-task"),
    ],
)
def test_an_option_that_cannot_be_passed_on_is_refused(words: list[str], said: str) -> None:
    """By its name, and with what would be right."""
    with pytest.raises(CliError, match=said):
        read_options(words)


def test_options_are_passed_on_unread() -> None:
    """Slurm says what they demand."""
    words = ["-N2", "--exclusive", "-p", "main", "-d", "afterok:1", "--array=0-3", "-w", "n1"]
    options, place = read_options(words)
    assert place == len(words)
    assert [one.name for one in options] == [
        "nodes", "exclusive", "partition", "dependency", "array", "nodelist",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("job.sh", "-N", "2"), 0),
        (("-N", "2", "job.sh", "x"), 2),
        (("--nodes=2", "--requeue", "-J", "mine", "job.sh"), 4),
        (("-N2", "--", "job.sh", "-N3"), 2),
        (("-N2", "-W", "job.sh"), 2),
        (("--nice", "--propagate", "job.sh"), 2),
        (("-N1", "-c", "4", ":", "-N2", ":", "job.sh", ":"), 6),
    ],
)
def test_the_script_is_found_among_the_words(words: tuple[str, ...], place: int) -> None:
    """Options with and without values stand before it, its arguments after it."""
    _, found = read_options(words)
    assert (found, script_name(words, found)) == (place, words[place])


def test_without_a_script_it_says_so() -> None:
    """Standard input is not read."""
    with pytest.raises(CliError, match="name a script"):
        script_name(("-N", "2"), 2)


def test_a_job_is_a_gang_on_nodes_of_their_own() -> None:
    """RDL of four nodes for half an hour."""
    text = request_of([JobDemand(4, 2, 2048, 1)], 1800, "+6h")
    assert text == (
        "deadline(atom(<2 cpu, 2048 MiB memory, 1 gpu>, 4, 4, 1800s, 7200s, spread=1), +6h)"
    )
    labelled = request_of([JobDemand(1, 2, label="a100")], 60, "+6h")
    assert labelled == 'deadline(atom(<2 cpu>, 1, 1, 60s, 60s, spread=1, on="a100"), +6h)'
    assert 'on="a100"' in format_expression(parse(labelled))


def test_components_are_together_in_their_order() -> None:
    """Each with its own bundle, count and label."""
    demands = [JobDemand(1, 4, 4096), JobDemand(3, 2, gpus=1, label="a100")]
    text = request_of(demands, 60, "+6h", "+90s")
    assert text == (
        "window(together(atom(<4 cpu, 4096 MiB memory>, 1, 1, 60s, 60s, spread=1), "
        'atom(<2 cpu, 1 gpu>, 3, 3, 60s, 180s, spread=1, on="a100")), +90s, +6h)'
    )
    assert read_source(text)


def test_licenses_are_shared_out_to_nodes() -> None:
    """All of them on one node; of three for two nodes two each, so that there are enough."""
    job = JobDemand(1, 2, licenses=(("matlab", 3),))
    assert "<2 cpu, 3 matlab>" in request_of([job], 60, "+6h")
    assert "<2 cpu, 2 matlab>" in request_of([replace(job, nodes=2)], 60, "+6h")


def test_a_license_needs_a_pool_of_its_name() -> None:
    """Refused by name, with the pool that may be meant."""
    job = JobDemand(1, 2, licenses=(("matlab", 3),))
    check_licenses(job, [{"name": "matlab", "count": 5}])
    with pytest.raises(CliError, match=r"--licenses=matlab: .*no pool.*'matlab2'"):
        check_licenses(job, [{"name": "matlab2", "count": 5}])


def test_an_array_has_as_many_nodes_as_tasks_may_run_at_a_time() -> None:
    """For as long as all of them take, one after the other; those of one node may share it."""
    array = JobDemand(1, 2, is_array=True, tasks=5, throttle=2)
    assert request_of([array], 60, "+6h") == "deadline(atom(<2 cpu>, 2, 2, 180s, 360s), +6h)"
    wide = replace(array, nodes=3)
    text = "window(atom(<2 cpu>, 6, 6, 180s, 1080s, spread=1), +90s, +6h)"
    assert request_of([wide], 60, "+6h", "+90s") == text
    assert read_source(text)


@pytest.mark.parametrize(
    ("words", "lines", "kept", "comment"),
    [
        (["--comment=a b", "-N2", "job.sh"], "", ["-N2", "job.sh"], "a b"),
        (["-N2", "--comment", "a", "job.sh", "--comment=b"], "--comment=c",
         ["-N2", "job.sh", "--comment=b"], "a"),
        (["job.sh"], "--comment='a b' -N2", ["job.sh"], "a b"),
        (["job.sh"], "--comment ab", ["job.sh"], "ab"),
        (["-N2", "job.sh"], "", ["-N2", "job.sh"], ""),
    ],
)  # fmt: skip
def test_a_comment_of_the_user_is_taken_out_and_kept(
    words: list[str], lines: str, kept: list[str], comment: str
) -> None:
    """Agenda's own words go before it: the last of the command line counts, then the script's."""
    options, _ = read_options(words)
    script = f"#!/bin/sh\n#SBATCH {lines}\n"
    assert _without_own(words, options, script) == (tuple(kept), (comment, False))


def test_whether_it_would_be_reserved_is_asked_on_the_command_line() -> None:
    """sbatch never sees the option."""
    words = ["-N2", "--test-only", "job.sh"]
    assert _without_own(words, read_options(words)[0], "") == (("-N2", "job.sh"), ("", True))
    with pytest.raises(CliError, match="give it to `agenda sbatch`"):
        _without_own(["job.sh"], [], "#SBATCH --test-only\n")


@pytest.mark.parametrize(
    ("words", "lines"), [("-QW", ""), ("--wait", "-Q"), ("-N2 -Q", "--wait"), ("-n 2", "-Q -W")]
)
def test_a_job_that_is_waited_for_has_to_be_named(words: str, lines: str) -> None:
    """Else sbatch says nothing before it has ended, and it waits, held."""
    options, _ = read_options(words.split())
    with pytest.raises(CliError, match="leave --quiet out"):
        _without_own(words.split(), options, f"#SBATCH {lines}\n")


def test_components_that_may_share_a_node_get_whole_nodes() -> None:
    """All but the one of most nodes; those that no node has room for together stay."""
    node = {"resources": {"cpu": 8, "memory": "16 GiB", "gpu": 1}, "count": 9, "labels": ["fat"]}
    driver, workers = JobDemand(1, 2), JobDemand(4, 3, 1024)
    whole = JobDemand(1, 8, 16384, 1)
    assert kept_apart([driver, workers], [node]) == [whole, workers]
    assert kept_apart([workers, driver, driver], [node]) == [workers, whole, whole]
    wide = replace(workers, cpus=7)
    assert kept_apart([driver, wide], [node]) == [driver, wide]
    full = [replace(driver, gpus=1), replace(workers, gpus=1)]
    assert kept_apart(full, [node]) == full
    thin = {"resources": {"cpu": 4}, "count": 9, "labels": ["thin"]}
    labelled = [replace(driver, label="thin"), replace(workers, label="fat")]
    assert kept_apart(labelled, [node, thin]) == labelled
    with pytest.raises(CliError, match="several sizes"):
        kept_apart([driver, workers], [node, thin])
    # Nodes of the smaller may be of two sizes, those of the other may not.
    fat = replace(workers, label="fat")
    whole = JobDemand(4, 8, 16384, 1, label="fat")
    assert kept_apart([driver, fat], [node, thin]) == [driver, whole]


def test_components_are_in_the_order_of_their_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a number of nodes: a range cannot be fixed in a job of several."""
    lines = [
        "JobId=3 HetJobId=8 HetJobOffset=1 NumNodes=2-2 NumCPUs=2",
        "JobId=8 HetJobId=8 HetJobOffset=0 NumNodes=1 NumCPUs=1",
    ]
    monkeypatch.setattr(SlurmCommands, "run", lambda *_words: "\n".join(lines))
    job = HeldJob(8, cast("Any", None))
    assert [demand.nodes for demand in job.demands()] == [1, 2]
    lines[0] = lines[0].replace("2-2", "1-4")
    with pytest.raises(CliError, match="--nodes=1-4"):
        job.demands()
    del lines[1]
    assert [demand.nodes for demand in job.demands()] == [1]


def test_whole_nodes_are_all_that_a_node_has() -> None:
    """Where they are of several sizes a feature says which."""
    small = {"count": 4, "labels": [], "resources": {"cpu": 4, "memory": "8 GiB"}}
    fat = {"count": 2, "labels": ["fat"], "resources": {"cpu": 8, "memory": "64 GiB", "gpu": 2}}
    job = JobDemand(2, 1, whole=True)
    assert whole_nodes(job, [small]) == replace(job, cpus=4, memory=8192)
    assert whole_nodes(replace(job, label="fat"), [small, fat]) == replace(
        job, cpus=8, memory=65536, gpus=2, label="fat"
    )
    assert whole_nodes(replace(job, cpus=6), [small, fat]).cpus == 8
    with pytest.raises(CliError, match="of several sizes"):
        whole_nodes(job, [small, fat])


@pytest.mark.parametrize("given", [("--work", "480"), ()])
def test_work_without_a_unit_is_asked_about(
    given: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number alone is minutes for sbatch and seconds elsewhere: neither is guessed."""
    monkeypatch.setattr("service.cli.slurm.shutil.which", lambda _: "sbatch")
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#AGENDA --work=480\nsleep 1\n")
    done = agenda("sbatch", "--deadline", "6h", *given, script)
    assert done.exit_code == ERROR
    assert "480m or 480s" in done.stderr


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("6h", "+6h"),
        ("+6h", "+6h"),
        ("06:00", "06:00"),
        ("2026-11-30T06:00:00Z",) * 2,
        ("now+20minutes", "+20m"),
        ("now+90", "+90s"),
        ("now+1hour", "+1h"),
        ("now+2weeks", "+2w"),
        ("2026-11-30T06:00", "2026-11-30T06:00:00+01:00"),
        ("2026-11-30T06:00:30", "2026-11-30T06:00:30+01:00"),
    ],
)
def test_a_deadline_is_a_time_of_requests(
    given: str, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A duration counts from now; a time of day is by the zone of the cluster (F11).

    Slurm's own forms are read, a date by the zone of this host.
    """
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    assert _end(given) == read
    assert read_source(f"deadline(atom(<1 cpu>, 1, 1, 60, 60), {_end(given)})")


@pytest.mark.parametrize("end", ["+1h", "2026-11-29T19:20:00+00:00"])
def test_a_job_that_may_begin_after_its_deadline_only_is_refused(end: str) -> None:
    """By its begin, or by what it depends on; exit code 3, as every refusal."""
    with pytest.raises(CliError, match=r"its deadline is .*; give a later --deadline") as caught:
        check_begin(2**33, end)
    assert caught.value.exit_code == ExitCode.REFUSED
    check_begin(0, end)


def test_a_deadline_at_a_time_of_day_is_after_every_begin() -> None:
    """It is the next after it."""
    check_begin(2**33, "06:00")
