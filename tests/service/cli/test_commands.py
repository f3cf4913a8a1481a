"""Commands on files: what they print, write and exit with."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.cli.kit.errors import DIFFER, DONE, ERROR, REFUSED, USAGE
from service.cli.kit.progress import running
from tests.service.cli.command_line import SECONDS, agenda, write_day

ORDER = "window(order(atom(<1 cpu>,1,10,240,2400), atom(<1 cpu>,1,20,120,2400)),0,800)"
TOO_WIDE = "window(atom(<1 cpu>,100,100,800,80000),0,800)"
MALFORMED = "window(order(atom(<1 cpu>,5,2,240,2400)),0,800)"


@pytest.fixture
def day(tmp_path: Path) -> tuple[Path, Path]:
    """The cluster and request of files.md, one that then has no capacity, and a malformed one."""
    lines = [
        {"id": "r1", "tenant": "ads", "submitted": 0, "rdl": ORDER},
        {"id": "r2", "tenant": "ml", "submitted": 0, "rdl": TOO_WIDE},
        {"id": "r3", "tenant": "ml", "submitted": 0, "rdl": MALFORMED},
    ]
    return write_day(tmp_path, SECONDS, lines)


def test_plan_writes_the_plan_of_files_md(day: tuple[Path, Path], tmp_path: Path) -> None:
    """GREE puts r1 where the format's page says, and refusals stand with their codes."""
    out = tmp_path / "plan.json"
    done = agenda("plan", *day, "--agent", "gree", "--out", out)
    assert done.exit_code == DONE, done.output
    plan = json.loads(out.read_text())
    atoms = plan["reservations"][0]["atoms"]
    assert [atom["allocation"] for atom in atoms] == [[[440, 680, 10]], [[680, 800, 20]]]
    assert [refusal["code"] for refusal in plan["refusals"]] == ["capacity", "malformed"]
    assert agenda("validate", out).exit_code == DONE


def test_plan_prints_one_answer_in_three_forms(day: tuple[Path, Path]) -> None:
    """The table names refusals by code, JSON is the Plan itself, CSV one row a request."""
    table = agenda("plan", *day, "-o", "table").stdout
    assert "headroom" in table
    assert "2 refused: 1 capacity, 1 malformed\n\nr2 (ml): capacity\n  the request needs" in table
    assert max(len(line) for line in table.split("refused:")[0].splitlines()) <= 80
    assert json.loads(agenda("plan", *day, "-o", "json").stdout)["metrics"]["requests"] == 3
    rows = list(csv.DictReader(io.StringIO(agenda("plan", *day, "-o", "csv").stdout)))
    assert [(row["id"], row["state"], row["code"]) for row in rows] == [
        ("r1", "accepted", ""),
        ("r2", "refused", "capacity"),
        ("r3", "refused", "malformed"),
    ]


def test_two_runs_differ_in_runtime_alone(day: tuple[Path, Path]) -> None:
    """The same files and seed give the same Plan."""
    plans = [json.loads(agenda("plan", *day, "-o", "json").stdout) for _ in range(2)]
    for plan in plans:
        plan["metrics"].pop("runtime_ms")
    assert plans[0] == plans[1]


def test_refusals_exit_with_3_only_when_strict(day: tuple[Path, Path]) -> None:
    """A valid Plan is success whatever it refuses, unless nothing may be refused."""
    assert agenda("plan", *day).exit_code == DONE
    assert agenda("plan", *day, "--strict").exit_code == REFUSED


def test_a_bad_line_is_reported_with_its_number_and_loses_nothing_else(
    day: tuple[Path, Path],
) -> None:
    """What is not a request is reported on standard error; the other lines are planned."""
    day[1].write_text(day[1].read_text() + '{"id": "r4", "rld": "x"}\n')
    done = agenda("plan", *day, "-o", "json")
    assert "line 4" in done.stderr
    assert json.loads(done.stdout)["metrics"]["requests"] == 3


def test_a_workload_without_a_request_is_an_error(day: tuple[Path, Path]) -> None:
    """An empty workload is a plan of nothing; a file of something else is not a workload."""
    day[1].write_text("")
    assert agenda("plan", *day).exit_code == DONE
    day[1].write_bytes(b"\x89PNG\n\x1a\n")
    done = agenda("plan", *day)
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert "none of its lines is a request" in done.stderr


