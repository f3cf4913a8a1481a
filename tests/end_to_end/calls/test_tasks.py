"""Stages of tasks on real executors: each task is done once, through kills of both sides."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.end_to_end.lab import LONG_S, Lab, end
from tests.patience import eventually

_COMMAND = """
if [ {task} = 3 ] && [ ! -e FOLDER/failed ]; then touch FOLDER/failed; exit 3; fi
sleep 1; echo "{task} $AGENDA_TASKS" >> NOTES
"""


def test_every_task_is_done_once_though_server_and_executor_are_killed(tmp_path: Path) -> None:
    """One that fails is run again; the counts are shown, and are kept."""
    with ExitStack() as stack:
        lab = Lab(tmp_path, stack)
        lab.serve(LONG_S)
        executor = lab.execute("lab-0", "lab-1")
        command = _COMMAND.replace("FOLDER", str(tmp_path)).replace("NOTES", str(lab.notes))
        body = {
            "id": "render",
            "rdl": "window(frames: atom(<1 cpu>, 1, 3, 60s, 600s), +0, +30m)",
            "stages": {"frames": {"command": command, "tasks": 12, "retries": 1}},
            "agent": "earliest",
        }
        lab.call("POST", "/v1/pipelines", body)
        eventually(lambda: len(lab.lines()) >= 2)
        assert lab.server is not None
        lab.server.kill()
        end(executor)
        lab.execute("lab-0", "lab-1")
        lab.serve(LONG_S)
        eventually(lambda: lab.state("render.frames") == "completed", limit_s=240)

        assert sorted(lab.lines()) == sorted(f"{task} 12" for task in range(12))
        (stage,) = lab.call("GET", "/v1/pipelines/render")["stages"]
        assert stage["tasks"] == {"count": 12, "done": 12, "failed": 0, "left": 0}
        runs = lab.runs("render.frames")
        assert sorted((one["task"], one["state"]) for one in runs) == sorted(
            [*((task, "exited") for task in range(12)), (3, "failed")]
        )
        shown = subprocess.run(
            [sys.executable, "-m", "service.cli.main", "pipelines", "show", "render",
             "--server", f"http://127.0.0.1:{lab.port}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "12 of 12" in shown.stdout
