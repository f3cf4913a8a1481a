"""`agenda estimate`: tables, requests that `rdl check` accepts, the back-test, bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from service.cli.kit.errors import DONE, ERROR, STOPPED, USAGE
from service.cli.kit.progress import CommandProgress
from service.cli.kit.server import Server
from tests.service.cli.command_line import agenda, sacct


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A file of thirty nights."""
    path = tmp_path / "sacct.txt"
    path.write_text(sacct())
    return path


def test_a_nightly_job_becomes_a_request_that_rdl_check_accepts(
    history: Path, tmp_path: Path
) -> None:
    """The table says period and confidence, below it stands the request, and -o rdl is a file."""
    done = agenda("estimate", history, "--zone", "Europe/Paris")
    assert done.exit_code == DONE
    said, _, header, row = done.stdout.splitlines()[:4]
    assert said.startswith("takes: least and most at once")
    assert header.split()[:4] == ["job", "runs", "period", "begins"]
    assert row.split()[:5] == ["ada/etl", "30", "1d", "02:10", "0.90"]
    assert "left out: 1 with fewer than 3 runs" in done.stderr
    request = tmp_path / "etl.rdl"
    request.write_text(agenda("estimate", history, "-o", "rdl", "--zone", "Europe/Paris").stdout)
    assert request.read_text() in done.stdout
    checked = agenda("rdl", "check", request, "--origin", "2026-10-30T00:00:00Z", "--horizon", "7d")
    assert checked.exit_code == DONE, checked.output


def test_json_has_every_figure(history: Path) -> None:
    """Steps, parts, notes, the request as text and as JSON; memory is for each core."""
    done = agenda("estimate", history, "-o", "json", "--confidence", 0.5, "--back-test")
    document = json.loads(done.stdout)
    (job,) = document["jobs"]
    assert (job["job"], job["runs"], job["period_s"], job["begin"]) == (
        "ada/etl", 30, 86_400, "02:10",
    )  # fmt: skip
    assert job["container"] == {"cpu": 1, "memory": "4 GiB"}
    (part,) = job["parts"]
    assert part["days"] == "every"
    assert [step["containers"] for step in part["steps"]] == [8]
    assert sum(step["seconds"] for step in part["steps"]) == part["length_s"]
    assert "every" in job["rdl_json"]
    assert {name: one["runs"] for name, one in document["back_test"].items()} == {
        "prediction": 9, "maximum": 9, "mean": 9, "peak": 9,
    }  # fmt: skip


def test_the_back_test_is_a_table_of_rules(history: Path) -> None:
    """One row each under the requests; lengths repeat every five days, so the maximum fits all."""
    rows = agenda("estimate", history, "--back-test").stdout.splitlines()[-5:]
    assert [row.split()[0] for row in rows] == ["rule", "prediction", "maximum", "mean", "peak"]
    assert rows[2].split()[1:3] == ["9", "100.0"]


def test_too_few_runs_say_how_many_are_needed(tmp_path: Path) -> None:
    """Five nights for 0.95: the confidence they give, and the nineteen that it takes."""
    path = tmp_path / "sacct.txt"
    path.write_text(sacct(5))
    done = agenda("estimate", path, "--confidence", 0.95)
    assert "# 5 runs give a confidence of 0.83; 0.95 needs 19" in done.stdout


def test_a_confidence_that_no_number_of_runs_gives_says_so(history: Path) -> None:
    """More of the history would not help: the latest 60 runs count."""
    done = agenda("estimate", history, "--confidence", 0.99)
    assert (
        "# 30 runs give a confidence of 0.97; the latest 60 count, so 0.98 is the most that can be "
        "had\n"
    ) in done.stdout


def test_slack_gang_and_day_shape_the_request(history: Path) -> None:
    """No slack: the window is as long as the run; a gang has as many at least as at most."""
    done = agenda("estimate", history, "--slack", 0, "--gang", "--for", "2026-12-01", "-o", "json")
    every = json.loads(done.stdout)["jobs"][0]["rdl_json"]["every"]
    window = every["of"]["window"]
    atom = window["of"]["atom"]
    assert every["anchor"] == "2026-12-01T00:00:00Z"
    assert window["end"] - window["start"] == atom["lease"]
    assert (atom["min"], atom["max"]) == (8, 8)


def test_a_figure_shows_the_last_run_and_its_prediction(history: Path, tmp_path: Path) -> None:
    """One panel a job, in words of figure 13."""
    picture = tmp_path / "etl.svg"
    assert agenda("estimate", history, "--figure", picture).exit_code == DONE
    drawn = picture.read_text()
    assert all(word in drawn for word in ("ada/etl", "prediction", "normalized time"))


