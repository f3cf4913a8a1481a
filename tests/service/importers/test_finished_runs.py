"""Histories of finished runs: what each format says, which runs are one job's, bad input."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from planner.history.run import runs_by_job
from service.importers.histories import read_history
from service.importers.lines import TraceError
from service.importers.runs import FinishedRun, RunHistory, job_name, job_runs, recurring_name

JOBS = (
    "job_id,workload_name,requested_number_of_resources,success,starting_time,execution_time,"
    "metadata\n"
)
SACCT = "JobID|JobName|User|Start|End|AllocCPUS|AllocTRES|ReqMem|State\n"
SWF = "; UnixStartTime: 1000000\n"


def app(**changes: Any) -> dict[str, Any]:
    """Return a finished application of YARN: two cores for a minute."""
    return {
        "id": "application_1", "name": "etl-1", "user": "ada", "queue": "q",
        "finalStatus": "SUCCEEDED", "startedTime": 1_000_000, "finishedTime": 1_060_000,
        "vcoreSeconds": 90, "memorySeconds": 180_000, **changes,
    }  # fmt: skip


def execution(**changes: Any) -> dict[str, Any]:
    """Return a finished application as a server lists it: two workers and a master."""
    return {
        "id": "a-1", "tenant": "ml", "queue": "default", "state": "completed",
        "submitted": 30.0, "submitted_at": "2026-01-05T00:00:30Z", "started": 60.0, "ended": 180.0,
        "application": {
            "name": "train",
            "components": [
                {"name": "worker", "count": 2, "core": True,
                 "resources": {"cpu": 2, "memory": "4 GiB"}},
                {"name": "master", "count": 1, "core": True, "resources": {"cpu": 0.5}},
            ],
        },
        **changes,
    }  # fmt: skip


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., RunHistory]:
    """Write a text into a file and read it as a history."""

    def write_and_read(text: str, form: str | None = None, zone: str = "UTC") -> RunHistory:
        path = tmp_path / "history"
        path.write_bytes(gzip.compress(text.encode()))
        return read_history(str(path), form, ZoneInfo(zone))

    return write_and_read


def _only(history: RunHistory) -> FinishedRun:
    (run,) = history.runs
    return run


def _held(run: FinishedRun) -> list[tuple[float, int]]:
    return [(stretch.seconds, stretch.width) for stretch in run.stretches]


def test_jobs_csv(read: Callable[..., RunHistory]) -> None:
    """Times count from the trace's zero; what was refused is left out with its line."""
    text = JOBS + 'j-1,w,4,1,100.0,50.0,"{""tenant"":""ads""}"\nj-2,w,4,0,,,{}\n'
    history = read(text)
    run = _only(history)
    assert (run.name, run.user, run.began_s, _held(run)) == ("j-1", "ads", 100.0, [(50.0, 4)])
    assert (history.calendar, [one.line for one in history.skipped]) == (False, [3])


def test_swf(read: Callable[..., RunHistory]) -> None:
    """Submission and wait after the header's instant; failed jobs are left out."""
    text = SWF + (
        "1 100 20 600 8 -1 -1 8 900 -1 1 3 3 7 1 -1 -1 -1\n"
        "2 100 20 600 8 -1 -1 8 900 -1 5 3 3 7 1 -1 -1 -1\n"
        "3 200 -1 60 -1 -1 -1 4 900 -1 1 3 3 -1 -1 -1 -1 -1\n"
    )
    history = read(text)
    assert [(run.name, run.user, run.began_s, _held(run)) for run in history.runs] == [
        ("exe7", "u3", 1_000_120.0, [(600.0, 8)]),
        ("4p-900s", "u3", 1_000_200.0, [(60.0, 4)]),
    ]
    assert (history.calendar, len(history.skipped)) == (True, 1)
    assert not read(text.removeprefix(SWF)).calendar


