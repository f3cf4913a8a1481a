"""`python -m bench.papers`: names, output forms, pictures; engines test the figures."""

from __future__ import annotations

import base64
import gzip
import json
import os
import pickle
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from bench.papers.catalogue import EXPERIMENTS
from bench.papers.experiment import ExperimentEffort
from bench.papers.points import PointsFile, point_of
from bench.papers.spread import Figure
from service.cli.kit.errors import DONE, ERROR, USAGE, CliError
from service.cli.kit.progress import CommandProgress
from tests.papers.command_line import papers

#: Experiments that run on real traces.
_ON_TRACES = ("lotes-arrivals", "lotes-drift", "lotes-queues", "lotes-trace", "rayon-prediction")


def _marked(names: Iterable[str]) -> list[Any]:
    """Return parameters: names of experiments, those that need traces with the marker."""
    return [
        pytest.param(one, marks=pytest.mark.traces if one in _ON_TRACES else ()) for one in names
    ]


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder where small runs of these tests keep their points, one file an experiment."""
    return tmp_path_factory.mktemp("points")


def resume(points: Path, name: str, *arguments: object) -> Result:
    """Run an experiment small; what an earlier test has run of it is not run again."""
    return papers(name, "--small", "--resume", points / f"{name}.jsonl", *arguments)


def test_the_worked_example_prints_the_six_averages_exactly() -> None:
    """Zoe's figure 1: 25, 20 and 19.25 s under C + x; 25, 21.875 and 21.875 s under C - 2 + x."""
    document = json.loads(papers("zoe-example", "-o", "json").stdout)
    averages = [row["average_turnaround_s"] for row in document["rows"]]
    assert averages == [25.0, 20.0, 19.25, 25.0, 21.875, 21.875]


def test_without_a_name_the_experiments_are_listed() -> None:
    """One line for each, and exit code 0."""
    done = papers()
    assert done.exit_code == DONE
    assert len(done.stdout.splitlines()) == len(EXPERIMENTS) + 1


@pytest.mark.parametrize(
    ("name", "said"), [("zoe-exmple", "write zoe-example"), ("nothing-like-it", "lotes-trace")]
)
def test_an_unknown_name_is_answered_with_the_nearest_or_all(name: str, said: str) -> None:
    """Usage, exit code 2."""
    done = papers(name)
    assert (done.exit_code, done.stdout) == (USAGE, "")
    assert said in done.stderr