def test_a_missing_folder_is_reported_before_planning(
    day: tuple[Path, Path], tmp_path: Path
) -> None:
    """Where the answer cannot be written, nothing is planned."""
    for option in ("--out", "--picture"):
        done = agenda("plan", *day, option, tmp_path / "nowhere" / "x.svg")
        assert done.exit_code == USAGE
        assert "there is no folder" in done.stderr


def test_a_cluster_without_machines_is_planned_drawn_and_valid(
    day: tuple[Path, Path], tmp_path: Path
) -> None:
    """Everything is refused, and the picture and the validator have nothing to divide by."""
    day[0].write_text(SECONDS.replace("count = 100", "count = 0"))
    out, picture = tmp_path / "p.json", tmp_path / "p.svg"
    assert agenda("plan", *day, "--out", out, "--picture", picture).exit_code == DONE
    assert "<svg" in picture.read_text()
    assert agenda("validate", out).exit_code == DONE


def test_a_table_shows_the_first_line_of_a_reason(day: tuple[Path, Path]) -> None:
    """The source and its caret do not fit a cell."""
    shown = agenda("plan", *day).stdout
    assert "column" in shown
    assert "^" not in shown


def test_runtime_is_the_agents_own(day: tuple[Path, Path]) -> None:
    """Loading compiled code is not counted, so the first agent compared is no slower than the next.

    Loops are loaded once a process; a fresh one shows it. Planning two requests takes milliseconds,
    loading about half a second. Of several runs one is not kept waiting by a busy machine.
    """
    code = "import sys; from service.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "plan", *map(str, day), "-o", "json"]

    def runtime_ms() -> float:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(json.loads(done.stdout)["metrics"]["runtime_ms"])

    assert any(runtime_ms() < 200 for _ in range(5))


def test_pictures_are_written_alongside_the_plan(day: tuple[Path, Path], tmp_path: Path) -> None:
    """--picture may be given twice; a wrong suffix is an error before planning."""
    svg, png = tmp_path / "a.svg", tmp_path / "a.png"
    assert agenda("plan", *day, "--picture", svg, "--picture", png).exit_code == DONE
    assert "refused  2" in svg.read_text()
    assert png.read_bytes().startswith(b"\x89PNG")
    wrong = agenda("plan", *day, "--picture", tmp_path / "a.gif")
    assert (wrong.exit_code, wrong.stdout) == (ERROR, "")
    assert "ends in .svg or .png" in wrong.stderr


def test_validate_tells_the_first_violation(day: tuple[Path, Path], tmp_path: Path) -> None:
    """A Plan that over-commits exits with 1 and says where; JSON lists every violation."""
    out = tmp_path / "plan.json"
    agenda("plan", *day, "--out", out)
    plan = json.loads(out.read_text())
    plan["reservations"][0]["atoms"][0]["allocation"][0][2] += 1000
    out.write_text(json.dumps(plan))
    done = agenda("validate", out)
    assert done.exit_code == ERROR
    assert done.stdout.startswith(f"{out}: ")
    listed = json.loads(agenda("validate", out, "-o", "json").stdout)
    assert "capacity" in {violation["rule"] for violation in listed["violations"]}


def test_validate_reads_a_workload_as_plan_does(day: tuple[Path, Path], tmp_path: Path) -> None:
    """Submissions as instants count from the plan's origin; lines left out were not asked."""
    day[0].write_text('origin = "2026-01-05T00:00:00Z"\n' + SECONDS)
    line = {"id": "r9", "rdl": ORDER, "submitted": "2026-01-05T00:00:00Z"}
    day[1].write_text(json.dumps(line) + "\nnot a line\n")
    out = tmp_path / "plan.json"
    assert agenda("plan", *day, "--out", out).exit_code == DONE
    done = agenda("validate", out, "--workload", day[1])
    assert done.exit_code == DONE, done.output
    assert "line 2" in done.stderr


