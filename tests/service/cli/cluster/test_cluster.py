"""`agenda cluster check|show|what-if` and `agenda usage`: what there is, and who holds it."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from werkzeug.serving import make_server

from service.cli.kit.errors import DONE, ERROR, USAGE
from service.cli.usage import held_work
from tests.service.applying import an_application, submit_one
from tests.service.cli.command_line import agenda
from tests.service.conftest import CLUSTER, Service

GANG = "window(atom(<1 cpu, 2 GiB memory>, 5, 5, 2h, 10h), +1h, +3h)"


@pytest.fixture
def address(still: Service) -> Iterator[str]:
    """Serve ten one-core machines on a free port; return the URL."""
    serving = make_server("127.0.0.1", 0, still.app, threaded=True)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()


def client(address: str, *words: object) -> Result:
    """Run a command of a client."""
    return agenda(*words, "--server", address)


def test_check_says_what_a_file_holds(cluster_file: Path) -> None:
    """How many machines with what, in which steps; a row a group."""
    cluster_file.write_text(CLUSTER + '\n[[queues]]\nname = "b"\n')
    done = agenda("cluster", "check", cluster_file)
    assert done.exit_code == DONE, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "10 machines: 10 cpu, 40 GiB; planned in steps of 1m, 4h ahead"
    assert lines[3].split() == ["plain", "10", "1", "cpu,", "4", "GiB", "–"]
    assert "queues    b" in lines
    assert max(map(len, lines)) <= 80


def test_check_tells_every_problem(cluster_file: Path) -> None:
    """Two faults are reported at once, and nothing is printed."""
    cluster_file.write_text(CLUSTER.replace("count", "cuont").replace("step", "stpe"))
    done = agenda("cluster", "check", cluster_file)
    assert (done.exit_code, done.stdout) == (ERROR, "")
    assert "cuont" in done.stderr
    assert "stpe" in done.stderr


def test_a_shown_cluster_is_a_file_to_plan_on(address: str, tmp_path: Path) -> None:
    """What `cluster show -o json` prints, `plan` and `cluster check` read."""
    shown = client(address, "cluster", "show", "-o", "json")
    assert shown.exit_code == DONE, shown.output
    file, job = tmp_path / "cluster.json", tmp_path / "job.rdl"
    file.write_text(shown.stdout)
    job.write_text(GANG)
    assert agenda("cluster", "check", file).exit_code == DONE
    planned = agenda("plan", file, job, "-o", "json")
    assert planned.exit_code == DONE, planned.output
    assert [one["id"] for one in json.loads(planned.stdout)["reservations"]] == ["job"]
    file.write_text('{"step": "60s",\n "horizon" "4h"}')
    broken = agenda("cluster", "check", file)
    assert (broken.exit_code, "line 2" in broken.stderr) == (ERROR, True), broken.stderr


def test_the_dispatch_table_is_shown_once_there_is_one(address: str, still: Service) -> None:
    """First why there is none; then what each machine is to run, and where each class goes."""
    before = client(address, "cluster", "table")
    assert before.exit_code == DONE, before.output
    assert before.stdout.startswith("no dispatch table")
    submit_one(still, "x", an_application(2, size="10m"))
    still.runtime.dispatcher.tick()
    shown = client(address, "cluster", "table")
    assert shown.exit_code == DONE, shown.output
    assert shown.stdout.startswith("table 1, made ")
    assert "class-1: " in shown.stdout
    assert "100 % to plain" in shown.stdout
    document = json.loads(client(address, "cluster", "table", "-o", "json").stdout)
    assert sum(run["machines"] for run in document["runs"]) == 10
    assert len(document["table"]["requests"]) == len(document["table"]["classes"])


def test_what_if_names_who_would_lose_and_changes_nothing(
    address: str, still: Service, cluster_file: Path
) -> None:
    """With fewer machines someone loses; with more no one is affected; the server stays."""
    still.reserve("gang", GANG)
    cluster_file.write_text(CLUSTER.replace("count = 10", "count = 4"))
    done = client(address, "cluster", "what-if", cluster_file)
    assert done.exit_code == DONE, done.output
    assert done.stdout.startswith("1 degraded\n")
    assert "gang" in done.stdout
    cluster_file.write_text(CLUSTER.replace("count = 10", "count = 12"))
    more = client(address, "cluster", "what-if", cluster_file)
    assert more.stdout == "no reservation is affected\n"
    shown = json.loads(client(address, "cluster", "show", "-o", "json").stdout)
    assert shown["machines"][0]["count"] == 10


def test_usage_adds_up_what_is_held(address: str, still: Service) -> None:
    """Core-hours and shares by tenant, within the asked time alone, over all there is."""
    still.reserve("gang", GANG, tenant="ads")
    still.reserve("one", "window(atom(<1 cpu>, 1, 1, 1h, 1h), +2h, +3h)", tenant="ml")

    def rows(*words: str) -> list[dict[str, str]]:
        done = client(address, "usage", "-o", "csv", *words)
        assert done.exit_code == DONE, done.output
        return list(csv.DictReader(io.StringIO(done.stdout)))

    whole = rows()
    assert [(one["name"], one["cpu"], one["memory"]) for one in whole] == [
        ("ads", "10.0", "20.0"), ("ml", "1.0", "4.0"),  # a core without memory gets its share
    ]  # fmt: skip
    assert float(whole[0]["cpu_share"]) == pytest.approx(25, abs=0.5)
    assert [one["name"] for one in rows("--by", "state")] == ["accepted"]
    part = {one["name"]: float(one["cpu"]) for one in rows("--from", "+0h", "--to", "+90m")}
    assert part["ads"] == pytest.approx(2.5, abs=0.2)
    table = client(address, "usage").stdout
    assert "11.0 cpu-hours, 24.0 GiB-hours" in table.splitlines()[1]
    assert "no past yet" in client(address, "usage", "--last", "1h").stderr
    later = client(address, "usage", "--from", "+3h", "--to", "+4h")
    assert later.stdout == "nothing is reserved in that time\n"
    assert client(address, "usage", "--last", "1h", "--to", "+1h").exit_code == USAGE
    assert client(address, "usage", "--from", "soon").exit_code == USAGE


def test_work_is_cut_at_the_ends_of_the_time() -> None:
    """What lies before or after does not count, and bundles count with what they hold."""
    atom = {"bundle": {"cpu": 2}, "allocation": [[0, 10, 1], [20, 40, 3]]}
    held = held_work([{"tenant": "a", "atoms": [atom]}], "tenant", (5, 30))
    assert held["a"].reservations == 1
    assert held["a"].work["cpu"] == 2000 * (5 * 1 + 10 * 3)