def test_slurm(read: Callable[..., RunHistory]) -> None:
    """Times of the zone, memory of the whole job, steps left out."""
    text = SACCT + (
        "7|etl-2026-11-22|ada|2026-11-22T03:00:00|2026-11-22T04:00:00|8|"
        "cpu=8,mem=32G,gres/gpu=4|1G|COMPLETED\n"
        "7.batch|batch||2026-11-22T03:00:00|2026-11-22T04:00:00|8|||COMPLETED\n"
        "8|etl-2026-11-23|ada|2026-11-23T03:00:00|2026-11-23T04:00:00|8||500Mc|COMPLETED\n"
        "9|etl|ada|2026-11-23T03:00:00|2026-11-23T04:00:00|8|||CANCELLED by 0\n"
    )
    history = read(text, zone="Europe/Paris")
    first, second = history.runs
    assert first.began_s == 1_795_312_800.0  # 02:00 UTC
    assert _held(first) == [(3600.0, 4)]
    assert dict(first.bundle) == {"cpu": 2000, "memory": 8192, "gpu": 1}
    assert dict(second.bundle) == {"cpu": 1000, "memory": 500}
    assert [one.why for one in history.skipped] == ["etl is CANCELLED"]


def test_tasks_of_an_array_are_one_run(read: Callable[..., RunHistory]) -> None:
    """Two tasks that overlap for an hour, and one that failed."""
    text = SACCT + (
        "7_1|sweep|ada|2026-11-22T03:00:00|2026-11-22T05:00:00|8||1Gc|COMPLETED\n"
        "7_2|sweep|ada|2026-11-22T04:00:00|2026-11-22T06:00:00|4||2Gc|COMPLETED\n"
        "7_3|sweep|ada|2026-11-22T04:00:00|2026-11-22T06:00:00|4||2Gc|FAILED\n"
    )
    run = _only(read(text))
    assert _held(run) == [(3600.0, 8), (3600.0, 12), (3600.0, 4)]
    assert dict(run.bundle) == {"cpu": 1000, "memory": 2048}


def test_a_strange_record_of_sacct_ends_nothing_else(read: Callable[..., RunHistory]) -> None:
    """Names with bars and line breaks are read; what is broken otherwise is left out by line."""
    other = GOOD.replace("|etl|", "|{}|")
    text = SACCT + "".join(
        [
            other.format("a|b"),
            "9|cut off|ada\n",
            other.format("two\nlines").replace("7|", "8|", 1),
            GOOD.replace("7|etl", "10|etl").replace("T04:00:00", "T05:00:00"),
            GOOD.replace("7|etl", "11|etl").replace("2026-11-22T03:00:00", "None"),
            GOOD.replace("7|etl", "12|etl").replace("4G", "?"),
            "13|etl|ada\n",
        ]
    )
    history = read(text)
    assert [run.name for run in history.runs] == ["a|b", "two\nlines", "etl"]
    assert [one.line for one in history.skipped] == [3, 7, 8, 9]


def test_bars_in_one_of_several_texts_are_not_guessed(read: Callable[..., RunHistory]) -> None:
    """With a column of comments too, a bar may be of either: the record is left out."""
    text = SACCT.replace("|State", "|Comment|State")
    rows = [GOOD.replace("|COMPLETED", f"|{note}|COMPLETED") for note in ("fine", "a|b")]
    history = read(text + "".join(rows))
    assert (len(history.runs), [one.line for one in history.skipped]) == (1, [3])


@pytest.mark.parametrize(
    ("tres", "gres", "gpus"),
    [
        ("cpu=8,gres/gpu:a100=2,gres/gpu=2", "", 2),
        ("cpu=8,gres/gpu:a100=2", "", 2),
        ("cpu=8,gres/gpu:a100=1,gres/gpu:v100=3", "", 4),
        ("cpu=8,gres/GPU=2", "", 2),
        ("cpu=8", "gpu:2", 2),
        ("cpu=8", "gpu:a100:2(S:0-1),fpga:1", 2),
        ("cpu=8", "gres/gpu:a100=1,gres/gpu:v100=1", 2),
        ("cpu=8,gres/gpumem=40G", "fpga:1", 0),
        ("cpu=7,gres/gpu=3", "", 3),
    ],
)
def test_gpus_in_every_spelling_and_no_more_than_there_were(
    read: Callable[..., RunHistory], tres: str, gres: str, gpus: int
) -> None:
    """The containers have the run's GPUs in all, and at least its cores."""
    text = SACCT.replace("|State", "|AllocGRES|State")
    row = GOOD.replace("|8||", f"||{tres}|").replace("|COMPLETED", f"|{gres}|COMPLETED")
    run = _only(read(text + row))
    ((_, width),) = _held(run)
    assert width * run.bundle.get("gpu", 0) == gpus
    assert width * run.bundle["cpu"] >= 1000 * int(tres[4])


