"""The check of ticks finds what it is to find: else no end-to-end test would."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from tests.end_to_end.checked_ticks import EVERY, FAULT, _Changed


class _Loader:
    """Loads a module with a tenure whose check always finds something."""

    def exec_module(self, module: Any) -> None:
        class Tenure:
            def tick(self, now_ms: int) -> int:
                return now_ms

            def check(self) -> list[str]:
                return ["something"]

        module.Tenure = Tenure


def test_every_tenth_tick_is_checked(caplog: pytest.LogCaptureFixture) -> None:
    """A tick answers what it did, and each fault is a line of the log."""
    module: Any = ModuleType("tenure")
    _Changed(_Loader()).exec_module(module)
    tenure = module.Tenure()
    assert [tenure.tick(number) for number in range(2 * EVERY)] == list(range(2 * EVERY))
    assert caplog.messages == [f"{FAULT}something"] * 2


def test_a_server_is_changed_without_loading_it_first() -> None:
    """Its metrics are of all processes only if they are loaded after its settings are known."""
    code = (
        "import sys; from tests.end_to_end.checked_ticks import check_ticks; check_ticks(); "
        "assert 'prometheus_client' not in sys.modules; "
        "from service.dispatching.tenure import Tenure; print(Tenure.tick.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "checked\n", done.stderr
