"""What `agenda sbatch` reads of a batch script and of sbatch's options."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from rdl.compile.source import read_source
from rdl.text.formatter import format_expression
from rdl.text.parser import parse
from service.cli.batch_script import (
    JobShape,
    check_environment,
    marked_words,
    options_of,
    read_options,
    shape_of,
    time_limit_s,
)
from service.cli.kit.errors import ERROR, CliError
from service.cli.slurm import _end, script_name
from tests.service.cli.command_line import agenda

SCRIPT = """#!/bin/bash
#SBATCH --nodes=4 -c 2   # a remark
#AGENDA --deadline=6h
#SBATCH --mem=2G
echo run
#SBATCH --nodes=9
"""


def test_lines_before_the_first_command_count() -> None:
    """Each mark has its own words, remarks are none."""
    assert marked_words(SCRIPT, "SBATCH") == ["--nodes=4", "-c", "2", "--mem=2G"]
    assert marked_words(SCRIPT, "AGENDA") == ["--deadline=6h"]


def shape(*words: str) -> JobShape:
    """Return the shape of a job by sbatch's options."""
    options, place = read_options(words)
    assert place == len(words)
    return shape_of(options)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], JobShape(1, 1, 0, 0, None)),
        (["-N2", "--ntasks=8", "-c", "2"], JobShape(2, 8, 0, 0, None)),
        (["-N", "2", "--ntasks-per-node=3", "--mem-per-cpu=1500"], JobShape(2, 3, 4500, 0, None)),
        (["--mem=2G", "--gres=gpu:2", "-t", "1:30:00"], JobShape(1, 1, 2048, 2, 5400)),
        (["--mem=4GB"], JobShape(1, 1, 4096, 0, None)),
        (["--mem=2.5G"], JobShape(1, 1, 2560, 0, None)),
        (["--mem=4G", "--mem-per-cpu=1G", "-c4"], JobShape(1, 4, 4096, 0, None)),
        (["--mem-per-cpu=4G", "-c4", "--mem=1G"], JobShape(1, 4, 1024, 0, None)),
        (["--gres=gpu"], JobShape(1, 1, 0, 1, None)),
        (["-N", "2", "-G", "3"], JobShape(2, 1, 0, 2, None)),
        (["-N2", "-n8", "--gpus-per-task=2"], JobShape(2, 4, 0, 8, None)),
        (["--gpus-per-node=3", "--mail-type=END", "--time=90"], JobShape(1, 1, 0, 3, 5400)),
        (["--gpus=2", "--cpus-per-gpu=4", "--mem-per-gpu=8G"], JobShape(1, 8, 16384, 2, None)),
        (["--mincpus=8", "-c2"], JobShape(1, 8, 0, 0, None)),
        (["-C", "a100"], JobShape(1, 1, 0, 0, None, "a100")),
        (["--minc=9", "-QN3", "--nice", "-k", "-J", "-N9"], JobShape(3, 9, 0, 0, None)),
        (["-N2", "--nodes", "3"], JobShape(3, 1, 0, 0, None)),
    ],
)
def test_options_of_sbatch_say_what_each_node_is_asked_for(
    words: list[str], wanted: JobShape
) -> None:
    """Options that change nothing of it are passed over; of two the last counts."""
    assert shape(*words) == wanted


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes=few"], "'few' is no whole number"),
        (["--nodes=2-4"], "-nodes: '2-4' is no whole number"),
        (["--mem=lots"], "no memory such as 4G"),
        (["--comment=mine"], "--comment is set by `agenda sbatch`"),
        (["-w", "n1"], "-w is set by `agenda sbatch`"),
        (["-N2", "-N"], "-N needs a value"),
        (["--hold=now"], "--hold takes no value"),
        (["--no-such"], "--no-such is not known"),
        (["-Z"], "-Z is not known"),
        (["--cpus=4"], "--cpus may be --cpus-per-gpu, --cpus-per-task"),
    ],
)
def test_what_cannot_be_read_is_said(words: list[str], said: str) -> None:
    """The option, and what would be right."""
    with pytest.raises(CliError, match=said):
        shape(*words)