def test_runs_of_one_job_on_cores_and_on_gpus_are_in_one_container(
    read: Callable[..., RunHistory],
) -> None:
    """A run of 8 cores without GPUs is two of the containers of one with 2, not eight."""
    text = SACCT + GOOD.replace("8||", "8|cpu=8,gres/gpu=2|") + GOOD.replace("7|", "8|", 1)
    runs = runs_by_job(job_runs(read(text).runs, ("user", "name")))["ada/etl"]
    assert [one.peak for one in runs] == [2, 2]


def test_parts_of_one_job_are_one_run(read: Callable[..., RunHistory]) -> None:
    """Components of a heterogeneous job, attempts before the last, and a record twice."""
    text = SACCT + (
        "7+0|het|ada|2026-11-22T03:00:00|2026-11-22T04:00:00|8|||COMPLETED\n"
        "7+0.batch|batch||2026-11-22T03:00:00|2026-11-22T04:00:00|8|||COMPLETED\n"
        "7+1|het|ada|2026-11-22T03:00:00|2026-11-22T05:00:00|4|||COMPLETED\n"
        "8|again|ada|2026-11-22T03:00:00|2026-11-22T04:00:00|8|||NODE_FAIL\n"
        "8|again|ada|2026-11-22T05:00:00|2026-11-22T06:00:00|8|||COMPLETED\n"
        "8|again|ada|2026-11-22T05:00:00|2026-11-22T06:00:00|8|||COMPLETED\n"
    )
    history = read(text)
    assert [(run.name, _held(run)) for run in history.runs] == [
        ("again", [(3600.0, 8)]),
        ("het", [(3600.0, 12), (3600.0, 4)]),
    ]
    assert [one.why for one in history.skipped] == ["again is NODE_FAIL"]


def test_parts_of_an_swf_job_are_one_run(read: Callable[..., RunHistory]) -> None:
    """Two parts (2, then 3) with a pause; nothing more where the job has a line of its own (1)."""
    row = "{} {} 0 600 8 -1 -1 8 900 -1 {} 3 3 7 1 -1 -1 -1\n"
    parts = SWF + row.format(1, 100, 2) + row.format(1, 1000, 3) + row.format(2, 100, 2)
    history = read(parts + row.format(2, 900, 4))
    assert [_held(run) for run in history.runs] == [[(600.0, 8), (300.0, 0), (600.0, 8)]]
    assert [one.line for one in history.skipped] == [4]
    assert len(read(parts + row.format(1, 100, 1)).runs) == 1


def test_yarn(read: Callable[..., RunHistory]) -> None:
    """Totals over the length, rounded up: the mean width, and memory for each core of it."""
    apps = [app(), app(finalStatus="KILLED"), app(launchTime=1_030_000)]
    history = read(json.dumps({"apps": {"app": apps}}))
    first, launched = history.runs
    assert (_held(first), dict(first.bundle)) == ([(60.0, 2)], {"cpu": 1000, "memory": 2000})
    assert (launched.began_s, _held(launched)) == (1030.0, [(30.0, 3)])
    assert (history.is_mean, len(history.skipped)) == (True, 1)
    assert read('{"apps": null}').runs == ()


def test_gpus_of_yarn_and_of_a_server(read: Callable[..., RunHistory]) -> None:
    """One of a mean of 1.5 cores; one GPU among three components that differ."""
    entries = [{"key": "yarn.io/gpu", "value": "60"}]
    for amounts in ({"yarn.io/gpu": 60}, {"entry": entries}):
        run = _only(read(json.dumps({"apps": {"app": [app(resourceSecondsMap=amounts)]}})))
        assert (_held(run), run.bundle["gpu"]) == ([(60.0, 1)], 1)
    mixed = execution()
    mixed["application"]["components"][1]["resources"]["gpu"] = 1
    run = _only(read(json.dumps({"applications": [mixed]})))
    assert (_held(run), dict(run.bundle)) == (
        [(120.0, 1)],
        {"cpu": 4500, "memory": 8192, "gpu": 1},
    )