def test_validate_holds_a_plan_to_what_was_asked(day: tuple[Path, Path], tmp_path: Path) -> None:
    """With the workload, a request that neither list knows is a violation."""
    out = tmp_path / "plan.json"
    agenda("plan", *day, "--out", out)
    assert agenda("validate", out, "--workload", day[1]).exit_code == DONE
    more = {"id": "r9", "rdl": ORDER}
    day[1].write_text(day[1].read_text() + json.dumps(more) + "\n")
    done = agenda("validate", out, "--workload", day[1])
    assert done.exit_code == ERROR
    assert "r9" in done.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [("tenant", "other"), ("weight", 2.0), ("priority", 7), ("submitted", 1), ("queue", "q")],
)
def test_validate_finds_an_answer_to_another_request(
    day: tuple[Path, Path], tmp_path: Path, name: str, value: object
) -> None:
    """Who asks and what it counts are part of what was asked, of what was refused too."""
    out = tmp_path / "plan.json"
    agenda("plan", *day, "--out", out)
    plan = json.loads(out.read_text())
    plan["refusals"][0][name] = value
    out.write_text(json.dumps(plan))
    (found,) = json.loads(agenda("validate", out, "--workload", day[1], "-o", "json").stdout)[
        "violations"
    ]
    assert (found["where"], found["rule"]) == (f"/refusals/0/{name}", "asked")


def test_validate_finds_a_promise_kept_with_a_later_deadline(
    day: tuple[Path, Path], tmp_path: Path
) -> None:
    """The expression is the one that was asked: a looser one would make any plan valid."""
    out = tmp_path / "plan.json"
    agenda("plan", *day, "--out", out)
    plan = json.loads(out.read_text())
    held = plan["reservations"][0]
    asked = held["expression"]
    held["expression"] = asked.replace("800)", "799)")
    assert held["expression"] != asked
    out.write_text(json.dumps(plan))
    listed = json.loads(agenda("validate", out, "--workload", day[1], "-o", "json").stdout)
    assert "/reservations/0/expression" in {one["where"] for one in listed["violations"]}
    held |= {"expression": asked, "tenant": "nobody"}
    out.write_text(json.dumps(plan))
    listed = json.loads(agenda("validate", out, "--workload", day[1], "-o", "json").stdout)
    assert [one["where"] for one in listed["violations"]] == ["/reservations/0/tenant"]


@pytest.mark.parametrize("text", ["{", "[]", "\xff"])
def test_validate_of_what_is_no_plan_is_an_error(tmp_path: Path, text: str) -> None:
    """Broken JSON and other values are reported, not raised."""
    path = tmp_path / "plan.json"
    path.write_bytes(text.encode("latin-1"))
    done = agenda("validate", path)
    assert done.exit_code == ERROR
    assert done.stderr.startswith("agenda: ")


def test_compare_sets_agents_side_by_side(day: tuple[Path, Path], tmp_path: Path) -> None:
    """The table, JSON and page have both agents, absolute and relative to gree."""
    page = tmp_path / "report.html"
    done = agenda("compare", *day, "--agents", "gree-l,gree", "--html", page)
    assert done.exit_code == DONE, done.output
    tables, _, reasons = done.stdout.partition("leaves out")
    assert "times the figure of gree" in tables
    assert max(len(line) for line in tables.splitlines()) <= 80
    assert "r2 (ml)\n  gree-l: capacity: the request needs at least 100 cpu at once" in reasons
    assert "r3 (ml)\n  gree-l, gree: malformed: line 1, column 14" in reasons
    compared = json.loads(agenda("compare", *day, "--agents", "gree-l,gree", "-o", "json").stdout)
    assert [run["agent"] for run in compared["agents"]] == ["gree-l", "gree"]
    assert compared["baseline"] == "gree"
    for run in compared["agents"]:
        assert [(one["id"], one["code"]) for one in run["left_out"]] == [
            ("r2", "capacity"),
            ("r3", "malformed"),
        ]
    told = page.read_text()
    assert told.count("<svg") == 2
    assert "gree-l leaves out 2 requests: 1 capacity, 1 malformed" in told
    assert "capacity: the request needs at least 100 cpu at once" in told


def test_unknown_agents_are_usage_errors(day: tuple[Path, Path]) -> None:
    """A name that no agent has exits with 2 and names the nearest."""
    done = agenda("plan", *day, "--agent", "gre-l")
    assert done.exit_code == USAGE
    assert "write gree-l" in done.stderr
    assert agenda("compare", *day, "--agents", "gree,gree").exit_code == USAGE


