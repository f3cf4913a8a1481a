"""An operator's day with a cluster of two hundred machines, by the real command line and server."""

from __future__ import annotations

import csv
import io
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from service.cli.kit.errors import DONE, ERROR, REFUSED
from tests.docs.pages import ROOT
from tests.end_to_end.server_process import serving
from tests.service.cli.command_line import agenda

CLUSTER = """\
zone = "Europe/Berlin"
step = "1m"
horizon = "7d"

[[machines]]
name = "plain"
count = 200
resources = { cpu = 32, memory = "128 GiB" }

[[queues]]
name = "batch"

[[policies]]
name = "small-lab"
type = "quota"
tenant = "lab"
limit = { cpu = 320 }
"""

WHOLE = "window(atom(<32 cpu>, {count}, {count}, 2h, {work}h), +{start}h, +{hours}h)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hold the cluster's file and what is exported."""
    found = tmp_path_factory.mktemp("operator")
    (found / "cluster.toml").write_text(CLUSTER)
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """Serve the cluster; three tenants hold something, and two requests are refused."""
    database, cluster = folder / "agenda.db", folder / "cluster.toml"
    with serving(database, cluster, agent="gree-l", log_format="json") as running:
        url = f"http://127.0.0.1:{running.port}"
        asked = (("ads-1", "ads", 100, 0, DONE), ("ml-1", "ml", 90, 0, DONE),
                 ("ads-2", "ads", 150, 0, REFUSED), ("lab-1", "lab", 20, 9, REFUSED),
                 ("lab-2", "lab", 5, 9, DONE))  # fmt: skip
        for id_, tenant, count, start, code in asked:
            path = folder / f"{id_}.rdl"
            wish = WHOLE.format(count=count, work=2 * count, start=start, hours=start + 3)
            path.write_text(wish)
            options = ("--id", id_, "--tenant", tenant, "--queue", "batch", "--server", url)
            assert agenda("submit", path, *options).exit_code == code, id_
        yield url


def done(*arguments: object, code: int = DONE) -> str:
    """Run a command that ends as expected; return what it printed."""
    found: Result = agenda(*arguments)
    assert found.exit_code == code, found.output
    return found.output


def fetched(url: str) -> str:
    """Return a page."""
    with urllib.request.urlopen(url, timeout=300) as answer:
        text: str = answer.read().decode()
    return text


def test_a_cluster_file_is_checked_with_every_problem_at_once(folder: Path) -> None:
    """A wrong word and a wrong amount are told in one go, each with its place and what is right."""
    assert "200" in done("cluster", "check", folder / "cluster.toml")
    wrong = folder / "wrong.toml"
    wrong.write_text(CLUSTER.replace('"quota"', '"quotaa"').replace("count = 200", "count = -1"))
    said = done("cluster", "check", wrong, code=ERROR)
    assert "/machines/0/count: -1 is less than 0" in said
    assert "/policies/0/type: 'quotaa' is not known here; did you mean 'quota'?" in said


def test_what_the_server_did_is_in_its_log(server: str, folder: Path) -> None:
    """With --log-format json a line for each answer, with the reason of a refusal."""
    log = (folder / "cluster.log").read_text().splitlines()
    lines = [json.loads(line) for line in log if line.startswith("{")]
    answers = {line["id"]: line for line in lines if line["message"] == "admission"}
    assert answers["ads-1"]["outcome"] == "accepted", answers
    assert answers["ads-2"]["code"] == "capacity", answers


def test_addresses_beyond_loopback_need_tokens(folder: Path) -> None:
    """Without tokens it refuses, and says how to make one."""
    options = ("--cluster", folder / "cluster.toml", "--host", "0.0.0.0")
    database = f"sqlite:///{folder / 'other.db'}"
    said = done("serve", *options, "--database", database, code=ERROR)
    assert "agenda token create" in said


def test_utilisation_now_and_next_week(server: str) -> None:
    """One command, in amounts and shares."""
    rows = json.loads(done("usage", "--from", "now", "--to", "+6h", "-o", "json",
                           "--server", server))  # fmt: skip
    assert rows
    assert "%" in done("usage", "--server", server)


def test_who_holds_what(server: str) -> None:
    """Sums by tenant, the largest first, and the list in the order that is requested."""
    said = done("usage", "--by", "tenant", "--server", server)
    assert all(tenant in said for tenant in ("ads", "ml", "lab"))
    chosen = ("--sort", "-id", "--state", "accepted", "-o", "csv", "--no-headers")
    listed = done("reservations", "list", *chosen, "--server", server)
    ids = [row[0] for row in csv.reader(io.StringIO(listed))]
    assert ids == sorted(ids, reverse=True)


