"""`agenda token`: create, list and revoke on a database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from service.access.token import PREFIX
from service.access.user import Actor, Role, User, acting
from service.cli.main import main
from service.store import Store


@pytest.fixture
def database(tmp_path: Path) -> str:
    """Return the URL of a database that is not there yet."""
    return f"sqlite:///{tmp_path / 'agenda.db'}"


def token(*words: str, database: str) -> Result:
    """Run `agenda token`."""
    return CliRunner().invoke(main, ["token", *words, "--database", database])


def test_the_life_of_a_token(database: str) -> None:
    """Its secret alone goes to standard output; the list has it without; revoked it is not good."""
    made = token("create", "ann", "--tenant", "ads", "--end", "90d", database=database)
    assert made.exit_code == 0
    assert made.stdout.startswith(PREFIX)
    assert made.stdout.count("\n") == 1

    listed = token("list", "-o", "json", database=database)
    (entry,) = json.loads(listed.stdout)
    assert (entry["name"], entry["role"], entry["tenants"]) == ("ann", "user", ["ads"])
    assert entry["good"]
    assert made.stdout.strip() not in listed.stdout

    assert token("revoke", entry["id"], database=database).exit_code == 0
    assert not json.loads(token("list", "-o", "json", database=database).stdout)[0]["good"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["create", "ann"], "--tenant"),
        (["create", "ann", "--role", "admin", "--tenant", "ads"], "--tenant"),
        (["create", "a b", "--tenant", "ads"], "not a valid name"),
        (["create", "ann", "--tenant", "ads", "--end", "2020-01-01T00:00:00Z"], "future"),
        (["create", "ann", "--tenant", "ads", "--end", "soon"], "--end"),
        (["list"], "is not there"),
        (["revoke", "t-1"], "is not there"),
    ],
)
def test_what_cannot_be_is_reported(words: list[str], said: str, database: str) -> None:
    """Bad input is one line that says what is wrong, and makes no database."""
    done = token(*words, database=database)
    assert done.exit_code == 1
    assert said in done.stderr
    assert not Path(database.removeprefix("sqlite:///")).exists()


def test_the_list_speaks_in_the_zone_of_the_cluster(database: str) -> None:
    """As `list` and `usage` do (D17); documents stay in UTC."""
    store = Store(database)
    store.setting("cluster", json.dumps({"zone": "Asia/Tokyo"}))
    with acting(Actor(User("root", Role.ADMIN))):
        store.tokens.create(User("ann", Role.ADMIN), None, 1_767_571_200_000)
    store.close()
    table = token("list", "-o", "wide", database=database).stdout
    assert "Asia/Tokyo" in table
    assert "2026-01-05 09:00" in table
    (entry,) = json.loads(token("list", "-o", "json", database=database).stdout)
    assert entry["created_at"] == "2026-01-05T00:00:00Z"