@pytest.mark.parametrize("name", ["lotes-trace", "lotes-drift"])
def test_traces_that_are_not_there_are_reported(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The message names the variable, and what is missing below the folder it names."""
    monkeypatch.delenv("AGENDA_TRACES", raising=False)
    done = papers(name)
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert "set AGENDA_TRACES to the folder that holds google2011/" in done.stderr
    monkeypatch.setenv("AGENDA_TRACES", str(tmp_path))
    assert "there is no folder google2011 in it" in papers(name).stderr
    (tmp_path / "google2011").mkdir()
    assert (papers(name).exit_code, "machines.csv.gz" in papers(name).stderr) == (ERROR, True)


def test_omega_joins_runs_into_rows_by_model_and_planners(tmp_path: Path, points: Path) -> None:
    """Two seeds of four models at two sizes: 16 runs, 8 rows; one planner never conflicts."""
    picture = tmp_path / "omega.svg"
    done = resume(points, "omega", "--seeds", 2, "-o", "json", "--picture", picture)
    assert done.exit_code == DONE, done.output
    document = json.loads(done.stdout)
    assert (len(document["rows"]), len(document["summaries"])) == (16, 8)
    alone = [row for row in document["summaries"] if row["planners"] == 1]
    assert all(row["conflict_fraction"] == 0 and row["seeds"] == 2 for row in alone)
    assert "coarse, all-or-nothing" in picture.read_text()


def test_zoe_prints_ratios_alongside_the_claims(tmp_path: Path) -> None:
    """A table of variants, a table of ratios with what the papers say, a picture of both."""
    picture = tmp_path / "zoe.svg"
    done = papers("zoe-cluster", "--small", "--picture", picture)
    assert done.exit_code == DONE, done.output
    assert "flexible   fifo" in done.stdout
    claimed = [line for line in done.stdout.splitlines() if " 0.63 " in line]
    assert len(claimed) == 1
    assert "claimed: 0.63" in picture.read_text()


@pytest.mark.parametrize(
    ("name", "keys", "row"),
    [
        ("zoe-cluster", {"ratios", "claims"},
         {"scheduler", "ordering", "preemptive", "setting", "figures"}),
        ("rayon-overreserve", {"claimed", "claims"}, {"system", "figures"}),
        ("promise-levels", set(), {"case", "level", "strategy", "figures"}),
    ],
)  # fmt: skip
def test_json_has_the_keys_of_its_page(
    name: str, keys: set[str], row: set[str], points: Path
) -> None:
    """docs/experiments.md: keys of the document, a row and a figure, and seeds that ran."""
    document = json.loads(resume(points, name, "-o", "json").stdout)
    assert document.keys() == {"experiment", "params", "rows"} | keys
    assert all(one.keys() == row for one in document["rows"])
    figures = [figure for one in document["rows"] for figure in one["figures"].values()]
    assert all(figure.keys() == {"mean", "deviation"} for figure in figures)
    assert document["params"]["seeds"] == [1]
    placed = [one for one in document["rows"] if one.get("level") == "placed"]
    assert all(one["figures"]["broken"]["mean"] == 0 for one in placed)


def test_the_example_day_keeps_every_promise() -> None:
    """docs/experiments.md: its keys; on machines none is broken."""
    document = json.loads(papers("example-day", "--small", "-o", "json").stdout)
    pooled, placed = document["rows"]
    keys = {"level", "requests", "accepted", "broken", "stopped"}
    assert pooled.keys() == placed.keys() == keys
    assert placed["broken"] == []


def test_every_job_of_every_run_is_written(tmp_path: Path) -> None:
    """zoe-cluster, two seeds of two variants of 100 applications: 400 lines below the header."""
    jobs = tmp_path / "jobs.csv"
    done = papers("zoe-cluster", "--seeds", 2, "--jobs", jobs)
    assert done.exit_code == DONE, done.output
    lines = jobs.read_text().splitlines()
    assert lines[0].startswith("job_id,workload_name,")
    assert len(lines) == 401
    assert "zoe-cluster rigid fifo seed 2" in lines[-101]


def test_an_experiment_without_jobs_says_which_have_them(tmp_path: Path) -> None:
    """Usage, exit code 2, and no file is left."""
    done = papers("zoe-example", "--jobs", tmp_path / "jobs.csv")
    assert done.exit_code == USAGE
    assert "zoe-example writes no jobs; these do: zoe-baseline" in done.stderr
    assert not (tmp_path / "jobs.csv").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"plain text", "Not a gzipped file"), (gzip.compress(b"", mtime=0), "it holds no jobs")],
)
def test_a_broken_swim_file_is_named(
    content: bytes, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 1, and the message begins with the file."""
    (tmp_path / "swim").mkdir()
    file = tmp_path / "swim" / "FB-2009_samples_24_times_1hr_0.tsv.gz"
    file.write_bytes(content)
    monkeypatch.setenv("AGENDA_TRACES", str(tmp_path))
    done = papers("rayon-sla", "--small")
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert f"{file}: {said}" in done.stderr


def test_rayon_keeps_every_accepted_deadline(
    tmp_path: Path, points: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rayon-sla, small: fulfilment 1 alongside the paper's word, and a picture with figure 17."""
    monkeypatch.delenv("AGENDA_TRACES", raising=False)
    picture = tmp_path / "rayon.svg"
    done = resume(points, "rayon-sla", "-o", "json", "--picture", picture)
    assert done.exit_code == DONE, done.output
    document = json.loads(done.stdout)
    assert document["claimed"]["agenda: sla fulfilment"]["mean"] == 1
    assert document["claims"]["agenda: sla fulfilment"] == "1 within 0.01"
    assert "figure 17" in picture.read_text()


def test_parts_stop_when_asked_and_keep_what_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    """After the first ^C the part that runs is finished and the rest left; that is reported."""
    run = CommandProgress()
    effort = ExperimentEffort(None, True, run)
    done: list[int] = []

    def part(number: int) -> int:
        if number == 1:
            run.stopped.set()
        done.append(number)
        return number

    assert effort.parts([partial(part, n) for n in range(4)]) == [0, 1]
    assert done == [0, 1]
    assert "stopped after 2 of 4 parts" in capsys.readouterr().err


def test_seeds_are_counted_from_one_and_small_takes_the_first() -> None:
    """--seeds wins over the experiment's own; --small alone runs one."""
    assert ExperimentEffort(3, True, CommandProgress()).seeds_or((7, 8)) == (1, 2, 3)
    assert ExperimentEffort(None, True, CommandProgress()).seeds_or((7, 8)) == (7,)
    assert ExperimentEffort(None, False, CommandProgress()).seeds_or((7, 8)) == (7, 8)


@pytest.mark.parametrize(("name", "settings"), [("lotes-resources", 2), ("lotes-rates", 4)])
def test_drawn_experiments_run_in_the_size_that_is_requested(name: str, settings: int) -> None:
    """Machines, hours and policies are obeyed, with --small's few settings; the rest is left."""
    size = ("--machines-per-configuration", 3, "--hours", 0.5, "--policies", "lotes,tetris")
    done = papers(name, "--small", *size, "-o", "json")
    assert done.exit_code == DONE, done.output
    document = json.loads(done.stdout)
    assert document["notes"] == {"machines_per_configuration": 3, "hours": 0.5}
    ran = [row["policy"] for row in document["rows"]]
    assert ran == ["lotes", "tetris"] * settings


@pytest.mark.parametrize(
    ("mode", "name"), [("paper", "lotes (paper mode)"), ("paired", "lotes (paired)")]
)
def test_drawn_experiments_run_in_the_papers_mode(mode: str, name: str) -> None:
    """LoTES then plans over the bins of stage 1's pairs, and the row says so."""
    size = ("--machines-per-configuration", 3, "--hours", 0.5, "--policies", "lotes,tetris")
    done = papers("lotes-resources", "--small", *size, "--mode", mode, "-o", "json")
    assert done.exit_code == DONE, done.output
    ran = [row["policy"] for row in json.loads(done.stdout)["rows"]]
    assert ran == [name, "tetris"] * 2


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("omega", "--mode", "paper"), "are for lotes-resources and lotes-rates only"),
        (("omega", "--hours", 1), "are for lotes-resources and lotes-rates only"),
        (("lotes-rates", "--policies", "greed"), "write some of lotes, tetris, tetris-without"),
        (("lotes-rates", "--machines-per-configuration", 0), "1<=x<=10000"),
        (("lotes-rates", "--hours", 0), "0<x<=1000"),
        (("lotes-rates", "--hours", "nan"), "is not a finite number"),
    ],
)
def test_sizes_that_cannot_be_are_reported(asked: tuple[object, ...], said: str) -> None:
    """Usage, exit code 2, before anything runs."""
    done = papers(*asked)
    assert (done.exit_code, done.stdout) == (USAGE, "")
    assert said in done.stderr


