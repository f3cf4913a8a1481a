"""A data engineer's day with a nightly pipeline, by the real command line and a real server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import Result

import agenda as client_library
from service.cli.kit.errors import DONE, REFUSED
from tests.end_to_end.server_process import serving
from tests.patience import eventually
from tests.service.cli.command_line import agenda
from tests.zones import evening_zone

#: Of the cluster and of the nightly request.
ZONE: Final = evening_zone()

CLUSTER = f"""
zone = "{ZONE}"
step = "1m"
horizon = "14d"

[[machines]]
name = "plain"
count = 10
resources = {{ cpu = 16, memory = "64 GiB" }}

[[machines]]
name = "gpu"
count = 2
resources = {{ cpu = 16, memory = "64 GiB", gpu = 4 }}
"""

NIGHTLY = f"""\
# what the newspaper needs every morning
every(1d,
  window(
    order(
      extract: atom(<1 cpu, 2 GiB memory>, min=1, max=100, tasks=100, each=5m),
      publish: atom(<2 cpu>, min=1, max=1, lease=30m, work=30m)
    ), 00:00, 06:00),
  days=[mon..fri], zone="{ZONE}", times=5)
"""

#: A time as sentences say it where the cluster is.
TIME = r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d \d\d:\d\d \(" + re.escape(ZONE) + r"\)"

SOON = "window(atom(<1 cpu>, 1, 1, 10m, 10m), +1h, +2h)"

TRAINING = "window(train: atom(<4 cpu, 1 gpu>, min=8, max=8, lease=2h, work=16h), +0, +{hours}h)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hold the files of the day."""
    found = tmp_path_factory.mktemp("engineer")
    (found / "cluster.toml").write_text(CLUSTER)
    (found / "nightly.rdl").write_text(NIGHTLY)
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """Serve the cluster, with an executor for one of its machines."""
    database, cluster = folder / "agenda.db", folder / "cluster.toml"
    with serving(database, cluster, executors=True, lease_s=60.0, agent="gree-l") as running:
        url = f"http://127.0.0.1:{running.port}"
        command = [
            sys.executable, "-m", "service.cli.main", "executor", "--server", url,
            "--machine", "plain-0", "--state", str(folder / "executor"), "--every", "0.2",
        ]  # fmt: skip
        with (folder / "executor.log").open("w") as log:
            worker = subprocess.Popen(command, stderr=log)
        try:
            yield url
        finally:
            worker.terminate()
            worker.wait()


def done(*arguments: object, code: int = DONE) -> str:
    """Run a command that ends as expected; return what it printed."""
    found: Result = agenda(*arguments)
    assert found.exit_code == code, found.output
    return found.output


def submitted(server: str, folder: Path, id_: str, rdl: str, code: int = DONE) -> str:
    """Submit a request from a file."""
    path = folder / f"{id_}.rdl"
    path.write_text(rdl)
    return done("submit", path, "--id", id_, "--tenant", "news", "--server", server, code=code)


def refused_training(server: str, folder: Path) -> str:
    """Ask for a training that another one leaves no free capacity for; return the refusal.

    Here and below a request that is there already is answered as before, so that each test may
    come first.
    """
    submitted(server, folder, "train-1", TRAINING.format(hours=3))
    return submitted(server, folder, "train-2", TRAINING.format(hours=4), code=REFUSED)


def begun_now(server: str, folder: Path) -> None:
    """Ask for something at once, and wait until it has begun."""
    submitted(server, folder, "now", "window(atom(<1 cpu>, 1, 1, 10m, 10m), +0, +11m)")
    done("reservations", "wait", "now", "--until", "begun", "--timeout", "3m", "--server", server)


def entry(server: str, id_: str) -> dict[str, Any]:
    """Return a reservation as the server has it."""
    found: dict[str, Any] = json.loads(
        done("reservations", "show", id_, "-o", "json", "--server", server)
    )
    return found