def test_plan_diff_says_who_moved(day: tuple[Path, Path], tmp_path: Path) -> None:
    """Two agents' Plans of one day differ in r1 alone; a Plan does not differ from itself."""
    plans = [tmp_path / f"{agent}.json" for agent in ("gree", "earliest")]
    for plan in plans:
        agenda("plan", *day, "--agent", plan.stem, "--out", plan)
    difference = json.loads(agenda("plan-diff", *plans, "-o", "json").stdout)
    assert [(one["id"], one["fate"]) for one in difference["requests"]] == [("r1", "moved")]
    assert "3 the same" in agenda("plan-diff", plans[0], plans[0]).stdout


def test_rdl_check_prints_canonical_text_and_notes(tmp_path: Path) -> None:
    """Text and JSON of a request give the same canonical text; the grid's rounding is noted."""
    text, value = tmp_path / "a.rdl", tmp_path / "a.json"
    text.write_text(ORDER.replace("240,2400", "90,2700"))
    done = agenda("rdl", "check", text)
    assert done.exit_code == DONE
    assert (
        "note: 1 to 10 x <1 cpu> for 45m of work (first of order): lease 90s -> 2 steps"
        in done.stdout
    )
    checked = json.loads(agenda("rdl", "check", text, "-o", "json").stdout)
    value.write_text(json.dumps(checked["json"]))
    assert json.loads(agenda("rdl", "check", value, "-o", "json").stdout) == checked


def test_rdl_check_says_what_a_request_means(tmp_path: Path) -> None:
    """How often, when in its own zone, how long, how much; and it asks about 500 minutes."""
    path = tmp_path / "a.rdl"
    path.write_text(
        "every(1d, window(atom(<1 cpu>, tasks=10, each=100m), 00:00, 06:00), days=[sat, sun], "
        'times=2, zone="Europe/Berlin")'
    )
    done = agenda("rdl", "check", path, "--origin", "2026-06-01T00:00:00Z")
    assert done.exit_code == DONE
    assert done.stdout.splitlines()[1:7] == [
        "runs    every day, on sat..sun, by the calendar of Europe/Berlin, 2 runs",
        "first   between Sat 2026-06-06 00:00 and Sat 2026-06-06 06:00 (Europe/Berlin)",
        "last    between Sun 2026-06-07 00:00 and Sun 2026-06-07 06:00 (Europe/Berlin)",
        "time    at least 1h40m a run, within 6h",
        "work    16.67 cpu-hours a run",
        "at once 1 cpu to 10 cpu",
    ]
    assert "question: line 1, column 47: 100m means 100 minutes here; write 1h40m" in done.stdout
    checked = agenda("rdl", "check", path, "--origin", "2026-06-01T00:00:00Z", "-o", "json").stdout
    assert json.loads(checked)["meaning"]["first"]["start_at"] == "2026-06-06T00:00:00+02:00"


def test_rdl_format_lays_text_out_and_keeps_comments(tmp_path: Path) -> None:
    """It prints, or writes, or only says that a file would change."""
    path = tmp_path / "a.rdl"
    path.write_text("# nightly\natom(<1 cpu>,1,1,\n  10, 10)")
    laid = "# nightly\natom(<1 cpu>, 1, 1, 10, 10)\n"
    assert agenda("rdl", "format", path).stdout == laid
    assert agenda("rdl", "format", "--check", path).exit_code == DIFFER
    assert agenda("rdl", "format", "--write", path).exit_code == DONE
    assert path.read_text() == laid
    assert agenda("rdl", "format", "--check", path).exit_code == DONE
    path.write_text(MALFORMED.replace(")", ""))
    assert agenda("rdl", "format", path).exit_code == ERROR


def test_rdl_schema_is_a_json_schema() -> None:
    """It names every operator."""
    schema = json.loads(agenda("rdl", "schema").stdout)
    assert {"atom", "deadline", "graph"} <= set(schema["$defs"])