def small(name: str, monkeypatch: pytest.MonkeyPatch, part: str, points: Path) -> dict[str, float]:
    """Return the means of one part of what an experiment finds with --small on drawn jobs."""
    monkeypatch.delenv("AGENDA_TRACES", raising=False)
    done = resume(points, name, "-o", "json")
    assert done.exit_code == DONE, done.output
    return {key: figure["mean"] for key, figure in json.loads(done.stdout)[part].items()}


def test_small_baseline_shows_that_flexible_waits_less(
    monkeypatch: pytest.MonkeyPatch, points: Path
) -> None:
    """zoe-baseline --small: under FIFO rigid turnaround is longer and less of the cluster used."""
    ratios = small("zoe-baseline", monkeypatch, "ratios", points)

    assert ratios["fifo: median turnaround, rigid / flexible"] > 1.1
    assert ratios["fifo: mean turnaround, rigid / flexible"] > 1.05
    assert ratios["fifo: cpu allocation, flexible / rigid"] > 1.02


def test_small_sizes_show_that_more_dimensions_pay(
    monkeypatch: pytest.MonkeyPatch, points: Path
) -> None:
    """zoe-sizes --small: shortest first by work is ahead of shortest first by time alone."""
    ratios = small("zoe-sizes", monkeypatch, "ratios", points)

    for size in ("sjf-2d", "sjf-3d"):
        assert ratios[f"flexible mean turnaround, {size} / sjf"] < 0.95
        assert ratios[f"rigid mean turnaround, {size} / sjf"] < 0.95


