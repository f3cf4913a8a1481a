"""The models of docs/importers.md, by pass on small traces and as totals on the real ones."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.files import read_cluster
from service.importers.lines import (
    Imported,
    Slack,
    TraceError,
    TraceMachines,
    cluster_toml,
    open_trace,
    to_json_lines,
)
from service.importers.swf import SwfModel, import_swf
from service.importers.swim import MIB, SwimModel, import_swim
from service.importers.yarn import import_yarn
from tests.service.cli.command_line import agenda

GIB = 1024 * MIB

KTH_LINE = (
    "   15   599850 192180   3477    4     -1    -1    4  53940    -1  1  12  12  -1 -1 -1 -1 -1"
)


def swim(*lines: str, model: SwimModel | None = None) -> Imported:
    """Import SWIM lines with slack exactly 1."""
    model = model or SwimModel(TraceMachines(1, 32, 128), slack=Slack(1.0, 1.0))
    return import_swim(lines, model, np.random.default_rng(0))


def window(imported: Imported, index: int = 0) -> dict[str, Any]:
    """The window of one imported request."""
    rdl: Any = imported.lines[index]["rdl"]
    body: dict[str, Any] = rdl["window"]
    return body


def test_a_swim_job_becomes_map_then_reduce_as_the_model_says() -> None:
    """300 MiB in 3 maps of 100 s, 1.5 GiB of shuffle in 2 reduces of 768 s, alone 10 + 77 steps.

    Submitted at 41 s, that is step 5; with slack 1 the window ends 2 x 87 steps later.
    """
    imported = swim(f"job7\t41\t0\t{300 * MIB}\t{3 * GIB // 2}\t5\n")
    bundle = {"cpu": 1, "memory": "2 GiB"}
    maps = {"bundle": bundle, "min": 1, "max": 3, "lease": 100, "work": 300}
    reduces = {"bundle": bundle, "min": 1, "max": 2, "lease": 768, "work": 1536}
    assert imported.lines[0] == {
        "id": "job7",
        "tenant": "facebook",
        "submitted": 41,
        "rdl": {
            "window": {
                "start": 41,
                "end": 50 + 2 * 870,
                "of": {"order": [{"atom": maps}, {"atom": reduces}]},
            }
        },
    }


def test_tasks_beyond_the_containers_run_in_waves() -> None:
    """100 maps of 128 s on 32 containers: 4 waves of 13 steps alone, all the work kept."""
    imported = swim(f"j\t0\t0\t{100 * 128 * MIB}\t0\t0")
    atom = window(imported)["of"]["atom"]
    assert (atom["max"], atom["lease"], atom["work"]) == (32, 128, 12_800)
    assert window(imported)["end"] == 2 * 4 * 130


def test_a_job_that_reads_nothing_is_one_short_map() -> None:
    """No job is lost: zero bytes are one task of the least length, 10 s."""
    atom = window(swim("j\t0\t0\t0\t0\t123"))["of"]["atom"]
    assert (atom["max"], atom["lease"], atom["work"]) == (1, 10, 10)


@given(
    submitted=st.integers(0, 90_000),
    size=st.integers(0, 10**13),
    shuffle=st.integers(0, 10**12),
    seed=st.integers(0, 100),
)
def test_every_swim_job_fits_its_window_alone(
    submitted: int, size: int, shuffle: int, seed: int
) -> None:
    """On the grid a window always holds the waves of rounded leases that the job takes alone."""
    model = SwimModel(TraceMachines(16, 32, 128))
    line = f"j\t{submitted}\t0\t{size}\t{shuffle}\t0"
    imported = import_swim([line], model, np.random.default_rng(seed))
    body = window(imported)
    atoms = (
        [body["of"]["atom"]] if "atom" in body["of"] else [a["atom"] for a in body["of"]["order"]]
    )
    alone = 0
    for atom in atoms:
        tasks = atom["work"] // atom["lease"]
        assert tasks * atom["lease"] == atom["work"]
        alone += -(-tasks // 512) * -(-atom["lease"] // 10)
    assert body["end"] // 10 - -(-submitted // 10) >= alone


def test_slack_is_seeded_and_does_not_depend_on_the_cluster() -> None:
    """The same seed gives the same slack a job whatever the machines; another seed another."""
    lines = [f"j{i}\t{i}\t0\t{128 * MIB}\t0\t0" for i in range(50)]

    def ends(machines: int, seed: int) -> list[int]:
        model = SwimModel(TraceMachines(machines, 32, 128))
        done = import_swim(lines, model, np.random.default_rng(seed))
        return [window(done, index)["end"] for index in range(50)]

    assert ends(40, 1) == ends(16, 1)
    assert ends(40, 1) != ends(40, 2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a\tb", "line 1: 6 tab-separated columns, not 2"),
        ("j\t1\t1\tx\t1\t1", "line 1: times and bytes are whole numbers"),
        ("j\t-1\t1\t1\t1\t1", "line 1: times and bytes are from 0 to"),
        (f"j\t1\t1\t{'9' * 400}\t1\t1", "line 1: times and bytes are from 0 to"),
    ],
)
def test_a_broken_swim_line_says_where(line: str, message: str) -> None:
    """A line that is not SWIM's is an error with its number."""
    with pytest.raises(TraceError, match=message):
        swim(line)


