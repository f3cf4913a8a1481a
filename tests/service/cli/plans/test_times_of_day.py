"""Times of day in the tools for files: whose zone they are in, and from which day on."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from service.cli.kit.errors import DONE
from tests.service.cli.command_line import MINUTES, agenda

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = "every(1d, window(atom(<1 cpu>, 1, 1, 1h, 1h), 01:00, 05:00), times=2)"
BY_SIX = "deadline(atom(<1 cpu>, 1, 1, 1h, 1h), 06:00)"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Return a cluster file with a zone and without an origin."""
    path = tmp_path / "cluster.toml"
    path.write_text('zone = "Europe/Berlin"\n' + MINUTES.replace('"10h"', '"3d"'))
    return path


def _file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", [NIGHT, BY_SIX])
def test_every_tool_reads_times_of_day_in_the_zone_of_the_cluster(
    cluster: Path, tmp_path: Path, text: str
) -> None:
    """Check, plan, compare, offers and validate take a request without a zone or an origin."""
    request = _file(tmp_path, "night.rdl", text)
    lines = _file(tmp_path, "day.jsonl", json.dumps({"id": "night", "rdl": text}) + "\n")
    out = tmp_path / "plan.json"

    checked = agenda("rdl", "check", request, "--cluster", cluster, "-o", "json")
    assert checked.exit_code == DONE, checked.output
    assert json.loads(checked.stdout)["meaning"]["zone"] == "Europe/Berlin"
    for given in (request, lines):
        planned = agenda("plan", cluster, given, "--agent", "gree", "--out", out, "--strict")
        assert planned.exit_code == DONE, planned.output
        compared = agenda("compare", cluster, given, "--agents", "gree", "-o", "json")
        assert compared.exit_code == DONE, compared.output
    assert agenda("validate", out, "--workload", lines).exit_code == DONE
    offered = agenda("offers", request, "--cluster", cluster, "--workload", lines)
    assert offered.exit_code == DONE, offered.output


def test_a_cluster_file_without_an_origin_begins_at_the_coming_midnight(
    cluster: Path, tmp_path: Path
) -> None:
    """It is midnight in the zone of the file, and only where times of day ask for a calendar."""
    out = tmp_path / "plan.json"
    before = datetime.now(UTC)
    assert agenda("plan", cluster, _file(tmp_path, "a.rdl", BY_SIX), "--out", out).exit_code == DONE
    after = datetime.now(UTC)
    plan = json.loads(out.read_text())
    (held,) = plan["reservations"]
    origin = datetime.fromisoformat(plan["cluster"]["origin"]).astimezone(BERLIN)
    tomorrow = {now.astimezone(BERLIN).date() + timedelta(days=1) for now in (before, after)}
    assert origin.date() in tomorrow
    assert (origin.hour, origin.minute) == (0, 0)
    assert 'zone="Europe/Berlin"' in held["expression"]
    assert "zone" not in held["written"]
    ends = held["atoms"][0]["allocation"][-1][1]
    assert (origin + timedelta(seconds=ends)).hour <= 6

    plain = _file(tmp_path, "b.rdl", "window(atom(<1 cpu>, 1, 1, 1h, 1h), 0, 6h)")
    assert agenda("plan", cluster, plain, "--out", out).exit_code == DONE
    assert "origin" not in json.loads(out.read_text())["cluster"]
