"""A program that plays podman: it writes down what it is called with, and makes no container."""

from __future__ import annotations

import json
from pathlib import Path

_PODMAN = r"""#!/usr/bin/env python3
import json, os, sys, time
words = sys.argv[1:]
files = [word.partition("=")[2] for word in words if word.startswith("--env-file=")]
variables = dict(line.split("=", 1) for file in files for line in open(file).read().splitlines())
with open(FOLDER + "/calls", "a") as file:
    print(json.dumps([words, variables]), file=file, flush=True)
if words[0] == "run":
    if RUNS_COMMANDS and "-c" in words:
        command = ["/bin/sh", *words[words.index("-c"):]]
        os.execve("/bin/sh", command, {"PATH": os.environ["PATH"], **variables})
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
    """Return the words of each call and the variables of its container, in order."""
    lines = (folder / "calls").read_text().split("\n")[:-1]
    return [(words, variables) for words, variables in map(json.loads, lines)]