@pytest.mark.parametrize(
    "words",
    [
        "--exclusive", "--exclusive=user", "--exclu", "--mem=0", "--mem-per-cpu=0", "-C a100&nvme",
        "--constraint=[a|b]", "--licenses=matlab:2", "--ntasks-per-gpu=2 --gpus=2",
        "--tres-per-task=cpu:4", "--ntasks-per-socket=4", "--sockets-per-node=2", "-B 2:8:1",
        "--gpus-per-socket=1", "--exclude=n-0", "-x n-0", "--gres=gpu:a100:1",
        "--gres=gpu:2,fpga:1", "--gpus=a100:2", "--array=0-99%4", "-a0-3", "-d afterok:1",
        "--tmp=10G", "--reboot",
        "--time-min=5", "--threads-per-core=1", "--hint=nomultithread", "--test-only", "--wrap=ls",
        "-H", "-QH", "--core-spec=2", "--switches=1",
    ],
)  # fmt: skip
def test_what_would_not_be_reserved_is_refused_by_name(words: str) -> None:
    """Each is an option of sbatch that a reservation of CPUs, memory and GPUs does not cover."""
    with pytest.raises(CliError, match=f"option {words.split()[0][:2]}|option -H"):
        shape(*words.split())


def test_lines_of_a_script_are_judged_like_options() -> None:
    """An option that is not reserved, and a word that is no option."""
    assert shape_of(options_of(SCRIPT)) == JobShape(4, 2, 2048, 0, None)
    for line, said in (("--exclusive", "--exclusive is not"), ("-N2 four", "four: this is no opt")):
        with pytest.raises(CliError, match=said):
            options_of(f"#!/bin/bash\n#SBATCH {line}\n")


def test_variables_of_sbatch_are_options_too() -> None:
    """One that asks for more is refused; a name for the job is not."""
    check_environment(["HOME", "SBATCH_JOB_NAME", "SBATCH_ACCOUNT", "SLURM_JOB_ID", "SBATCH_DEBUG"])
    with pytest.raises(CliError, match="SBATCH_EXCLUSIVE"):
        check_environment(["SBATCH_EXCLUSIVE"])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("1:30", 90), ("1:00:05", 3605), ("2-0", 172_800), ("1-1:30", 91_800)],
)
def test_a_time_limit_is_read_as_slurm_does(text: str, seconds: int) -> None:
    """Minutes, minutes and seconds, hours, days and hours."""
    assert time_limit_s(text) == seconds


def test_a_time_that_is_none_is_refused() -> None:
    """Words are no time."""
    with pytest.raises(argparse.ArgumentTypeError, match="no time such as 90"):
        time_limit_s("soon")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("job.sh", "-N", "2"), 0),
        (("-N", "2", "job.sh", "x"), 2),
        (("--nodes=2", "--requeue", "-J", "mine", "job.sh"), 4),
        (("-N2", "--", "job.sh", "-N3"), 2),
        (("-N2", "-W", "job.sh"), 2),
        (("--nice", "--propagate", "job.sh"), 2),
    ],
)
def test_the_script_is_found_among_the_words(words: tuple[str, ...], place: int) -> None:
    """Options with and without values stand before it, its arguments after it."""
    _, found = read_options(words)
    assert (found, script_name(words, found)) == (place, words[place])


def test_without_a_script_it_says_so() -> None:
    """Standard input is not read, and a job has one component."""
    with pytest.raises(CliError, match="name a script"):
        script_name(("-N", "2"), 2)
    with pytest.raises(CliError, match="several components"):
        script_name(("-N1", ":", "-N2", "job.sh"), 1)


def test_a_job_is_a_gang_on_nodes_of_their_own() -> None:
    """RDL of four nodes for half an hour."""
    text = JobShape(4, 2, 2048, 1, None).request(1800, "+6h")
    assert text == (
        "deadline(atom(<2 cpu, 2048 MiB memory, 1 gpu>, 4, 4, 1800s, 7200s, spread=1), +6h)"
    )
    labelled = JobShape(1, 2, 0, 0, None, "a100").request(60, "+6h")
    assert labelled == 'deadline(atom(<2 cpu>, 1, 1, 60s, 60s, spread=1, on="a100"), +6h)'
    assert 'on="a100"' in format_expression(parse(labelled))


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
    [("6h", "+6h"), ("+6h", "+6h"), ("06:00", "06:00"), ("2026-11-30T06:00:00Z",) * 2],
)
def test_a_deadline_is_a_time_of_requests(given: str, read: str) -> None:
    """A duration counts from now; a time of day is by the zone of the cluster (F11)."""
    assert _end(given) == read
    assert read_source(f"deadline(atom(<1 cpu>, 1, 1, 60, 60), {_end(given)})")
