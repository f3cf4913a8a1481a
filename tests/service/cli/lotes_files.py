"""Cluster and class files of the LoTES tests, and `agenda lotes` run on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from service.cli.kit.errors import DONE
from tests.service.cli.command_line import agenda

Write = Callable[[str, str, str], tuple[Path, Path]]


def group(name: str, count: int, resources: str, labels: str = "[]") -> str:
    """One machine group of a cluster file."""
    head = f'[[machines]]\nname = "{name}"\ncount = {count}\nlabels = {labels}\n'
    return f"{head}resources = {{ {resources} }}\n"


def job(name: str, request: str, mean_time: str = '"60s"', share: float = 1.0) -> str:
    """One class of a class file."""
    head = f'[[classes]]\nname = "{name}"\nshare = {share}\n'
    return f"{head}request = {{ {request} }}\nmean_time = {mean_time}\n"


def writer(tmp_path: Path) -> Write:
    """Return a function that writes a cluster and one more file, and returns both paths."""

    def write(groups: str, name: str, content: str) -> tuple[Path, Path]:
        cluster, other = tmp_path / "cluster.toml", tmp_path / name
        cluster.write_text(f'step = "60s"\nhorizon = "10h"\n{groups}')
        other.write_text(content)
        return cluster, other

    return write


def planned(*arguments: object) -> dict[str, Any]:
    """The JSON answer of `agenda lotes`, which must succeed."""
    done = agenda("lotes", *arguments, "-o", "json")
    assert done.exit_code == DONE, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document
