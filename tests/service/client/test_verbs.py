"""`agenda reservations VERB` against a real server: one noun, its verbs and their short forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from service.cli.kit.errors import CONFLICT, DONE, ERROR, REFUSED
from tests.service.cli.command_line import agenda

SMALL = "window(atom(<1 cpu>, 1, 1, 60, 60), +10m, +30m)"
SHORT = "window(atom(<1 cpu>, 1, 1, 1, 1), +0, +10m)"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with a request."""
    path = tmp_path / "job.rdl"
    path.write_text(SMALL)
    return path


def verb(address: str, *words: object) -> Result:
    """Run a verb of reservations."""
    return agenda("reservations", *words, "--server", address)


def test_the_short_form_is_the_same_command(address: str, file: Path) -> None:
    """`agenda submit` and `agenda reservations submit` both make reservations."""
    assert verb(address, "submit", file, "--id", "long-form").exit_code == DONE
    assert agenda("submit", file, "--id", "short-form", "--server", address).exit_code == DONE
    listed = {one["id"] for one in json.loads(verb(address, "list", "-o", "json").stdout)}
    assert {"long-form", "short-form"} <= listed
    for id_ in ("long-form", "short-form"):
        assert verb(address, "cancel", id_).exit_code == DONE


def test_submit_says_how_much_better_a_plan_could_be(address: str, tmp_path: Path) -> None:
    """On standard error, of one request and of several; the answer of one holds it too."""
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text(json.dumps({"rdl": SMALL}))
    two.write_text("\n".join([json.dumps({"rdl": SMALL})] * 2))
    for file in (one, two):
        done = verb(address, "submit", file, "--bound", "-o", "json")
        assert done.exit_code == DONE
        assert done.stderr.startswith("the Plan: value ")
        found = json.loads(done.stdout)
        assert ("plan_bound" in found) == (file == one)
        for made in [found] if file == one else found:
            assert verb(address, "cancel", made["id"]).exit_code == DONE


def test_the_same_submit_under_a_key_is_one_reservation(address: str, file: Path) -> None:
    """A retry of a whole command is notified of the reservation that it made, with exit code 0."""
    asked = ("submit", file, "--key", "nightly-2026-11-23", "-o", "json")
    first, again = verb(address, *asked), verb(address, *asked)
    assert (first.exit_code, again.exit_code) == (DONE, DONE)
    made = json.loads(first.stdout)["id"]
    assert json.loads(again.stdout)["id"] == made
    file.write_text(SHORT)
    other = verb(address, *asked)
    assert (other.exit_code, json.loads(other.stdout)["code"]) == (ERROR, "idempotency_mismatch")
    verb(address, "cancel", made)


def test_an_update_swaps_the_request_or_changes_nothing(address: str, file: Path) -> None:
    """A change keeps the id; one without a place exits with 3, a stale one with 1."""
    verb(address, "submit", file, "--id", "swapped")
    file.write_text(SMALL.replace("60)", "120)"))
    tried = verb(address, "update", "swapped", file, "--dry-run", "-o", "json")
    assert tried.exit_code == DONE, tried.stderr
    assert json.loads(verb(address, "show", "swapped", "-o", "json").stdout)["revision"] == 1
    done = verb(address, "update", "swapped", file, "--revision", 1)
    assert (done.exit_code, "swapped" in done.stdout) == (DONE, True), done.stderr
    stale = verb(address, "update", "swapped", file, "--revision", 1)
    assert (stale.exit_code, "since" in stale.stderr) == (CONFLICT, True), stale.stderr
    file.write_text("window(atom(<1 cpu>, 11, 11, 60, 660), +10m, +30m)")
    refused = verb(address, "update", "swapped", file)
    assert (refused.exit_code, "is unchanged" in refused.stderr) == (REFUSED, True)
    verb(address, "cancel", "swapped")


def test_wait_shows_what_has_become_of_it(address: str, file: Path) -> None:
    """0 for one that has ended, 1 for one that is not there, was cancelled or takes too long."""
    file.write_text(SHORT)
    verb(address, "submit", file, "--id", "awaited")
    done = verb(address, "wait", "awaited", "--timeout", "60s", "-o", "json")
    assert (done.exit_code, json.loads(done.stdout)["state"]) == (DONE, "completed")
    nobody = verb(address, "wait", "nobody", "--timeout", "1s")
    assert (nobody.exit_code, "nobody" in nobody.stderr) == (ERROR, True)
    file.write_text(SMALL)
    verb(address, "submit", file, "--id", "late")
    late = verb(address, "wait", "late", "--until", "begun", "--timeout", "0.2s")
    assert (late.exit_code, "has not begun" in late.stderr) == (ERROR, True)
    verb(address, "cancel", "late")
    assert verb(address, "wait", "late").exit_code == ERROR


def test_watch_prints_what_happens_to_one(address: str, file: Path) -> None:
    """Only what concerns the reservation that was named."""
    file.write_text(SMALL)
    for id_ in ("watched", "other"):
        verb(address, "submit", file, "--id", id_)
        verb(address, "cancel", id_)
    seen = verb(
        address, "watch", "watched", "--kind", "accepted", "--after", "0", "--wait", "1s", "-o",
        "json",
    )  # fmt: skip
    assert seen.exit_code == DONE, seen.stderr
    told = [json.loads(line) for line in seen.stdout.splitlines()]
    assert [one["reservation"] for one in told if one["kind"] == "accepted"] == ["watched"]