def test_the_workload_is_reported_by_its_quantiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """zoe-workload --small: a row for each metric and group, ascending from least to most."""
    monkeypatch.delenv("AGENDA_TRACES", raising=False)
    done = papers("zoe-workload", "--small", "--seeds", "1", "-o", "json")
    assert done.exit_code == DONE, done.output
    told = json.loads(done.stdout)
    assert len(told["rows"]) == 16
    assert all(row["values"] == sorted(row["values"]) for row in told["rows"])
    assert {row["metric"] for row in told["rows"]} == told["claims"].keys()


def test_small_preemption_shows_that_interactive_waits_less(
    monkeypatch: pytest.MonkeyPatch, points: Path
) -> None:
    """zoe-preemption --small: without it interactive applications wait a hundred times as long."""
    ratios = small("zoe-preemption", monkeypatch, "ratios", points)

    assert ratios["srpt: Int queuing mean, without / with"] > 100
    assert ratios["fifo: Int queuing mean, without / with"] > 100


@pytest.mark.parametrize("name", ["rayon-sla", "rayon-mixed"])
def test_small_deadlines_are_kept_where_queues_miss_them(
    name: str, monkeypatch: pytest.MonkeyPatch, points: Path
) -> None:
    """rayon-* --small: plans keep every deadline of a busy cluster; queues miss some."""
    figures = small(name, monkeypatch, "claimed", points)

    assert figures["agenda: sla fulfilment"] == 1.0
    assert figures["agenda: utilisation"] > 0.7
    if name == "rayon-sla":
        assert figures["capacity scheduler: sla fulfilment"] < 0.9
        assert figures["agenda: best-effort throughput"] > 1.0
    else:
        assert figures["agenda: gang gathering mean_s"] == 0.0
        assert figures["capacity scheduler: gang gathering mean_s"] > 10


@pytest.mark.parametrize("name", ["omega", "promise-levels", "zoe-cluster", "lotes-resources"])
def test_one_seed_has_no_spread(name: str, points: Path) -> None:
    """Tables of one seed have no column of spread, those of two have."""
    size = ("--machines-per-configuration", 3, "--hours", 0.5) if name.startswith("lotes") else ()
    one, two = (resume(points, name, "--seeds", seeds, *size).stdout for seeds in (1, 2))
    heads = [text.splitlines()[0] for text in (one, two)]

    assert "spread" not in heads[0]
    assert "spread" in heads[1]


@pytest.mark.sweep
@pytest.mark.parametrize("name", _marked(sorted(EXPERIMENTS)))
def test_every_experiment_runs_small_and_is_drawn(name: str, tmp_path: Path) -> None:
    """Each prints a table and draws a picture, PNG this time."""
    picture = tmp_path / "x.png"
    done = papers(name, "--small", "--picture", picture)
    assert done.exit_code == DONE, done.output
    assert picture.read_bytes().startswith(b"\x89PNG")


class _CollectedError(Exception):
    """Carries the points of an experiment, none of which has run."""


class _Collector(ExperimentEffort):
    """Runs nothing."""

    def parts(self, parts: Sequence[Callable[[], Any]]) -> list[Any]:
        raise _CollectedError(*parts)


