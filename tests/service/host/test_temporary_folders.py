"""Temporary folders: held while their process lives, removed by the next one after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.cli.demo import _KEPT_S, _folder
from service.host.processes import (
    _is_left,
    hold_folder,
    passing_folder,
    remove_left_folders,
)
from tests.databases import empty_database
from tests.end_to_end.served_plan import CLUSTER
from tests.end_to_end.server_process import serving
from tests.patience import eventually

_HOLD = (
    "import sys, time; from service.host.processes import hold_folder; "
    "print(hold_folder('held-'), flush=True); time.sleep(600)"
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where temporary folders are made."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Return a process that holds a folder."""
    command = [sys.executable, "-c", _HOLD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_what_a_killed_process_held_is_removed(
    holder: tuple[subprocess.Popen[str], Path],
) -> None:
    """While it lives its folder stays, anyone who looks; once it was killed the folder goes."""
    process, folder = holder
    remove_left_folders("held-")
    assert folder.is_dir()
    process.kill()
    process.wait()
    remove_left_folders("held-")
    assert not folder.exists()


def test_only_folders_of_that_name_and_age_go(place: Path) -> None:
    """Files, links, other names and what is younger stay; so does one that this process holds."""
    (place / "target").mkdir()
    (place / "held-link").symlink_to(place / "target")
    (place / "held-file").touch()
    (place / "other-folder").mkdir()
    (place / "held-old").mkdir()
    mine = hold_folder("held-")
    kept = {"target", "held-link", "held-file", "other-folder", mine.name}

    remove_left_folders("held-", older_s=3600)
    assert {one.name for one in place.iterdir()} == kept | {"held-old"}
    remove_left_folders("held-")
    assert {one.name for one in place.iterdir()} == kept


def test_a_forked_process_leaves_the_folder_to_its_parent(place: Path) -> None:
    """It is gone when the parent is through, not when a child is."""
    with ExitStack() as stack:
        folder = stack.enter_context(passing_folder("held-"))
        child = os.fork()
        if child == 0:
            try:
                stack.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert folder.is_dir()
    assert list(place.iterdir()) == []


def test_a_demo_removes_what_demos_left_long_ago(place: Path) -> None:
    """A folder of yesterday goes with the next demo; one of today stays to be looked at."""
    old, new = hold_of_another(place, "agenda-demo-old"), hold_of_another(place, "agenda-demo-new")
    stamp = old.stat().st_mtime - _KEPT_S - 60
    os.utime(old, (stamp, stamp))
    made = _folder(None)
    assert {one.name for one in place.iterdir()} == {new.name, made.name}


def hold_of_another(place: Path, name: str) -> Path:
    """Make a folder as one that no one holds any more."""
    folder = place / name
    folder.mkdir()
    (folder / "agenda.db").touch()
    return folder


def test_a_server_removes_what_a_killed_one_left(place: Path) -> None:
    """A server that was killed leaves its folder; the next start takes it away, and its own too."""
    cluster = place / "cluster.toml"
    cluster.write_text(CLUSTER)

    def left() -> list[Path]:
        return list(place.glob("agenda-metrics-*"))

    with empty_database("sqlite", place) as database:
        with serving(database, cluster) as server:
            (first,) = left()
            server.kill()
        assert left() == [first]
        # The workers end with their master, a moment later; until then they hold its folder.
        eventually(lambda: _is_left(first, 0.0), bool)
        with serving(database, cluster) as server:
            (second,) = left()
            assert second != first
            assert server.stop()
    assert left() == []
