"""The server of the demo ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.demo_stage import command_of


def test_the_server_names_the_process_that_starts_it() -> None:
    """It ends with that one."""
    assert command_of(Path("/folder"), 80)[3:] == [str(os.getpid()), "/folder", "80"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports a parent's end")
def test_a_server_whose_demo_is_gone_ends_immediately() -> None:
    """Also where the demo was killed before the server had begun."""
    interpreter, dash_m, module, _, *rest = command_of(Path("/folder"), 80)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    part = subprocess.run([interpreter, dash_m, module, str(gone.pid), *rest], check=False)

    assert part.returncode == -signal.SIGKILL
