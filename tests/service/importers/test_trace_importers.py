"""Importers of Google's and Alibaba's traces: by pass on small files, and on the real ones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.files import cluster_from_json, read_cluster, read_line
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_workload
from service.importers.alibaba import AlibabaModel, import_alibaba
from service.importers.google2011 import GoogleModel, import_google
from service.importers.lines import Imported, Slack, TraceError, open_trace
from service.importers.stages import (
    MachineKind,
    Stage,
    StageModel,
    TraceJob,
    import_jobs,
    in_order,
    kinds_toml,
)
from tests.service.cli.command_line import agenda

JOBS = "job_id,submit_s,sched_s,end_s,user,n_tasks,cpu_med,mem_med,priority,task_run_med_s"
TASKS = "job_id,task_index,submit_s,sched_s,run_s,last_s,priority,cpu,mem"
BATCH = "create_s,end_s,job,task,instances,status,cpu_pct,mem"
DAGS = "job,tid,parents,instances,start_s,end_s,mean_inst_s,plan_cpu_pct,plan_mem"


def google(*lines: str, initial: bool = False) -> Imported:
    """Import rows for machines of at most 32 cores and 128 GiB, with slack exactly 1."""
    described = GoogleModel(initial=initial)
    model = StageModel(described.kinds(), slack=Slack(1.0, 1.0))
    return import_google(_file(lines), described, model, np.random.default_rng(0))


def alibaba(*lines: str, machines: int = 10) -> Imported:
    """Import rows for machines of 64 cores and 256 GiB, with slack exactly 1."""
    described = AlibabaModel(machines)
    model = StageModel(described.kinds, slack=Slack(1.0, 1.0))
    return import_alibaba(_file(lines), described, model, np.random.default_rng(0))


def _file(lines: Iterable[str]) -> list[str]:
    return [f"{line}\n" for line in lines]


def window(imported: Imported, index: int = 0) -> dict[str, Any]:
    """The window of one imported request."""
    rdl: Any = imported.lines[index]["rdl"]
    body: dict[str, Any] = rdl["window"]
    return body


def test_a_google_job_is_one_atom_of_its_tasks() -> None:
    """3 tasks of 90 s, 1/16 of 32 cores and 1/4 of 128 GiB; two steps alone, two of slack.

    Times count from the first submission, rounded down to a step: 605 s is 5 s after 600 s.
    """
    imported = google(JOBS, "7,605.5,606,800,3,3,0.0625,0.25,9,90")
    atom = {"bundle": {"cpu": 2, "memory": "32 GiB"}, "min": 1, "max": 3, "lease": 90, "work": 270}
    assert imported.lines[0] == {
        "id": "j7",
        "tenant": "user3",
        "submitted": 5,
        "rdl": {"window": {"start": 5, "end": 60 + 4 * 60, "of": {"atom": atom}}},
        "priority": 9,
    }


def test_google_tasks_with_equal_requests_are_gathered() -> None:
    """Two of 60 s and 120 s become one atom of 90 s leases, another request another atom."""
    rows = ["5,0,10,20,60,80,2,0.5,0.1", "5,1,12,20,120,140,2,0.5,0.1", "5,2,12,20,,50,2,0.25,0.1"]
    atoms = window(google(TASKS, *rows))["of"]["all"]
    assert [(a["atom"]["max"], a["atom"]["lease"]) for a in atoms] == [(2, 90), (1, 30)]
    assert [a["atom"]["bundle"]["cpu"] for a in atoms] == [16, 8]


def test_google_jobs_of_the_start_and_jobs_without_times_are_left_out() -> None:
    """Time 0 means "already there"; a negative run time, seen in the trace, is reported."""
    rows = ["1,0,0,9,3,1,0.1,0.1,0,5", "2,9,9,99,3,1,0.1,0.1,0,-5", "3,9,9,99,3,1,0.1,0.1,0,5"]
    imported = google(JOBS, *rows)
    assert [line["id"] for line in imported.lines] == ["j3"]
    assert [skipped.line for skipped in imported.skipped] == [3]
    assert len(google(JOBS, *rows, initial=True).lines) == 2


def test_alibaba_batch_tasks_stand_side_by_side() -> None:
    """Two tasks of one job, from its first creation; what did not end is reported."""
    rows = [
        "100,220,1,1,4,Terminated,50.0,0.5",
        "130,190,1,2,2,Terminated,100.0,0.25",
        "130,190,1,3,2,Running,100.0,0.25",
    ]
    imported = alibaba(BATCH, *rows)
    atoms = [one["atom"] for one in window(imported)["of"]["all"]]
    assert [(a["max"], a["lease"], a["bundle"]["memory"]) for a in atoms] == [
        (4, 120, "128 GiB"),
        (2, 60, "64 GiB"),
    ]
    # Submitted 40 s into step 0: from step 1 two steps alone and two of slack.
    assert (imported.lines[0]["submitted"], window(imported)["end"]) == (40, 300)
    assert [skipped.line for skipped in imported.skipped] == [4]


def test_alibaba_dags_take_precedence_from_names() -> None:
    """3 waits for 1 and 2 although it started first; a parent that is not there is ignored.

    Alone: the longer of one step and two, then one: three steps, and three of slack.
    """
    rows = [
        "j,3,1 2 9,1,0,50,50,100,1",
        "j,1,,1,10,70,60,100,1",
        "j,2,,1,10,130,120,100,1",
    ]
    imported = alibaba(DAGS, *rows)
    graph = window(imported)["of"]["graph"]
    leases = {name: atom["atom"]["lease"] for name, atom in graph["nodes"].items()}
    edges = {(leases[before], leases[after]) for before, after in graph["edges"]}
    assert edges == {(60, 50), (120, 50)}
    assert window(imported)["end"] == 6 * 60


def test_a_task_that_fits_no_machine_is_reported() -> None:
    """Memory of one and a half machines: the job is left out with its line."""
    imported = alibaba(BATCH, "100,220,1,1,4,Terminated,50.0,1.5")
    assert not imported.lines
    assert "fits no machine" in imported.skipped[0].why


def test_tasks_that_wait_for_one_another_are_reported_and_cut() -> None:
    """A cycle keeps every task and says so."""
    told: list[str] = []
    assert sorted(in_order({0: [1], 1: [0], 2: []}, told.append)) == [0, 1, 2]
    assert told == ["its tasks depend on each other in a cycle"]


@pytest.mark.parametrize(
    ("read", "lines", "said"),
    [
        (google, ("a,b",), "n_tasks"),
        (google, (JOBS.replace("mem_med", "ram"),), "no column 'mem_med'"),
        (google, (JOBS, "1,2"), "line 2: 10 columns, not 2"),
        (google, (JOBS, "1,soon,0,9,3,1,0.1,0.1,0,5"), "line 2: submit_s is a number"),
        (alibaba, ("a,b",), "parents"),
        (alibaba, (BATCH, "1,2,3,4,nan,Terminated,1,1"), "line 2: instances is a number"),
    ],
)
def test_malformed_traces_name_the_line(read: Any, lines: tuple[str, ...], said: str) -> None:
    """Wrong headers, short lines and words for numbers are errors with their place."""
    with pytest.raises(TraceError, match=said):
        read(*lines)


@pytest.mark.parametrize(
    ("read", "header", "good", "bad"),
    [
        (google, JOBS, "1,60,60,90,3,1,0.1,0.1,0,5", "2,soon,0,9,3,1,0.1,0.1,0,5"),
        (google, TASKS, "1,0,60,60,5,,0,0.1,0.1", "2,0,60,60,many,,0,0.1,0.1"),
        (alibaba, BATCH, "1,60,j,1,2,Terminated,50,0.1", "1,60,j,2,2,Terminated,half,0.1"),
        (alibaba, DAGS, "j,1,,2,0,60,60,100,1", "j,2,,2,0,60,soon,100,1"),
    ],
)
def test_strange_lines_of_a_trace_are_left_out(read: Any, header: str, good: str, bad: str) -> None:
    """A word for a number and a short line lose themselves only, and are reported by line."""
    found = read(header, bad, good, "1,2")
    assert (len(found.lines), [one.line for one in found.skipped]) == (1, [2, 4])


stages = st.lists(
    st.builds(
        Stage,
        st.integers(1, 30),
        st.integers(1, 500),
        st.integers(1, 4000),
        st.integers(0, 4000),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(stages=stages, chained=st.booleans(), submitted=st.integers(0, 1000))
def test_every_job_can_be_planned_alone(stages: list[Stage], chained: bool, submitted: int) -> None:
    """With no slack at all, the deadline leaves capacity for the job on its own machines."""
    if chained:
        stages = [
            Stage(s.tasks, s.lease_s, s.cpu_m, s.memory_mib, (i - 1,) if i else ())
            for i, s in enumerate(stages)
        ]
    kinds = (MachineKind("a", 2, 4000, 8192), MachineKind("b", 1, 8000, 4096))
    job = TraceJob(1, "j", "t", submitted, tuple(stages))
    model = StageModel(kinds, slack=Slack(0.0, 0.0), rebase=False)
    imported = import_jobs([job], model, np.random.default_rng(0))
    cluster = cluster_from_json(_toml(kinds_toml(kinds, imported, comment="a test")))
    compiled = compile_workload([read_line(imported.lines[0])], cluster)
    document = plan_workload(cluster, compiled, agent_named("gree"), Limits())
    assert not document.refusals


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


@pytest.mark.traces
@pytest.mark.parametrize(
    ("name", "file", "at_least"),
    [
        ("google2011", "google2011/jobs_0_70756s.csv.gz", 200),
        ("alibaba", "alibaba/v2018_dags_medium.csv.gz", 200),
        ("alibaba", "alibaba/v2017_batch_task_first.csv.gz", 200),
    ],
)
def test_real_traces_become_workloads_that_compile(
    traces: Path, tmp_path: Path, name: str, file: str, at_least: int
) -> None:
    """The first 200 jobs are read, none malformed, on the cluster written alongside them."""
    workload, cluster = tmp_path / "w.jsonl", tmp_path / "c.toml"
    arguments = ["import", name, f"{traces}/{file}", "--limit", str(at_least)]
    arguments += ["--out", str(workload), "--cluster-out", str(cluster)]
    done = agenda(*arguments)
    assert done.exit_code == 0, done.output
    lines = [read_line(json.loads(line)) for line in workload.read_text().splitlines()]
    compiled = compile_workload(lines, read_cluster(cluster))
    assert (len(lines), compiled.refusals) == (at_least, ())


@pytest.mark.traces
def test_google_tasks_keep_their_number(traces: Path) -> None:
    """Atoms of the tasks file hold as many tasks as the file has rows that could run."""
    rows = list(islice(open_trace(f"{traces}/google2011/tasks_0_70756s.csv.gz"), 400_000))
    recent = [rows[0], *rows[-3_000:]]
    described = GoogleModel(initial=True)
    model = StageModel(described.kinds())
    imported = import_google(recent, described, model, np.random.default_rng(0))
    text = json.dumps(imported.lines)
    tasks = sum(int(part.split(",")[0]) for part in text.split('"max": ')[1:])
    assert tasks + len(imported.skipped) == 3_000


def test_a_number_beyond_belief_is_an_error_and_ages_are_left_out() -> None:
    """1e308 would overflow on the way; a job of ages would make a cluster that no plan can hold."""
    model = StageModel((MachineKind("m", 1, 64_000, 256 * 1024),))
    for instances, seconds in (("1", 10**13), ("9" * 12, 9)):
        text = [BATCH, f"0,{seconds},7,1,{instances},Terminated,100,0.1"]
        done = import_alibaba(text, AlibabaModel(), model, np.random.default_rng(0))
        assert (done.lines, done.end_s) == ((), 0)
        assert "deadline after" in done.skipped[0].why
    text = [BATCH, "0,60,7,1,1e308,Terminated,100,0.1"]
    with pytest.raises(TraceError, match="line 2: instances is a number up to"):
        import_alibaba(text, AlibabaModel(), model, np.random.default_rng(0))
