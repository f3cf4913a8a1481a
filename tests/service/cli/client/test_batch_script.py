"""What `agenda sbatch` reads of a batch script and of sbatch's options."""

from __future__ import annotations

import argparse

import pytest

from service.cli.client.slurm.batch_script import JobShape, marked_words, shape_of, time_limit_s
from service.cli.client.slurm.sbatch import script_place
from service.cli.terminal.errors import CliError

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


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        ([], JobShape(1, 1, 0, 0, None)),
        (["-N2", "--ntasks=8", "-c", "2"], JobShape(2, 8, 0, 0, None)),
        (["-N", "2", "--ntasks-per-node=3", "--mem-per-cpu=1500"], JobShape(2, 3, 4500, 0, None)),
        (["--mem=2G", "--gres=gpu:a100:2", "-t", "1:30:00"], JobShape(1, 1, 2048, 2, 5400)),
        (["--gres=fpga:1"], JobShape(1, 1, 0, 0, None)),
        (["--gres=gpu:2,fpga:1"], JobShape(1, 1, 0, 2, None)),
        (["--gpus-per-node=a100:1,v100:2"], JobShape(1, 1, 0, 3, None)),
        (["-N", "2", "-G", "a100:3"], JobShape(2, 1, 0, 2, None)),
        (["-N2", "-n8", "--gpus-per-task=2"], JobShape(2, 4, 0, 8, None)),
        (["--gpus-per-node=3", "--mail-type=END", "--time=90"], JobShape(1, 1, 0, 3, 5400)),
    ],
)
def test_options_of_sbatch_say_what_each_node_is_asked_for(
    words: list[str], shape: JobShape
) -> None:
    """Those that say nothing of it are passed over."""
    assert shape_of(words) == shape


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes=few"], "'few' is no whole number"),
        (["--mem=lots"], "no memory such as 4G"),
        (["--comment=mine"], "--comment is set by `agenda sbatch`"),
        (["-a0-3"], "-a is set by `agenda sbatch`"),
        (["-w", "n1"], "-w is set by `agenda sbatch`"),
    ],
)
def test_what_cannot_be_read_is_said(words: list[str], said: str) -> None:
    """The option, and what would be right."""
    with pytest.raises(CliError, match=said):
        shape_of(words)


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
        (("--nodes=2", "--exclusive", "-J", "mine", "job.sh"), 4),
        (("-N2", "-W", "job.sh"), 2),
        (("--nice", "--propagate", "job.sh"), 2),
    ],
)
def test_the_script_is_found_among_the_words(words: tuple[str, ...], place: int) -> None:
    """Options with and without values stand before it, its arguments after it."""
    assert script_place(words) == place


def test_without_a_script_it_says_so() -> None:
    """Standard input is not read."""
    with pytest.raises(CliError, match="name a script"):
        script_place(("-N", "2"))


def test_a_job_is_a_gang_on_nodes_of_their_own() -> None:
    """RDL of four nodes for half an hour."""
    text = JobShape(4, 2, 2048, 1, None).request(1800, "+6h")
    assert text == (
        "deadline(atom(<2 cpu, 2048 MiB memory, 1 gpu>, 4, 4, 1800s, 7200s, spread=1), +6h)"
    )