def test_a_plan_and_a_refusal_say_names(tmp_path: Path, day: tuple[Path, Path]) -> None:
    """Atoms carry what the request calls them, and a refusal speaks of the stage."""
    lines = [
        {
            "id": "a",
            "submitted": 0,
            "rdl": "order(fetch: atom(<1 cpu>,1,1,10,10), atom(<1 cpu>,1,1,10,10))",
        },
        {
            "id": "b",
            "submitted": 0,
            "rdl": f"all(train: {TOO_WIDE}, check: atom(<1 cpu>,1,1,10,10))",
        },
    ]
    workload, out = tmp_path / "w.jsonl", tmp_path / "plan.json"
    workload.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    done = agenda("plan", day[0], workload, "--out", out)
    assert done.exit_code == DONE
    document = json.loads(out.read_text())
    names = [atom.get("name") for atom in document["reservations"][0]["atoms"]]
    assert names == ["fetch", "1 x <1 cpu> for 10s (second of order)"]
    assert document["refusals"][0]["detail"].startswith("train needs at least 100 cpu at once")
    assert document["refusals"][0]["binding"]["name"] == "train"
    assert agenda("validate", out).exit_code == DONE


def test_rdl_check_tells_every_problem_with_a_caret(tmp_path: Path) -> None:
    """Problems go to standard error with line and caret, exit code 1, nothing on output."""
    path = tmp_path / "a.rdl"
    path.write_text(MALFORMED)
    done = agenda("rdl", "check", path)
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert done.stderr == (
        f"{path}: 1 problem\n"
        "line 1, column 14: min 5 is more than max 2; write max=5 or more\n"
        f"    {MALFORMED}\n"
        f"    {' ' * 13}{'^' * 26}\n"
    )
    assert json.loads(agenda("rdl", "check", path, "-o", "json").stdout)["code"] == "malformed"


def test_rdl_check_against_a_cluster_knows_its_machines(day: tuple[Path, Path]) -> None:
    """A bundle that no machine holds is found without a Plan."""
    path = day[0].parent / "big.rdl"
    path.write_text("atom(<2 cpu>,1,1,10,10)")
    assert agenda("rdl", "check", path).exit_code == DONE
    assert agenda("rdl", "check", path, "--cluster", day[0]).exit_code == ERROR


def test_import_to_plan_to_validate(tmp_path: Path) -> None:
    """A trace becomes a workload and a cluster that plan and validate as they are."""
    trace = tmp_path / "trace.tsv"
    trace.write_text("".join(f"j{i}\t{i * 7}\t7\t{i * 10**8}\t{i * 10**7}\t0\n" for i in range(30)))
    out, cluster, plan = (tmp_path / name for name in ("w.jsonl", "c.toml", "p.json"))
    done = agenda("import", "swim", trace, "--out", out, "--cluster-out", cluster)
    assert (done.exit_code, done.stdout) == (DONE, "")
    assert agenda("import", "swim", trace).stdout == out.read_text()
    assert agenda("plan", cluster, out, "--out", plan, "--strict").exit_code == DONE
    assert agenda("validate", plan, "--workload", out).exit_code == DONE


def test_yarn_import_plans_on_the_cluster_it_writes(tmp_path: Path) -> None:
    """Absolute times meet the origin of the cluster written alongside them."""
    stage: dict[str, Any] = {"duration": 60_000, "num-containers": 4, "min-concurrency": 2}
    stage["capability"] = {"memory": 1024, "vCores": 1}
    requests = {"reservation-request-interpreter": 1, "reservation-request": [stage]}
    definition = {"arrival": 1893460000000, "deadline": 1893467200000}
    body = {
        "queue": "q",
        "reservation-definition": {**definition, "reservation-requests": requests},
    }
    source, out, cluster = (tmp_path / name for name in ("y.json", "w.jsonl", "c.toml"))
    source.write_text(json.dumps(body))
    arguments = ("--out", out, "--cluster-out", cluster, "--machines", 2)
    assert agenda("import", "yarn", source, *arguments).exit_code == DONE
    done = agenda("plan", cluster, out, "--strict", "-o", "json")
    assert done.exit_code == DONE, done.output


def test_the_first_interrupt_asks_and_the_second_ends() -> None:
    """^C during long work keeps the best so far; again, it gives up."""
    before = signal.getsignal(signal.SIGINT)
    with running("testing") as run:
        assert not run.stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert run.stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
