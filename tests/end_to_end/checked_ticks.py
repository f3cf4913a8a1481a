"""What a server under test does besides: every tenth tick its dispatcher checks what it keeps."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any, Final

#: What a line of the log begins with that names a fault, and how many ticks go from check to check.
FAULT: Final = "what the dispatcher keeps does not follow: "
EVERY: Final = 10


def check_ticks(tenure: Any) -> None:
    """Have every tenth tick of a class `Tenure` end with its `check`; faults go to the log."""
    tick, numbers = tenure.tick, itertools.count(1)

    def checked(self: Any, now_ms: int) -> Any:
        cycle = tick(self, now_ms)
        if next(numbers) % EVERY == 0:
            for fault in self.check():
                logging.getLogger("agenda.service").error("%s%s", FAULT, fault)
        return cycle

    tenure.tick = checked


def faults_in(log: Path) -> list[str]:
    """Return the faults that a server has written into its log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.partition(FAULT)[2] for line in lines if FAULT in line]
