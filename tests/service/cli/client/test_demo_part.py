"""Parts of the demo end with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from service.cli.demo_stage import command_of


def test_a_part_names_the_process_that_starts_it() -> None:
    """It ends with that one."""
    command = command_of("server", "folder", "80")
    assert command[3:] == [str(os.getpid()), "server", "folder", "80"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports a parent's end")
@pytest.mark.parametrize("kind", ["server", "executor"])
def test_a_part_whose_demo_is_gone_ends_at_once(kind: str) -> None:
    """Also where the demo was killed before the part had begun."""
    interpreter, dash_m, module, _, *rest = command_of(kind, "folder", "80")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    part = subprocess.run([interpreter, dash_m, module, str(gone.pid), *rest], check=False)

    assert part.returncode == -signal.SIGKILL