def test_keys_join_or_part_jobs(history: Path) -> None:
    """By exact name every night is a job of its own, and none has three runs."""
    done = agenda("estimate", history, "--key", "user,exact-name")
    assert done.exit_code == ERROR
    assert done.stderr == (
        "agenda: 31 jobs, and none has 3 runs that ended well; give more of the history, or tell "
        "jobs apart by less (--key)\n"
    )


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--job", "ada/elt"), ERROR, "agenda: there is no job 'ada/elt'; write ada/etl\n"),
        (("--job", "bob/adhoc"), ERROR,
         "agenda: bob/adhoc: 2 runs that ended well; at least 3 are needed\n"),
        (("--confidence", 1), USAGE, "1.0 is not in the range 0<x<1"),
        (("--zone", "Europe/Pari"), USAGE, "did you mean 'Europe/Paris'?"),
        (("--key", "usr"), USAGE, "there is no key 'usr'; write user"),
        (("--step", "500ms"), USAGE, "500ms"),
        (("--step", "1.5s"), USAGE, "1.5s is not a whole number of seconds"),
        (("--for", "tomorrow"), USAGE, "tomorrow is no day; write such as 2026-12-01"),
        (("--for", "9999-12-31"), USAGE, "9999-12-31 is not a day from 1970-01-01 to 2200-01-01"),
        (("--format", "swf"), ERROR, "line 1: 18 columns, not 1\n"),
        (("--figure", "x.txt"), ERROR, "x.txt"),
    ],
)  # fmt: skip
def test_bad_options_are_reported(
    history: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    """Where and what would be right; nothing on standard output."""
    done = agenda("estimate", history, *options)
    assert (done.exit_code, done.stdout) == (code, "")
    assert said in done.stderr


def test_histories_with_and_without_a_calendar_do_not_mix(history: Path, tmp_path: Path) -> None:
    """Seconds of a trace cannot be put alongside instants."""
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(
        "job_id,requested_number_of_resources,success,starting_time,execution_time\na,1,1,5,5\n"
    )
    done = agenda("estimate", history, jobs)
    assert done.exit_code == ERROR
    assert "one file has instants, another counts from the zero of a trace" in done.stderr


def test_a_run_in_two_files_counts_once(history: Path, tmp_path: Path) -> None:
    """Accounting of days that overlap."""
    more = tmp_path / "more.txt"
    more.write_text(sacct(35))
    row = agenda("estimate", history, more).stdout.splitlines()[3]
    assert row.split()[:3] == ["ada/etl", "35", "1d"]


def test_jobs_of_a_simulation_are_estimated(tmp_path: Path) -> None:
    """What `python -m bench.papers --jobs` writes is read back, without a calendar."""
    jobs = tmp_path / "jobs.csv"
    lines = [f"grep-{place},2,1,{3600 * place},600\n" for place in range(12)]
    jobs.write_text(
        "job_id,requested_number_of_resources,success,starting_time,execution_time\n"
        + "".join(lines)
    )
    done = agenda("estimate", jobs)
    assert done.exit_code == DONE
    assert "every(1h, window(" in done.stdout
    assert "anchor" not in done.stdout


def test_without_files_a_server_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its completed applications are the runs."""
    asked: list[tuple[str, Any]] = []

    def listed(self: Server, path: str, key: str, query: Any, limit: Any = None) -> Any:
        asked.append((path, query))
        return [
            {
                "id": f"a-{day}", "tenant": "ml", "queue": "default", "state": "completed",
                "submitted": 0.0, "submitted_at": "2026-10-01T00:00:00Z",
                "started": 86_400.0 * day, "ended": 86_400.0 * day + 600,
                "application": {"name": f"train-{day}", "components": [
                    {"name": "worker", "count": 4, "core": True, "resources": {"gpu": 1}}]},
            }
            for day in range(10)
        ]  # fmt: skip

    monkeypatch.setattr(Server, "list_all", listed)
    done = agenda("estimate")
    assert done.exit_code == DONE, done.output
    assert asked == [("/v1/applications", {"state": "completed"})]
    assert done.stdout.splitlines()[3].split()[:3] == ["ml/train", "10", "1d"]
    assert "atom(<1 gpu>, 1, 4, 1m, 40m)" in done.stdout


def test_an_interrupt_keeps_what_is_done(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped before the first job nothing is printed; the exit code says so."""
    monkeypatch.setattr(CommandProgress, "stop", lambda self: True)
    done = agenda("estimate", history)
    assert (done.exit_code, done.stdout) == (STOPPED, "")
    assert "stopped after 0 of 1 jobs" in done.stderr
