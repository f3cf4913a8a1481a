"""Who is asked for jobs and nodes: slurmrestd, and commands while it does not answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from dispatch.backends.slurm.control.errors import RestAwayError, SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.reader import SlurmReader
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode


@dataclass(slots=True)
class Clock:
    """One that the test sets."""

    now_s: float = 0.0

    def __call__(self) -> float:
        """Return it."""
        return self.now_s


@dataclass(slots=True)
class Source:
    """Something that is asked, and fails while it has an error."""

    clock: Clock
    error: SlurmError | None = None
    takes_s: float = 0.0
    asked_s: list[float] = field(default_factory=list)

    def jobs(self) -> list[SlurmJob]:
        """Return none, or fail."""
        self.asked_s.append(self.clock.now_s)
        self.clock.now_s += self.takes_s
        if self.error is not None:
            raise self.error
        return []

    def nodes(self) -> list[SlurmNode]:
        """Return none."""
        return []


def read_each_second(reader: SlurmReader, clock: Clock, seconds: int) -> None:
    """Read at each whole second."""
    for second in range(seconds):
        clock.now_s = float(second)
        reader.read()


@pytest.mark.parametrize("error", [RestAwayError("refused"), SlurmError("401")])
def test_commands_are_asked_at_once_while_slurmrestd_fails(error: SlurmError) -> None:
    """It is asked again after 5, 10, 20, 40 and 60 seconds."""
    clock = Clock()
    rest, commands = Source(clock, error), Source(clock)
    read_each_second(SlurmReader(commands, rest, steady_s=clock), clock, 200)
    assert rest.asked_s == [0, 5, 15, 35, 75, 135, 195]
    assert len(commands.asked_s) == 200


def test_slurmrestd_is_asked_alone_once_it_answers_again() -> None:
    """And a later failure is put off by the first pause again."""
    clock = Clock()
    rest, commands = Source(clock, RestAwayError("refused")), Source(clock)
    reader = SlurmReader(commands, rest, steady_s=clock)
    read_each_second(reader, clock, 5)
    rest.error = None
    clock.now_s = 5.0
    reader.read()
    assert commands.asked_s == [0, 1, 2, 3, 4]
    rest.error = RestAwayError("refused")
    for clock.now_s in (6.0, 10.0, 11.0):
        reader.read()
    assert rest.asked_s == [0, 5, 6, 11]


def test_a_slurmctld_that_is_away_is_not_asked_twice() -> None:
    """slurmrestd has said so; commands would wait for it once more."""
    clock = Clock()
    rest, commands = Source(clock, SlurmAwayError("Zero Bytes")), Source(clock)
    with pytest.raises(SlurmAwayError):
        SlurmReader(commands, rest, steady_s=clock).read()
    assert commands.asked_s == []


def test_a_slurmrestd_that_hangs_leaves_the_next_look_to_commands() -> None:
    """Its silence may be that of slurmctld, and one look waits for one of them only."""
    clock = Clock()
    rest, commands = Source(clock, RestAwayError("timed out"), takes_s=6.0), Source(clock)
    reader = SlurmReader(commands, rest, steady_s=clock)
    with pytest.raises(RestAwayError):
        reader.read()
    reader.read()
    assert (rest.asked_s, commands.asked_s) == ([0], [6])


def test_a_slurmrestd_that_was_silent_at_the_start_is_put_off() -> None:
    """The first look is that of commands: with one that hangs no server would ever begin."""
    clock = Clock()
    rest, commands = Source(clock, RestAwayError("timed out"), takes_s=6.0), Source(clock)
    reader = SlurmReader(commands, rest, answers=False, steady_s=clock)
    for clock.now_s in (20.0, 24.0):
        reader.read()
    assert (rest.asked_s, commands.asked_s) == ([], [20, 24])
    rest.error, clock.now_s = None, 25.0
    reader.read()
    assert rest.asked_s == [25]


def test_without_slurmrestd_commands_are_asked() -> None:
    """Each time."""
    clock = Clock()
    commands = Source(clock)
    read_each_second(SlurmReader(commands, None, steady_s=clock), clock, 3)
    assert commands.asked_s == [0, 1, 2]