def test_a_swim_job_that_is_there_twice_or_takes_ages_is_left_out() -> None:
    """A workload has each id once; one absurd record does not make an absurd cluster."""
    imported = swim(
        f"a\t0\t0\t{MIB}\t0\t5", f"a\t9\t0\t{MIB}\t0\t5", f"b\t{10**12}\t0\t1\t0\t5",
        f"\t0\t0\t{MIB}\t0\t5", f"c\t0\t0\t{MIB}\t0\t5",
    )  # fmt: skip
    assert [line["id"] for line in imported.lines] == ["a", "c"]
    assert imported.end_s == 20
    assert [(one.line, one.why.partition(",")[0]) for one in imported.skipped] == [
        (2, "a is already on line 1"),
        (3, f"b would have a deadline after {10**12 + 20} s"),
        (4, "the job has no name"),
    ]


def swf(lines: Iterable[str], *, gangs: bool = True, rebase: bool = True) -> Imported:
    """Import SWF lines with slack exactly 0.5."""
    model = SwfModel(gangs=gangs, rebase=rebase, slack=Slack(0.5, 0.5))
    return import_swf(lines, model, np.random.default_rng(0))[0]


def test_an_swf_job_becomes_a_gang_of_its_requested_time() -> None:
    """4 processors for 53,940 s at 60 s steps: g = h = 4, one lease, 899 steps, window 1,349.

    Times count from the first submission, rounded down to a step: 599,850 -> 30.
    """
    imported = swf([KTH_LINE])
    atom = {"bundle": {"cpu": 1}, "min": 4, "max": 4, "lease": 53_940, "work": 215_760}
    assert imported.lines[0] == {
        "id": "job15",
        "tenant": "user12",
        "submitted": 30,
        "rdl": {"window": {"start": 30, "end": (1 + 1349) * 60, "of": {"atom": atom}}},
        "recorded": {"start": 192_210, "end": 195_687},
    }


def test_without_gangs_processors_may_start_one_by_one() -> None:
    """The tasks form has g = 1 and the same work."""
    atom = window(swf([KTH_LINE], gangs=False))["of"]["atom"]
    assert (atom["min"], atom["max"], atom["work"]) == (1, 4, 215_760)


def test_what_was_used_stands_in_for_a_missing_request_and_empty_jobs_are_reported() -> None:
    """Fields -1 fall back on used processors and run time; a job without either is left out."""
    used = "1 0 5 100 3 -1 -1 -1 -1 -1 1 1 1 -1 -1 -1 -1 -1"
    empty = "2 0 5 -1 0 -1 -1 -1 -1 -1 1 1 1 -1 -1 -1 -1 -1"
    imported = swf(["; comment", used, empty])
    atom = window(imported)["of"]["atom"]
    assert (atom["max"], atom["lease"]) == (3, 100)
    assert [skipped.line for skipped in imported.skipped] == [3]


