"""The example for Prefect, where that is installed, against a real server."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
SOON = "window(atom(<1 cpu>, 1, 1, 5, 5), +0, +10m)"


def example(name: str) -> ModuleType:
    """Return an example as a module."""
    described = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert described is not None
    assert described.loader is not None
    module = importlib.util.module_from_spec(described)
    sys.modules[name] = module
    described.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def served(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients find the server."""
    monkeypatch.setenv("AGENDA_SERVER", address)


def test_prefect_reserves_once_and_awaits_the_start(address: str) -> None:
    """The block knows the server; the tasks, called as functions, reserve and wait."""
    pytest.importorskip("prefect", reason="prefect is not installed")
    ours = example("agenda_prefect")
    server = ours.AgendaServer(url=address)
    made, again = (ours.reserve.fn(server, SOON, "flow-1") for _ in range(2))
    assert made == again
    assert ours.await_begin.fn(server, made, 60.0) in ("active", "completed")
