"""`agenda diag`: everything that helps, and no secret that was planted."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from dispatch.backends.in_memory import InMemoryBackend
from service.access.token import new_secret
from service.cli.main import main
from service.config import ServiceConfig
from service.diagnostics import SupportBundle, last_lines, secrets_of_url, settings_of
from tests.end_to_end.server_process import Client, serving
from tests.service.conftest import CLUSTER, Service

#: Each stands somewhere where a server, a database or a log has it.
PLANTED = ("token-hunter2", "word-hunter2", "other-hunter2", "query-hunter2", "logged-hunter2")

LOG = """\
first line
cannot connect to postgresql+psycopg://agenda:logged-hunter2@host/db
Authorization: Bearer logged-hunter2
X: token-hunter2
last line
"""


def read(path: Path) -> dict[str, str]:
    """Return the files of a bundle by name, without their folder."""
    with tarfile.open(path) as archive:
        found = {}
        for entry in archive.getmembers():
            data = archive.extractfile(entry)
            assert data is not None
            assert entry.name.startswith("agenda-diag-") or entry.name.startswith("x/")
            found[entry.name.partition("/")[2]] = data.read().decode()
        return found


def test_a_running_server_and_its_database(tmp_path: Path) -> None:
    """Versions, settings, counts, revision, metrics, cluster, log; nothing that was planted."""
    cluster, log, out = (tmp_path / name for name in ("cluster.toml", "agenda.log", "d.tar.gz"))
    cluster.write_text(CLUSTER)
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with serving(tmp_path / "a.db", cluster) as server:
        body = {"id": "a", "rdl": "atom(<1 cpu>, 1, 10, 60, 600)", "tenant": "ads"}
        client = Client(server.port)
        assert client.call("POST", "/v1/reservations", body)[0] == 201
        told = {"url": "https://query-hunter2.example/query-hunter2"}
        hook = client.call("POST", "/v1/webhooks", told)[1]["secret"]
        planted = [*PLANTED, hook, shown := new_secret()]
        log.write_text(f"{LOG}{hook}\nwhat {shown} was\nlast line\n")
        done = CliRunner().invoke(
            main,
            ["diag", "--server", f"http://127.0.0.1:{server.port}", "--token", "token-hunter2",
             "--database", url, "--log", str(log), "--lines", "7", "--out", str(out)],
            env={"AGENDA_PASSWORD": "word-hunter2", "AGENDA_POSTGRES":
                 "postgresql+psycopg://a:other-hunter2@host/db"},
        )  # fmt: skip

    assert done.exit_code == 0, done.output
    files = read(out)
    assert not [(name, one) for name, text in files.items() for one in planted if one in text]
    assert json.loads(files["manifest.json"])["missing"] == {}
    told = json.loads(files["server/diagnostics.json"])
    assert told["plan"]["reservations"] == {"accepted": 1} or told["plan"]["version"] > 1
    assert told["settings"]["agent"] == "gree"
    facts = json.loads(files["database/facts.json"])
    assert facts["revision"] == facts["newest_revision"] == told["database"]["revision"]
    assert facts["log_version"] >= told["plan"]["version"] >= 1
    assert facts["rows"]["commits"] >= 1
    assert "agenda_capacity" in files["server/metrics.txt"]
    assert json.loads(files["server/cluster.json"])["machines"][0]["name"] == "plain"
    assert json.loads(files["versions.json"])["packages"]["numpy"]
    assert json.loads(files["environment.json"])["AGENDA_PASSWORD"] == "***"
    assert files["log.txt"].splitlines()[-1] == "last line"
    assert "first line" not in files["log.txt"]


def test_without_a_server(tmp_path: Path) -> None:
    """The file is written nevertheless, and says what is missing and why."""
    out = tmp_path / "d.tar.gz"

    done = CliRunner().invoke(
        main, ["diag", "--server", "http://127.0.0.1:1", "--out", str(out), "--database",
               f"sqlite:///{tmp_path}/nowhere.db"]
    )  # fmt: skip

    assert done.exit_code == 0, done.output
    missing = json.loads(read(out)["manifest.json"])["missing"]
    assert "no answer" in missing["server/diagnostics.json"]
    assert "cannot be opened" in missing["database/facts.json"]
    assert "without server/ready.json" in done.output
    assert not (tmp_path / "nowhere.db").exists()


def test_a_database_of_another_version_is_left_as_it_is(tmp_path: Path) -> None:
    """Tables that are not there count as none; nothing is changed."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE head (name TEXT, version INTEGER)")
        connection.exec_driver_sql("INSERT INTO head VALUES ('log', 7)")
    out = tmp_path / "d.tar.gz"

    CliRunner().invoke(
        main, ["diag", "--server", "http://127.0.0.1:1", "--database", url, "--out", str(out)]
    )

    facts = json.loads(read(out)["database/facts.json"])
    assert (facts["revision"], facts["log_version"], facts["snapshot_version"]) == (None, 7, None)
    assert facts["rows"]["commits"] is None
    assert sa.inspect(engine).get_table_names() == ["head"]