def test_times_of_day_weekdays_tasks_and_names_are_the_language(folder: Path) -> None:
    """By 06:00, on weekdays, a hundred tasks of five minutes: written as it is said.

    And a check of the file alone says how often, when first, how long, how much, in that zone.
    """
    said = done("rdl", "check", folder / "nightly.rdl")
    assert "5" in said
    assert "mon" in said.lower()
    assert "06:00" in said
    assert ZONE in said
    assert "extract" in said
    assert "publish" in said
    assert "0.0" not in said.replace("0.0.", "")


def test_a_unit_that_may_be_two_things_is_asked_about(folder: Path) -> None:
    """`500m` of work is 500 minutes, and half a core's unit elsewhere: the check asks."""
    path = folder / "units.rdl"
    path.write_text("window(atom(<500m cpu>, 1, 10, 5m, 500m), +0, +10h)")
    assert re.search(r"500m|minutes|core", done("rdl", "check", path))


def test_a_plan_offline_says_when(folder: Path) -> None:
    """The request in its file, on the cluster's file, without a server: from when to when."""
    path = folder / "tonight.rdl"
    path.write_text(TRAINING.format(hours=5))
    said = done("plan", folder / "cluster.toml", path)
    assert re.search(r"^tonight +default +3h +5h$", said, re.MULTILINE), said
    offered = done("offers", path, "--cluster", folder / "cluster.toml")
    assert "accepted" in offered


def test_a_request_is_posted_and_read_back(server: str, folder: Path) -> None:
    """The answer names its parts and its times, by the clock of their zone."""
    submitted(server, folder, "nightly", NIGHTLY)
    said = done("reservations", "show", "nightly", "--server", server)
    assert "extract@0" in said
    assert "publish@0" in said
    assert f"times in {ZONE}" in said
    dates = [row for atom in entry(server, "nightly")["atoms"] for row in atom["allocation_at"]]
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", date) for row in dates for date in row)


def test_when_it_starts_is_in_the_answer(server: str, folder: Path) -> None:
    """Instants are shown next to seconds: no origin is needed to read them."""
    submitted(server, folder, "soon", SOON)
    found = entry(server, "soon")
    assert re.match(r"\d{4}-\d\d-\d\dT", found["begin_at"])
    assert re.match(r"\d{4}-\d\d-\d\dT", found["finish_at"])


def test_a_refusal_names_part_resource_and_holders(server: str, folder: Path) -> None:
    """What is needed, how long it is free and until when, and who holds it: in one sentence."""
    said = refused_training(server, folder)
    assert re.search(
        r"train needs 8 gpu for 2h without a break; the longest free stretch is \S+, until "
        rf"{TIME}, for lack of gpu; held by news \(1 reservation\)", " ".join(said.split())
    ), said  # fmt: skip
    url = f"{server}/v1/reservations/train-2/explanation"
    with urllib.request.urlopen(url, timeout=300) as answer:
        holders = json.loads(answer.read())["holders"]
    assert any(one["tenant"] == "news" for one in holders)


def test_a_part_without_a_name_is_called_by_what_it_needs(server: str, folder: Path) -> None:
    """No answer says a path: neither the refusal nor the table of a reservation."""
    gang = "atom(<4 cpu, 1 gpu>, {0}, {0}, 1h, {0}h)"
    text = f"window(all({gang.format(1)}, {gang.format(9)}), +0, +3h)"
    refused = submitted(server, folder, "pair", text, code=REFUSED)
    assert "9 x <4 cpu, 1 gpu, 16 GiB memory> for 1h (second of all)" in " ".join(refused.split())


def test_offers_are_dates_and_read_the_same_each_time(server: str, folder: Path) -> None:
    """Asked twice, a refused request has one offer in the same words, in its zone."""
    refused_training(server, folder)
    first, second = (done("offers", "--id", "train-2", "--server", server) for _ in range(2))
    assert first == second
    assert re.search(rf"it would fit if the deadline were {TIME}", " ".join(first.split())), first


def test_an_offer_is_taken(server: str, folder: Path) -> None:
    """By its number; the reservation takes the place of the refusal."""
    refused_training(server, folder)
    done("offers", "--id", "train-2", "--take", "1", "--server", server)
    assert entry(server, "train-2")["state"] == "accepted"