def test_one_bad_entry_of_a_list_ends_nothing_else(read: Callable[..., RunHistory]) -> None:
    """Of YARN, of a server, and of a table."""
    history = read(json.dumps({"apps": {"app": [3, app(), app(vcoreSeconds="9")]}}))
    assert (len(history.runs), [one.line for one in history.skipped]) == (1, [1, 3])
    history = read(json.dumps({"applications": [{}, execution()]}))
    assert (len(history.runs), [one.line for one in history.skipped]) == (1, [1])
    good = "j,w,4,1,100.0,50.0,{}\n"
    history = read(f"{JOBS}{good}j,w\nj,w,4,1,x,50.0,{{}}\n")
    assert (len(history.runs), [one.line for one in history.skipped]) == (1, [3, 4])


def test_a_server_s_applications(read: Callable[..., RunHistory]) -> None:
    """Components that differ are cores with their share of memory; alike, they are containers."""
    alike = execution()
    alike["application"]["components"].pop()
    history = read(json.dumps({"applications": [execution(), alike, execution(state="failed")]}))
    mixed, same = history.runs
    assert (mixed.name, mixed.user, mixed.began_s) == ("train", "ml", 1_767_571_260.0)
    assert (_held(mixed), dict(mixed.bundle)) == ([(120.0, 5)], {"cpu": 900, "memory": 1639})
    assert (_held(same), dict(same.bundle)) == ([(120.0, 2)], {"cpu": 2000, "memory": 4096})
    assert [one.why for one in history.skipped] == ["a-1 is failed"]


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("etl-2026-11-22", "etl"),
        ("etl_20261122", "etl"),
        ("etl-2026-11-22T03:00:00Z", "etl"),
        ("etl_20261123_attempt_2", "etl"),
        ("daily.2026.11.22.report", "daily.report"),
        ("load (retry)", "load"),
        ("spark-shuffle-17", "spark-shuffle"),
        ("word count #12", "word count"),
        ("scheduled__1f3a9c0b-22ab", "scheduled"),
        ("layer3", "layer3"),
        ("resnet50-train", "resnet50-train"),
        ("2026-11-22", "2026-11-22"),
        ("deadbeef", "deadbeef"),
    ],
)
def test_names_of_runs_of_one_job(name: str, job: str) -> None:
    """Dates anywhere, numbers and attempts at the end go; words keep their numbers."""
    assert recurring_name(name) == job


def test_keys_tell_jobs_apart(read: Callable[..., RunHistory]) -> None:
    """By user and name as a rule, by others where asked."""
    run = _only(read(json.dumps({"apps": {"app": [app()]}})))
    assert job_name(run, ("user", "name")) == "ada/etl"
    assert job_name(run, ("queue", "exact-name", "width")) == "q/etl-1/x2"


