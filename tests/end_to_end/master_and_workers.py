"""A program of a master and workers, which find each other by what they are started with.

The master gives each worker that calls it a number, and writes the sum of their answers to a file.
It is run as ``python master_and_workers.py master FILE WORKERS`` and ``... worker``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any


def master_and_workers(notes: Path, workers: int, cpu: float = 1) -> list[dict[str, Any]]:
    """Return the components of an application that runs this program."""
    part = {"core": True, "resources": {"cpu": cpu}}
    run = f"exec {sys.executable} {__file__}"
    environment = {"MASTER": "{dns_name#master}:{port#master.work}"}
    return [
        {**part, "name": "master", "ports": ["work"], "command": f"{run} master {notes} {workers}"},
        {
            **part, "name": "worker", "count": workers, "command": f"{run} worker",
            "environment": environment,
        },
    ]  # fmt: skip


def serve(path: str, workers: int) -> None:
    """Give numbers to workers, and write the sum of their squares and who they were."""
    total, names = 0, []
    address = (os.environ["AGENDA_HOST"], int(os.environ["AGENDA_PORT_WORK"]))
    with socket.create_server(address) as server:
        print("ready", flush=True)
        for number in range(1, workers + 1):
            connection, _ = server.accept()
            with connection, connection.makefile("rw") as file:
                print(number, file=file, flush=True)
                name, square = file.readline().split()
                total += int(square)
                names.append(name)
    with open(path, "a") as file:
        print(total, *sorted(names), file=file)


def work() -> None:
    """Ask the master for a number, and answer with its square."""
    (master,) = json.loads(os.environ["AGENDA_PEERS"])["master"]
    address = (master["host"], master["ports"]["work"])
    assert os.environ["MASTER"] == f"{address[0]}:{address[1]}"
    while True:  # nothing says when the master listens
        try:
            connection = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.1)
    print("found it", file=sys.stderr, flush=True)
    with connection, connection.makefile("rw") as file:
        number = int(file.readline())
        name = f"{os.environ['AGENDA_COMPONENT']}{os.environ['AGENDA_INDEX']}"
        print(name, number * number, file=file, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "master":
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        work()
