"""Memory of a server process: how many arenas its threads share, and what is collected when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_ARENAS_OF_THREADS = """
import ctypes, sys, threading
from service.server import share_arenas
if sys.argv[1] == "shared":
    share_arenas()
libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
together = threading.Barrier(6)
def take():
    together.wait()
    libc.malloc(5000)
    together.wait()
threads = [threading.Thread(target=take) for _ in range(6)]
for one in threads: one.start()
for one in threads: one.join()
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""

_SETTLED = """
import gc
from service.server import settle_memory
gc.disable()
settle_memory()
print(int(gc.isenabled()), gc.get_freeze_count(), gc.get_threshold()[0])
"""


def _run(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="arenas are glibc's")
def test_threads_share_two_arenas(tmp_path: Path) -> None:
    """Else each of them has one, and what is free there serves no other."""
    arenas = {}
    for kind in ("own", "shared"):
        told = tmp_path / kind
        _run(_ARENAS_OF_THREADS, kind, str(told))
        arenas[kind] = told.read_text().count("<heap nr=")

    assert arenas["own"] > 2
    assert arenas["shared"] == 2


def test_what_is_loaded_is_collected_no_more() -> None:
    """The collector works again after a start, and has what was loaded out of sight."""
    enabled, frozen, threshold = map(int, _run(_SETTLED).split())

    assert enabled
    assert frozen > 1000
    assert threshold > 10_000