def test_a_request_is_changed(server: str, folder: Path) -> None:
    """One command, with the file that was submitted, edited."""
    submitted(server, folder, "soon", SOON)
    path = folder / "soon.rdl"
    path.write_text("window(atom(<1 cpu>, 1, 1, 20m, 20m), +1h, +3h)")
    done("reservations", "update", "soon", path, "--server", server)
    assert entry(server, "soon")["revision"] == 2


def test_a_retry_does_no_harm(server: str, folder: Path) -> None:
    """The same file under the same id or key is one reservation, and exit code 0."""
    rdl = "window(atom(<1 cpu>, 1, 1, 10m, 10m), +1h, +2h)"
    submitted(server, folder, "again", rdl)
    submitted(server, folder, "again", rdl)
    path, options = folder / "again.rdl", ("--key", "run-7", "--server", server, "-o", "json")
    ids = {json.loads(done("submit", path, *options))["id"] for _ in range(2)}
    assert len(ids) == 1


def test_it_is_waited_for_and_watched(server: str, folder: Path) -> None:
    """A shell may wait until it has begun, and read what happened to it."""
    begun_now(server, folder)
    said = done("reservations", "watch", "now", "--after", "0", "--wait", "1s", "--server", server)
    assert "accepted" in said


def test_python_asks_and_follows(server: str) -> None:
    """The client library: submit, get, list, cancel."""
    mine = client_library.Client(server)
    made = mine.submit("window(atom(<1 cpu>, 1, 1, 10m, 10m), +1h, +2h)", id="py", tenant="news")
    assert mine.get("py").begin == made.begin
    assert "py" in [one.id for one in mine.list(client_library.ListFilter(tenant="news"))]
    assert mine.cancel("py").state == "cancelled"


def test_a_workload_file_is_posted_as_a_batch(server: str, folder: Path) -> None:
    """The lines that `plan` takes offline are what the command posts, and what curl does."""
    path = folder / "two.jsonl"
    rdl = "window(atom(<1 cpu>, 1, 1, 10m, 10m), +1h, +2h)"
    lines = [{"id": f"line-{number}", "tenant": "news", "rdl": rdl} for number in range(2)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done("submit", path, "--server", server)
    call = urllib.request.Request(
        f"{server}/v1/reservations:batch", path.read_bytes(),
        {"Content-Type": "application/x-ndjson"},
    )  # fmt: skip
    with urllib.request.urlopen(call, timeout=300) as answer:
        results = json.loads(answer.read())["results"]
    assert [one["status"] for one in results] == [200, 200]


def test_the_description_has_bodies_and_examples(server: str) -> None:
    """Every call has a summary, and what is sent has an example that one can copy."""
    with urllib.request.urlopen(f"{server}/openapi.json", timeout=300) as answer:
        description = json.loads(answer.read())
    assert description["info"]["description"]
    posts = [calls["post"] for calls in description["paths"].values() if "post" in calls]
    bodies = [one["requestBody"]["content"] for one in posts if "requestBody" in one]
    kinds = [kind for body in bodies for kind in body.values()]
    assert all("schema" in kind for kind in kinds)
    with urllib.request.urlopen(f"{server}/docs", timeout=300) as answer:
        page = answer.read().decode()
    assert "/v1/reservations" in page


def test_the_command_of_the_pipeline_really_runs(server: str, folder: Path) -> None:
    """An application under the reservation is a process on a machine that an executor plays."""
    begun_now(server, folder)
    path = folder / "job.toml"
    path.write_text(
        'name = "job"\nreservation = "now"\n[[components]]\nname = "step"\ncount = 1\ncore = true\n'
        f'resources = {{ cpu = 1 }}\ncommand = "echo ran > {folder}/ran"\n'
    )
    done("apps", "submit", path, "--id", "job", "--tenant", "news", "--server", server)
    assert eventually((folder / "ran").exists)


def test_it_is_given_up(server: str, folder: Path) -> None:
    """The future is free again, the past is kept."""
    submitted(server, folder, "nightly", NIGHTLY)
    done("reservations", "cancel", "nightly", "--server", server)
    assert entry(server, "nightly")["state"] == "cancelled"