def test_an_swf_job_that_is_there_twice_or_takes_ages_is_left_out() -> None:
    """The first of two stands; a run time of ages is told, a number beyond belief is an error."""
    ages = KTH_LINE.replace("  15  ", "  16  ").replace("53940", str(10**11))
    imported = swf([KTH_LINE, KTH_LINE, ages])
    assert [line["id"] for line in imported.lines] == ["job15"]
    assert [one.line for one in imported.skipped] == [2, 3]
    with pytest.raises(TraceError, match="line 1: columns are numbers up to"):
        swf([KTH_LINE.replace("53940", "1e300")])


def test_a_strange_line_of_swim_is_left_out() -> None:
    """The others are imported; the line is reported."""
    found = swim("a\t0\t0\t1\t0\t0", "b\t0", "c\tx\t0\t1\t0\t0")
    assert (len(found.lines), [one.line for one in found.skipped]) == (1, [2, 3])


def test_an_unsorted_swf_log_counts_from_its_first_submission() -> None:
    """Requests come in order of submission, and none before the origin of the workload."""
    row = "{} {} 0 60 2 -1 -1 2 120 -1 1 1 1 1 1 1 -1 -1"
    lines = swf([row.format(1, 600), row.format(2, 130), row.format(3, 300)]).lines
    assert [(line["id"], line["submitted"]) for line in lines] == [
        ("job2", 10), ("job3", 180), ("job1", 480),
    ]  # fmt: skip


def test_a_strange_line_of_an_swf_log_ends_nothing_else() -> None:
    """A short line and one with a word are left out by number; a log of such lines is an error."""
    strange = ["1 2 3", KTH_LINE.replace("53940", "many")]
    found = swf([strange[0], KTH_LINE, strange[1]])
    assert ([one.line for one in found.skipped], len(found.lines)) == ([1, 3], 1)
    with pytest.raises(TraceError, match="line 1: 18 columns"):
        swf(strange)


def test_an_swf_header_with_notes_and_a_start(tmp_path: Path) -> None:
    """Numbers with notes behind them are read; the start is the origin of the cluster file."""
    row = "1 7261 0 60 2 -1 -1 2 120 -1 1 1 1 1 1 1 -1 -1"
    header = "; MaxNodes: 32\n; UnixStartTime: 1700000000\n; MaxProcs: 64 (32 nodes)\n"
    (tmp_path / "log.swf").write_text(f"{header}{row}\n")
    done = agenda("import", "swf", tmp_path / "log.swf", "--cluster-out", tmp_path / "c.toml")
    assert (done.exit_code, json.loads(done.stdout)["submitted"]) == (0, 1)
    cluster = read_cluster(tmp_path / "c.toml")
    assert cluster.origin == datetime.fromtimestamp(1_700_007_260, UTC)
    assert sum(group.count for group in cluster.machines) == 64
    (tmp_path / "log.swf").write_text(f"; MaxNodes: 32\n; UnixStartTime: UNKNOWN\n{row}\n")
    done = agenda("import", "swf", tmp_path / "log.swf", "--cluster-out", tmp_path / "c.toml")
    cluster = read_cluster(tmp_path / "c.toml")
    assert (cluster.origin, cluster.machines[0].count) == (None, 32)


def test_the_swf_header_tells_the_processors() -> None:
    """MaxProcs of the header comes back with the jobs."""
    model = SwfModel()
    lines = ["; MaxProcs: 100", "; MaxNodes: 7", KTH_LINE]
    assert import_swf(lines, model, np.random.default_rng(0))[1].processors == 100


def test_yarn_submissions_become_requests_and_bad_ones_are_reported() -> None:
    """Ids and queues stay, the origin is the day of the first arrival, a bad body is left out."""
    body = yarn_body(arrival=1893460000000, deadline=1893467200000)
    text = json.dumps([body, {"reservation-definition": {"arrival": 5}}])
    imported, origin = import_yarn([text], 60)
    assert origin.isoformat() == "2030-01-01T00:00:00+00:00"
    assert [(line["id"], line["queue"]) for line in imported.lines] == [("r_1", "dedicated")]
    assert imported.end_s == 86_400
    assert [skipped.line for skipped in imported.skipped] == [2]