def test_why_requests_were_refused(server: str) -> None:
    """The list of refusals has the code of each; one alone says what, by whom, and when here."""
    text = done("reservations", "list", "--state", "refused", "-o", "csv", "--server", server)
    rows = {row["id"]: row for row in csv.DictReader(io.StringIO(text))}
    assert (rows["ads-2"]["code"], rows["lab-1"]["code"]) == ("capacity", "quota")
    said = " ".join(done("reservations", "show", "lab-1", "--server", server).split())
    assert "the request needs at least 640 cpu at once; 320 cpu is left within policy" in said
    assert re.search(r"small-lab at \w{3} \d{4}-\d\d-\d\d \d\d:\d\d \(Europe/Berlin\)", said), said


def test_what_an_outage_would_do(server: str) -> None:
    """A first line that says whether anybody loses anything, and nothing is changed."""
    said = done("outages", "add", "plain", "--count", 30, "--end", "+4h", "--dry-run",
                "--server", server)  # fmt: skip
    assert re.search(r"\d+ (?:moved|relocated|degraded|failed)|no reservation is affected", said)
    assert json.loads(done("outages", "list", "-o", "json", "--server", server)) is not None


def test_what_other_machines_or_policies_would_do(server: str, folder: Path) -> None:
    """The cluster's file, edited, is tried before it is taken."""
    fewer = folder / "fewer.toml"
    fewer.write_text(CLUSTER.replace("count = 200", "count = 150"))
    said = done("cluster", "what-if", fewer, "--server", server)
    assert re.search(r"\d+ (?:moved|relocated|degraded|failed)", said), said


def test_yesterday_is_planned_again_by_others(server: str, folder: Path) -> None:
    """What was asked of the server comes out as files that `compare` takes."""
    plan, workload, cluster = (folder / name for name in ("live.json", "live.jsonl", "live.toml"))
    done("export", plan, "--workload", workload, "--server", server)
    cluster.write_text(done("cluster", "show", "-o", "json", "--server", server))
    done("validate", plan)
    said = json.loads(done("compare", cluster, workload, "--agents", "gree,earliest", "-o", "json"))
    assert [one["agent"] for one in said["agents"]] == ["gree", "earliest"]


def test_a_better_plan_is_found_and_applied(server: str) -> None:
    """The difference first, with who is left out and why; then it is applied."""
    said = done("optimizations", "start", "--admit-refused", "--time-limit", "2s", "--apply",
                "--solver", "none", "--server", server)  # fmt: skip
    assert "value" in said
    assert "left out" in said
    assert "quota" in said


def test_figures_for_prometheus(server: str) -> None:
    """Capacity, what is held, reservations by state, and which version runs."""
    text = fetched(f"{server}/metrics")
    for name in ("agenda_build_info", "agenda_capacity", "agenda_allocated", "agenda_reservations"):
        assert f"\n{name}" in text, name
    for name in ("alerts.yml", "dashboard.json"):
        assert (ROOT / "docs" / "monitoring" / name).exists()


def test_who_changed_what(server: str) -> None:
    """Each change has who, when and by which call; one reservation has its history."""
    assert "ads-1" in done("audit", "--server", server)
    shown = json.loads(done("reservations", "show", "ads-1", "-o", "json", "--server", server))
    assert shown["history"][0]["what"] == "admitted"


def test_a_backup_is_written_beside_the_server(server: str, folder: Path) -> None:
    """One command writes it, another fills an empty database from it."""
    database = f"sqlite:///{folder / 'agenda.db'}"
    done("backup", "--database", database, folder / "agenda.backup")
    copy = f"sqlite:///{folder / 'copy.db'}"
    done("restore", "--database", copy, folder / "agenda.backup")
    assert (folder / "copy.db").stat().st_size > 0


@pytest.mark.parametrize("word", ["systemd", "PostgreSQL", "nginx", "agenda backup",
                                  "agenda upgrade", "agenda token create", "Sizing"])  # fmt: skip
def test_operating_is_written_down(word: str) -> None:
    """Unit, database, proxy, tokens, backup, upgrade and sizing stand on one page."""
    assert word in (ROOT / "docs" / "operating.md").read_text()


def test_a_changed_cluster_file_says_what_it_changed(server: str, folder: Path) -> None:
    """A restart with an edited file says so, before it serves."""
    database, before = folder / "changed.db", folder / "before.toml"
    before.write_text(CLUSTER)
    with serving(database, before):
        pass
    edited = folder / "edited.toml"
    edited.write_text(CLUSTER.replace("count = 200", "count = 201"))
    with serving(database, edited) as running:
        found: dict[str, Any] = json.loads(fetched(f"http://127.0.0.1:{running.port}/v1/cluster"))
        assert found["machines"][0]["count"] == 201
    said = "the Plan changed to the cluster file of this start: machines plain.count: 200 -> 201"
    assert said in edited.with_suffix(".log").read_text()