@pytest.mark.parametrize(
    "name",
    _marked(one for one in EXPERIMENTS if one not in ("zoe-example", "lotes-trace", "lotes-drift")),
)
def test_every_point_can_be_sent_and_says_what_it_depends_on(name: str) -> None:
    """It is pickled; its name is another for each, and the same in another process."""
    with pytest.raises(_CollectedError) as collected:
        EXPERIMENTS[name].run(_Collector(2, True, CommandProgress()))
    points = collected.value.args
    names = [point_of(point) for point in points]
    assert names
    assert len(set(names)) == len(names)
    assert not any(" at 0x" in one for one in names)
    for point in points:
        assert pickle.loads(pickle.dumps(point)).func is point.func


def _point(number: int) -> Figure:
    return Figure(number / 3, float("inf"))


def test_a_sweep_continues_where_it_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Points of a file are taken over bit by bit, though its last line was cut off by a kill."""
    file, ran = tmp_path / "points.jsonl", []
    run = CommandProgress()

    def part(number: int) -> Figure:
        ran.append(number)
        if number == 1:
            run.stopped.set()
        return _point(number)

    parts = [partial(part, number) for number in range(4)]
    with closing(PointsFile(file, "omega")) as points:
        ExperimentEffort(None, True, run, points=points).parts(parts)
    file.write_bytes(file.read_bytes() + b'{"point": "cut')
    run.stopped.clear()
    with closing(PointsFile(file, "omega")) as points:
        found = ExperimentEffort(None, True, run, points=points).parts(parts)
    assert ran == [0, 1, 2, 3]
    assert found == [_point(number) for number in range(4)]
    assert "2 of 4 points were done before" in capsys.readouterr().err
    assert len(file.read_text().splitlines()) == 5


def test_a_resumed_sweep_prints_what_one_run_prints(tmp_path: Path) -> None:
    """zoe-cluster: one seed, then two with the same file, against two at once."""
    file = tmp_path / "points.jsonl"
    assert papers("zoe-cluster", "--seeds", 1, "--resume", file).exit_code == DONE
    resumed = papers("zoe-cluster", "--seeds", 2, "--resume", file, "-o", "json")
    assert "1 of 2 points were done before" in resumed.stderr
    assert resumed.stdout == papers("zoe-cluster", "--seeds", 2, "-o", "json").stdout


def _evil_line() -> str:
    raw = base64.b64encode(pickle.dumps(os.getcwd)).decode()
    head = {"experiment": "omega", "agenda": version("cluster-agenda")}
    return json.dumps(head) + "\n" + json.dumps({"point": "x", "answer": raw}) + "\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain\n", "this is no file of points"),
        ("plain", "this is no file of points"),
        ('{"experiment": "omega", "agenda": "0.0.1"}\n', "points of omega by Agenda 0.0.1, not"),
        (_evil_line(), "line 2 is no point: posix.getcwd is no data"),
    ],
)
def test_a_file_that_holds_something_else_is_left_alone(
    text: str, said: str, tmp_path: Path
) -> None:
    """An error that names it, exit code 1; nothing in it is run, and nothing is written."""
    file = tmp_path / "points.jsonl"
    file.write_text(text)
    done = papers("omega", "--small", "--resume", file)
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert said in done.stderr
    assert file.read_text() == text


def test_a_file_is_written_by_one_command_at_a_time(tmp_path: Path) -> None:
    """A second one would cut off what the first writes; the file is free once that is through."""
    file = tmp_path / "points.jsonl"
    with closing(PointsFile(file, "omega")) as points:
        with pytest.raises(CliError, match="another command keeps its points there"):
            PointsFile(file, "omega")
        points.keep("a()", 1)
    with closing(PointsFile(file, "omega")) as points:
        assert points.done == {"a()": 1}


def test_workers_and_a_cluster_are_not_both_taken() -> None:
    """Usage, exit code 2; and an address that is none says how one is written."""
    done = papers("omega", "--workers", 2, "--dask", "tcp://127.0.0.1:1")
    assert (done.exit_code, "give either --workers or --dask" in done.stderr) == (USAGE, True)
    wrong = papers("omega", "--dask", "localhost")
    assert (wrong.exit_code, "write tcp://HOST:PORT" in wrong.stderr) == (ERROR, True)