GOOD = "7|etl|ada|2026-11-22T03:00:00|2026-11-22T04:00:00|8||4G|COMPLETED\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n", "line 1: the file is blank"),
        ("what\n",
         "line 1: the format of the history is not recognised (jobs-csv: jobs.csv of "
         "python -m bench.papers; swf: Standard Workload Format; slurm: sacct --parsable2 with its "
         "header; yarn: apps of "
         "YARN's ResourceManager, JSON; agenda: applications of a server, JSON); give --format"),
        ("job_id,a\n", "line 1: no column 'requested_number_of_resources'; the header is job_id,a"),
        (f"{JOBS}j,w,4,1,x,1,{{}}\n", "line 2: starting_time is a number, not 'x'"),
        (f"{JOBS}j,w,4,1,1,1,nix\n", "line 2: metadata is a JSON object, not 'nix'"),
        (f"{JOBS}j,w,0,1,1,1,{{}}\n", "line 2: a run has up to 10000000 cores, not 0"),
        (f"{JOBS}j,w,1,1,1,1e12,{{}}\n", "line 2: a run lasts up to 100000000 s, not 1e+12"),
        (f"{JOBS}j,w,1,1,-5,1,{{}}\n", "line 2: a run begins at 0 to 8589934592 s, not -5"),
        (f"{SWF}1 2 3\n", "line 2: 18 columns, not 3"),
        (f"{SWF}{'x ' * 18}\n",
         "line 2: columns are numbers (could not convert string to float: 'x')"),
        (f"{SWF}{'nan ' * 18}\n", "line 2: columns are numbers up to 1000000000000000"),
        ("JobName|End|State|AllocCPUS\n",
         "line 1: no column Start; the columns are JobName|End|State|AllocCPUS"),
        ("JobName|Start|End|State\n",
         "line 1: no column AllocCPUS, and no AllocTRES; one of them is needed"),
        (f"{SACCT}7|etl\n", "line 2: 2 fields, but 9 columns"),
        (SACCT + GOOD.replace("2026-11-22T04:00:00", "Unknown"),
         "line 2: End is a time such as 2026-11-22T03:00:00, not 'Unknown'"),
        (SACCT + GOOD.replace("|8|", "|many|"),
         "line 2: AllocCPUS is a number of cores, not 'many'"),
        (SACCT + GOOD.replace("4G", "lots"),
         "line 2: ReqMem is such as 8G, 4Gn or 500Mc, not 'lots'"),
        (SACCT + GOOD.replace("||", "|cpu|"),
         "line 2: AllocTRES is such as cpu=4,mem=8G, not 'cpu'"),
        (SACCT + GOOD.replace("T04", "T02"),
         "line 2: a run ends after it begins; this one lasts -3600 s"),
        ('{"apps": {"app": 3}}',
         '"apps" is {"app": [...]}, as the ResourceManager lists applications'),
        ('{"apps": {"app": [3]}}', "application 1: an object is needed, not 3"),
        (json.dumps({"apps": {"app": [app(vcoreSeconds="9")]}}),
         "application 1: vcoreSeconds is a number, not 9"),
        (json.dumps({"apps": {"app": [app(finishedTime=10**400)]}}),
         "application 1: finishedTime is a number up to 1000000000000000"),
        ('{"applications": {}}', '"applications" is a list, as GET /v1/applications answers'),
        ('{"applications": [{}]}',
         "application 1: this is not an entry of the server's list ('started')"),
        (json.dumps({"applications": [execution(submitted_at="now")]}),
         "application 1: submitted_at is an instant, not 'now'"),
        (json.dumps({"applications": [execution(submitted=10**400)]}),
         "application 1: this is not an entry of the server's list (int too large to convert to "
         "float)"),
        (json.dumps({"applications": [execution(application={"components": []})]}),
         "application 1: this is not an entry of the server's list (it has no components)"),
        (json.dumps({"applications": [execution(application={"components": [
            {"count": "many", "resources": {"cpu": 1}}]})]}),
         "application 1: this is not an entry of the server's list (invalid literal for int() with "
         "base "
         "10: 'many')"),
    ],
)  # fmt: skip
def test_bad_histories_say_where_and_what_would_be_right(
    read: Callable[..., RunHistory], text: str, message: str
) -> None:
    """The whole message, for each format."""
    with pytest.raises(TraceError) as caught:
        read(text)
    assert str(caught.value) == message


def test_a_run_over_the_hour_that_clocks_show_twice_is_as_long_as_it_was(
    read: Callable[..., RunHistory],
) -> None:
    """From 02:50 in summer time to 02:10 in winter time, twenty minutes later."""
    night = GOOD.replace("2026-11-22T03:00:00", "2026-10-25T02:50:00")
    night = night.replace("2026-11-22T04:00:00", "2026-10-25T02:10:00")

    (run,) = read(SACCT + night, zone="Europe/Paris").runs

    assert [one.seconds for one in run.stretches] == [1200.0]


def test_json_that_breaks_off_names_its_line(read: Callable[..., RunHistory]) -> None:
    """Of a document over several lines."""
    with pytest.raises(TraceError, match="line 2"):
        read('{"apps":\n {"app": [}}', "yarn")


def test_a_history_needs_no_format(tmp_path: Path) -> None:
    """A byte order mark and empty lines before the header are no matter."""
    path = tmp_path / "sacct.txt"
    path.write_text(f"\ufeff{SACCT}{GOOD}", encoding="utf-8")
    assert len(read_history(str(path), None, UTC).runs) == 1
