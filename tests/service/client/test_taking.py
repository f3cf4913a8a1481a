"""Offers that are taken, holds and exports: the commands against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from service.cli.kit.errors import DONE, REFUSED, USAGE
from tests.service.cli.command_line import agenda

#: All cores for nearly all of five minutes: two of them do not fit.
WHOLE = "window(train: atom(<1 cpu>, 10, 10, 290, 2900), +40m, +45m)"


def ask(address: str, *words: object) -> Result:
    """Run a command on the server."""
    return agenda(*words, "--server", address)


def told(address: str, *words: object) -> Any:
    """Run a command that succeeds; return what it answers as JSON."""
    done = ask(address, *words, "-o", "json")
    assert done.exit_code == DONE, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def file(address: str, tmp_path: Path) -> Iterator[Path]:
    """Return a request that has no place: the same one stands; what is left is cancelled."""
    path = tmp_path / "train.rdl"
    path.write_text(WHOLE)
    before = {one["id"] for one in told(address, "reservations", "list")}
    assert ask(address, "submit", path, "--tenant", "ml").exit_code == DONE
    yield path
    for one in told(address, "reservations", "list"):
        if one["id"] not in before and one["state"] in ("accepted", "active"):
            ask(address, "reservations", "cancel", one["id"])


def test_a_refusal_is_one_sentence_with_numbered_offers(address: str, file: Path) -> None:
    """It has the name of the stage and who holds the capacity, and says how an offer is taken."""
    refused = ask(address, "submit", file, "--tenant", "ads")
    assert refused.exit_code == REFUSED
    first, *offers = refused.stderr.splitlines()
    assert first.startswith("refused (capacity): train needs 10 cpu for 4m50s without a break; the")
    assert first.endswith("for lack of cpu; held by ml (1 reservation)")
    assert offers[0].startswith("  offer 1: it would fit ")
    assert offers[-1] == "  to take one: submit it again with --take 1"


def test_an_offer_is_taken_once_under_a_key(address: str, file: Path) -> None:
    """The same command again is notified of the reservation that the offer became."""
    asked = ("submit", file, "--take", 1, "--key", f"take-{file.parent.name}")
    first, again = told(address, *asked), told(address, *asked)
    assert (first["state"], first["id"]) == ("accepted", again["id"])
    assert "offer 1: it would fit" in ask(address, *asked).stderr


def test_what_is_taken_has_to_be_offered(address: str, file: Path) -> None:
    """A number past the last offer is an error that says how many there are; nothing changes."""
    file.write_text(WHOLE.replace("10, 10, 290, 2900", "11, 11, 290, 3190"))
    done = ask(address, "submit", file, "--take", 10)
    assert done.exit_code == REFUSED
    assert "--take 10: there are" in done.stderr or "--take 10: there is no offer" in done.stderr


def test_an_offer_for_a_kept_refusal_takes_its_id(address: str, file: Path) -> None:
    """`offers --id` finds it again, and what is taken is the reservation of that id."""
    id_ = f"late-{file.parent.name}"
    assert ask(address, "submit", file, "--id", id_).exit_code == REFUSED
    assert "to take one: agenda offers --id" in ask(address, "reservations", "show", id_).stdout
    done = ask(address, "offers", "--id", id_, "--take", 1, "--key", id_)
    assert (done.exit_code, id_ in done.stdout) == (DONE, True), done.stderr
    assert ask(address, "offers", file, "--cluster", file, "--take", 1).exit_code == USAGE
    assert ask(address, "offers", file, "--key", "k").exit_code == USAGE


def test_capacity_is_held_accepted_and_released(address: str, tmp_path: Path) -> None:
    """A hold is listed until it is accepted or released; no capacity exits with 3."""
    path = tmp_path / "job.rdl"
    path.write_text("window(atom(<1 cpu>, 1, 1, 1m, 1m), +20m, +30m)")
    held = told(address, "holds", "create", path, "--time", "50s", "--id", "held")
    assert held["reservation"]["state"] == "accepted"
    assert [one["id"] for one in told(address, "holds", "list")["holds"]] == ["held"]
    table = ask(address, "holds", "list").stdout
    assert table.startswith("1 held; times in UTC\n\nid ")
    assert "held until " in ask(address, "holds", "show", "held").stdout
    assert told(address, "holds", "accept", "held")["state"] == "accepted"
    assert ask(address, "holds", "list").stdout == "there are no holds\n"
    assert told(address, "holds", "create", path, "--id", "back")["id"] == "back"
    assert told(address, "holds", "release", "back")["state"] == "cancelled"
    path.write_text("window(atom(<1 cpu>, 11, 11, 1m, 11m), +20m, +30m)")
    assert ask(address, "holds", "create", path).exit_code == REFUSED
    ask(address, "reservations", "cancel", "held")


def test_an_exported_day_is_planned_again_from_files(
    address: str, file: Path, tmp_path: Path
) -> None:
    """The workload has every request, refused ones too, and the cluster file is one of plan."""
    refused = f"no-{file.parent.name}"
    assert ask(address, "submit", file, "--id", refused).exit_code == REFUSED
    plan, workload, cluster = (tmp_path / name for name in ("plan.json", "w.jsonl", "c.json"))
    done = ask(address, "export", plan, "--workload", workload, "--cluster", cluster)
    assert done.exit_code == DONE, done.stderr
    lines = [json.loads(line) for line in workload.read_text().splitlines()]
    assert [one["submitted"] for one in lines] == sorted(one["submitted"] for one in lines)
    assert refused in {one["id"] for one in lines}
    again = agenda("plan", cluster, workload, "-o", "json")
    assert again.exit_code == DONE, again.stderr
    assert json.loads(again.stdout)["metrics"]["requests"] == len(lines)


def test_sorting_a_list_leaves_other_lists_alone(tmp_path: Path) -> None:
    """Machine groups are sorted in JSON; queues, as many, stay as they were."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(
        'step = "60s"\nhorizon = "1h"\n'
        + "".join(
            f'[[machines]]\nname = "{name}"\ncount = 1\nresources = {{ cpu = 1 }}\n'
            for name in ("b", "a")
        )
        + "".join(f'[[queues]]\nname = "{name}"\n' for name in ("batch", "adhoc"))
    )
    done = agenda("cluster", "check", cluster, "--sort", "name", "-o", "json")
    found = json.loads(done.stdout)
    assert [one["name"] for one in found["machines"]] == ["a", "b"]
    assert [one["name"] for one in found["queues"]] == ["batch", "adhoc"]
