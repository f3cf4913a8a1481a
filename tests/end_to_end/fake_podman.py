"""A program that plays podman: it writes down what it is called with, and makes no container."""

from __future__ import annotations

import json
from pathlib import Path

_PODMAN = r"""#!/usr/bin/env python3
import json, os, sys, time
words = sys.argv[1:]
with open(FOLDER + "/calls", "a") as file:
    print(json.dumps([words, dict(os.environ)]), file=file, flush=True)
if words[0] == "run":
    if RUNS_COMMANDS and "-c" in words:
        os.execvp("/bin/sh", ["/bin/sh", *words[words.index("-c"):]])
    time.sleep(600)
"""


def fake_podman(folder: Path, *, runs_commands: bool = True) -> Path:
    """Return a folder with such a podman, which writes its calls to another one.

    A container's command is run as it is, or it sleeps, as an image without one does.
    """
    programs = folder / "programs"
    programs.mkdir()
    text = _PODMAN.replace("FOLDER", repr(str(folder)))
    (programs / "podman").write_text(text.replace("RUNS_COMMANDS", repr(runs_commands)))
    (programs / "podman").chmod(0o755)
    return programs


def calls_of_podman(folder: Path) -> list[tuple[list[str], dict[str, str]]]:
    """Return the words and the environment of each call, in order."""
    lines = (folder / "calls").read_text().split("\n")[:-1]
    return [(words, environment) for words, environment in map(json.loads, lines)]
