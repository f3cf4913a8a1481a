"""Property tests with random seeds, for a stated time: `make soak`.

Rounds follow each other, each with the next seed, until one finds something or the time is over. A
seed gives the same examples again.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

#: Exit codes of what was interrupted: pytest in a test, Python before that, a shell around it.
_INTERRUPTED = (2, -signal.SIGINT, 128 + signal.SIGINT)


def command(seed: int, tests: Sequence[str], workers: int) -> list[str]:
    """Return the command of one round: it ends with the first test that fails."""
    how = ["-q", "-x", "--hypothesis-profile=soak", f"--hypothesis-seed={seed}"]
    if workers > 1:
        how += ["-n", str(workers), "--dist", "worksteal"]
    chosen = "hypothesis and not sweep and not postgres and not browser"
    return [sys.executable, "-m", "pytest", *how, "-m", chosen, *tests]


def run_for(seconds: float, args: Sequence[str]) -> int | None:
    """Return the exit code of a command, or None if it was interrupted when time was over."""
    process = subprocess.Popen(args)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        code = process.wait()
        return None if code in (0, *_INTERRUPTED) else code


def soak(
    minutes: float,
    first: int,
    round_of: Callable[[float, int], int | None],
    clock: Callable[[], float],
) -> int:
    """Run rounds until one fails or the time is over; return the exit code.

    Parameters
    ----------
    round_of
        Runs one for this many seconds at most, with a seed.
    clock
        Seconds that only move forward.
    """
    end, seed = clock() + 60 * minutes, first
    while (left := end - clock()) > 0:
        print(f"== soak: SEED={seed}, {left / 60:.1f} minutes left", flush=True)
        code = round_of(left, seed)
        if code:
            print(f"== soak: SEED={seed} found something; make soak SEED={seed} finds it again")
            return code
        if code is None:
            break
        seed += 1
    print(f"== soak: nothing found in {minutes:g} minutes, SEED={first} to {seed}")
    return 0


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, help="of the first round; random where none is given")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("tests", nargs="*", help="files or folders; all by default")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if asked.seed is None else asked.seed

    def round_of(seconds: float, seed: int) -> int | None:
        return run_for(seconds, command(seed, asked.tests, asked.workers))

    return soak(asked.minutes, seed, round_of, time.monotonic)


if __name__ == "__main__":
    raise SystemExit(main())
