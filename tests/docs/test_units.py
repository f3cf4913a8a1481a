"""The unit of systemd that docs/operating.md prints: its command parses, and systemd takes it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.serve import serve
from tests.docs.pages import ROOT, Block, blocks_of


@pytest.fixture(scope="module")
def unit() -> Block:
    """Return the printed unit."""
    blocks = blocks_of(ROOT / "docs" / "operating.md")
    return next(block for block in blocks if block.language == "ini")


def test_what_the_unit_starts_is_a_command(unit: Block, tmp_path: Path) -> None:
    """Every option is one of `agenda serve`, each with a value it takes."""
    line = next(one for one in unit.lines if one.startswith("ExecStart="))
    program, command, *options = shlex.split(line.partition("=")[2])
    assert (Path(program).name, command) == ("agenda", "serve")
    cluster = tmp_path / "cluster.toml"
    cluster.touch()
    options = [str(cluster) if one.endswith("cluster.toml") else one for one in options]
    assert serve.make_context("serve", options).params["auth"] == "token"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(unit: Block, tmp_path: Path) -> None:
    """Nothing in it is unknown or wrong; the program is one that is here."""
    path = tmp_path / "agenda.service"
    text = "\n".join(unit.lines).replace("/opt/agenda/bin/agenda", sys.executable)
    path.write_text(text.replace("User=agenda\n", "") + "\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    mine = [line for line in done.stderr.splitlines() if "agenda.service" in line]
    assert mine == [], done.stderr
