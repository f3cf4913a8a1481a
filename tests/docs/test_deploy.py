"""The files of docs/deploy: their commands parse, and the tools that read them accept them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from service.cli.main import main
from tests.docs.pages import ROOT

DEPLOY = ROOT / "docs" / "deploy"


def _options(words: list[str], folder: Path) -> dict[str, object]:
    """Return how `agenda` reads the options of a printed command, on a cluster file that exists."""
    cluster = folder / "cluster.toml"
    cluster.touch()
    name, *rest = [word.replace("/etc/agenda/cluster.toml", str(cluster)) for word in words]
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command.make_context(name, rest).params


def _compose() -> dict[str, dict[str, dict[str, object]]]:
    text = (DEPLOY / "compose.yaml").read_text()
    # Compose replaces these itself: the value after `:-`, else the name.
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    read: dict[str, dict[str, dict[str, object]]] = yaml.safe_load(
        re.sub(r"\$\{(\w+)[^}]*\}", r"\1", text)
    )
    return read


def test_the_unit_starts_a_server_with_tokens(tmp_path: Path) -> None:
    lines = (DEPLOY / "agenda.service").read_text().splitlines()
    line = next(one for one in lines if one.startswith("ExecStart="))
    program, *words = shlex.split(line.partition("=")[2])
    assert Path(program).name == "agenda"
    assert _options(words, tmp_path)["auth"] == "token"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "agenda.service"
    text = (DEPLOY / "agenda.service").read_text()
    text = text.replace("/opt/agenda/bin/agenda", sys.executable).replace("User=agenda\n", "")
    path.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    mine = [line for line in done.stderr.splitlines() if "agenda.service" in line]
    assert mine == [], done.stderr


def test_the_image_starts_a_server_with_tokens_on_all_addresses(tmp_path: Path) -> None:
    text = (DEPLOY / "Containerfile").read_text()
    command = re.search(r"^CMD (.*)$", text, re.MULTILINE)
    assert command is not None
    options = _options(json.loads(command[1]), tmp_path)
    assert (options["auth"], options["host"]) == ("token", "0.0.0.0")


def test_the_composed_server_starts_with_its_own_database_and_proxy(tmp_path: Path) -> None:
    composed = _compose()
    server, proxy = composed["services"]["server"], composed["services"]["proxy"]
    command = server["command"]
    assert isinstance(command, list)
    options = _options(command, tmp_path)
    networks = proxy["networks"]
    assert isinstance(networks, dict)
    assert options["database"] == "postgresql+psycopg://agenda@database/agenda"
    assert options["proxies"] == (networks["default"]["ipv4_address"],)


def test_every_volume_and_service_that_compose_names_is_declared() -> None:
    composed = _compose()
    services = composed["services"]
    named = {
        str(volume).partition(":")[0]
        for service in services.values()
        for volume in service.get("volumes", [])  # type: ignore[attr-defined]
    }
    files = {name for name in named if name.startswith("./")}
    assert named - files == composed["volumes"].keys()
    assert {name for name in files if not (DEPLOY / name).exists()} == {"./cluster.toml"}
    wanted = {name for service in services.values() for name in service.get("depends_on", [])}  # type: ignore[attr-defined]
    assert wanted <= services.keys()


@pytest.mark.skipif(shutil.which("caddy") is None, reason="Caddy is not installed")
def test_caddy_accepts_its_file(tmp_path: Path) -> None:
    done = subprocess.run(
        ["caddy", "validate", "--config", str(DEPLOY / "Caddyfile"), "--adapter", "caddyfile"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