def test_yarn_submissions_may_stand_one_a_line() -> None:
    """JSON Lines of bodies are read as a list of bodies is."""
    bodies = [yarn_body(arrival=1893456000000 + i, deadline=1893467200000) for i in range(3)]
    one = import_yarn([json.dumps(bodies)], 60)
    assert import_yarn([json.dumps(body) + "\n" for body in bodies], 60) == one


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"queue": "a", "queue": "b"}', "'queue' is given twice"),
        ('{"queue": "a"}\n\n{"queue": }', "line 3: not JSON: Expecting value"),
    ],
)
def test_yarn_text_without_one_meaning_is_reported(text: str, says: str) -> None:
    """Endless nesting, a key given twice and broken JSON are errors of the trace, with the line."""
    with pytest.raises(TraceError, match=says):
        import_yarn([text], 60)


def yarn_body(arrival: int, deadline: int) -> dict[str, Any]:
    """A submission with one stage."""
    stage = {
        "duration": 60_000,
        "num-containers": 4,
        "min-concurrency": 2,
        "capability": {"memory": 1024, "vCores": 1},
    }
    requests = {"reservation-request-interpreter": 1, "reservation-request": [stage]}
    definition = {"arrival": arrival, "deadline": deadline, "reservation-requests": requests}
    return {"queue": "dedicated", "reservation-id": "r_1", "reservation-definition": definition}


def test_a_trace_may_be_gzipped(tmp_path: Path) -> None:
    """Plain and gzipped files give the same lines."""
    (tmp_path / "a").write_text("x\ny\n")
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x\ny\n"))
    assert list(open_trace(str(tmp_path / "a"))) == list(open_trace(str(tmp_path / "a.gz")))


def test_a_file_that_is_not_text_says_so(tmp_path: Path) -> None:
    """Binary input is an error, not a crash."""
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="not text, plain or gzipped"):
        list(open_trace(str(tmp_path / "b")))


def test_the_cluster_written_alongside_a_workload_reaches_its_last_deadline(tmp_path: Path) -> None:
    """The cluster file is valid, has the machines asked for, and a horizon of whole steps."""
    imported = swf([KTH_LINE])
    path = tmp_path / "cluster.toml"
    path.write_text(cluster_toml(TraceMachines(100, 2, 3), imported, comment="test"))
    cluster = read_cluster(path)
    assert dict(cluster.nominal) == {"cpu": 200_000, "memory": 300 * 1024}
    assert (cluster.step_ms, cluster.horizon_ms) == (60_000, 81_000_000)


@pytest.mark.traces
@pytest.mark.parametrize(("machines", "load"), [(40, 0.43), (24, 0.7), (16, 1.07)])
def test_the_facebook_day_has_the_loads_its_model_states(
    traces: Path, machines: int, load: float
) -> None:
    """All 5,894 jobs become requests; work over core-seconds of the day is the load stated."""
    path = f"{traces}/swim/FB-2009_samples_24_times_1hr_0.tsv.gz"
    model = SwimModel(TraceMachines(machines, 32, 128))
    imported = import_swim(open_trace(path), model, np.random.default_rng(0))
    assert len(imported.lines) == 5894
    work = 0
    for index in range(len(imported.lines)):
        of = window(imported, index)["of"]
        for child in of.get("order", [of]):
            atom = child["atom"]
            work += atom["work"] // atom["lease"] * -(-atom["lease"] // 10) * 10
    assert work / (machines * 32 * 86_400) == pytest.approx(load, abs=0.02)


@pytest.mark.traces
def test_kth_is_read_whole(traces: Path) -> None:
    """All 20,000 jobs of the KTH log become gangs, none wider than its 100 processors."""
    path = f"{traces}/swf/KTH-SP2-first20000.swf.gz"
    imported, header = import_swf(open_trace(path), SwfModel(), np.random.default_rng(0))
    assert (len(imported.lines), header.processors) == (20_000, 100)
    atoms = [window(imported, index)["of"]["atom"] for index in range(20_000)]
    assert all(atom["min"] == atom["max"] <= 100 for atom in atoms)


def test_lines_are_compact_json_one_a_request() -> None:
    """What is written is read back as the same objects."""
    imported = swf([KTH_LINE, KTH_LINE.replace("   15 ", "   16 ")])
    text = "".join(to_json_lines(imported.lines))
    assert [json.loads(line) for line in text.splitlines()] == list(imported.lines)
