"""What a server under test does besides: every tenth tick its dispatcher checks what it keeps."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Final

from dispatch.cycle.cycle import Cycle
from service.dispatching.tenure import Tenure

#: What a line of the log begins with that names a fault, and how many ticks go from check to check.
FAULT: Final = "what the dispatcher keeps does not follow: "
EVERY: Final = 10


def check_ticks() -> None:
    """Have every tenth tick of this process end with `Tenure.check`; faults go to the log."""
    tick, numbers = Tenure.tick, itertools.count(1)

    def checked(tenure: Tenure, now_ms: int) -> Cycle:
        cycle = tick(tenure, now_ms)
        if next(numbers) % EVERY == 0:
            for fault in tenure.check():
                logging.getLogger("agenda.service").error("%s%s", FAULT, fault)
        return cycle

    Tenure.tick = checked  # type: ignore[method-assign]


def faults_in(log: Path) -> list[str]:
    """Return the faults that a server has written into its log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.partition(FAULT)[2] for line in lines if FAULT in line]