@pytest.mark.parametrize(
    "value",
    [
        {"password": "word-hunter2"},
        {"deep": [{"api_token": "token-hunter2"}]},
        {"url": "postgresql://a:other-hunter2@host/db"},
        {"text": "it is token-hunter2"},
        {"token-hunter2": 1},
        {"secrets": ["word-hunter2"]},
    ],
)
def test_json_is_cleaned(tmp_path: Path, value: Any) -> None:
    """By the name of a member, by what a value looks like, and by what is known as a secret."""
    bundle = SupportBundle("x", ["token-hunter2"])
    bundle.add_json("a.json", value)
    bundle.write(tmp_path / "x.tar.gz")

    text = read(tmp_path / "x.tar.gz")["a.json"]
    assert "hunter2" not in text
    json.loads(text)


def test_settings_have_no_password() -> None:
    """Neither that of the database's URL nor one in its query."""
    url = "postgresql+psycopg://agenda:word-hunter2@host/db?sslpassword=query-hunter2"

    told = settings_of(ServiceConfig(database=url))

    assert "hunter2" not in json.dumps(told)
    assert told["database"].startswith("postgresql+psycopg://agenda:***@host/db")
    assert sorted(secrets_of_url(url)) == ["query-hunter2", "word-hunter2"]


def test_settings_are_told_whatever_they_name() -> None:
    """Every setting can be encoded: files are reported as text."""
    config = ServiceConfig(cluster=Path("c.toml"), clock_file=Path("clock.json"))
    told = json.loads(json.dumps(settings_of(config)))
    assert (told["cluster"], told["clock_file"]) == ("c.toml", "clock.json")


def test_diagnostics_are_plain_json(still: Service) -> None:
    """The server's own answer, counts by state included."""
    still.reserve("a")

    told = still.client.get("/v1/diagnostics").get_json()

    assert told["plan"]["reservations"] == {"accepted": 1}
    assert told["database"]["rows"]["commits"] == told["database"]["log_version"]
    assert told["settings"]["workers"] == 2


def test_last_lines_of_a_log(tmp_path: Path) -> None:
    """The last so many; a file that is shorter is whole."""
    path = tmp_path / "a.log"
    path.write_bytes(b"1\n\xff2\n3\n")

    assert last_lines(path, 2).splitlines() == ["\ufffd2", "3"]
    assert len(last_lines(path, 9).splitlines()) == 3


def test_diagnostics_name_what_the_dispatcher_keeps_wrongly(still: Service) -> None:
    """Nothing at a sound server; a component that the backend has lost silently is named."""
    component = {"name": "m", "count": 1, "core": True, "resources": {"cpu": 1}}
    body = {"id": "a", "application": {"name": "a", "components": [component]}}
    assert still.client.post("/v1/applications", json=body).status_code == 201
    told = still.client.get("/v1/diagnostics").get_json()["dispatch"]
    assert told == {"leads": False, "faults": []}
    for _ in range(2):
        still.runtime.dispatcher.tick()
    told = still.client.get("/v1/diagnostics").get_json()["dispatch"]
    assert told == {"leads": True, "faults": []}
    tenure = still.runtime.dispatcher._tenure
    assert tenure is not None
    (execution,) = tenure._loop.table
    machine = execution.parts[0].held[0].machine
    backend = tenure._backend
    assert isinstance(backend, InMemoryBackend)
    del backend._rows[execution.id, "m", 0]
    told = still.client.get("/v1/diagnostics").get_json()["dispatch"]
    assert told["faults"] == [f"a/m/0: on {machine}, and the backend says None"]
