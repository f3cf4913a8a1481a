"""`rdl check --cluster` says of a gang that all machines together could not hold it (F10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli.kit.errors import DONE
from tests.service.cli.command_line import agenda

_CLUSTER = """
step = "1m"
horizon = "2d"

[[machines]]
name = "small"
count = 3
resources = { cpu = 4 }

[[machines]]
name = "gpu"
count = 2
labels = ["gpu"]
resources = { cpu = 5 }
"""


@pytest.mark.parametrize(
    ("bundle", "rest", "most"),
    [("1 cpu", "", 22), ("2 cpu", "", 10), ("3 cpu", "", 5), ("2 cpu", ', on="gpu"', 4)],
)
def test_the_least_height_is_held_against_all_machines(
    bundle: str, rest: str, most: int, tmp_path: Path
) -> None:
    """As many as fit one by one are fine; of one more it is said how many there could be."""
    cluster, request = tmp_path / "cluster.toml", tmp_path / "gang.rdl"
    cluster.write_text(_CLUSTER)
    for least, noted in ((most, 0), (most + 1, 1)):
        request.write_text(f"order(atom(<{bundle}>, {least}, {least}, 1h, {least}h{rest}))")
        done = agenda("rdl", "check", request, "--cluster", cluster)
        assert (done.exit_code, done.stdout.count("note: no plan can satisfy it")) == (DONE, noted)
        assert (f"hold, {most}; write min={most} or less" in done.stdout) == bool(noted)
