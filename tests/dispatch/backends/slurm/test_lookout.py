"""How often a Slurm is looked at: as often as it bears, more rarely while it does not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from dispatch.backends.slurm.control.errors import SlurmAwayError
from dispatch.backends.slurm.control.slurm import Look, Lookout


class SlowSlurm:
    """A Slurm whose look takes a time that the test gives, on a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.takes_s = 0.0
        self.is_away = False
        self.looks = 0
        self.settings = SimpleNamespace(poll_s=1.0)

    def look(self) -> Look:
        """Take the time, and answer or not."""
        self.looks += 1
        self.now_s += self.takes_s
        if self.is_away:
            raise SlurmAwayError("no answer")
        return Look({}, {})

    def looks_in(self, seconds: int) -> int:
        """Return how often it is looked at by one who asks ten times a second."""
        before, until_s = self.looks, self.now_s + seconds
        while self.now_s < until_s:
            self.lookout.look()
            self.now_s += 0.1
        return self.looks - before

    @property
    def lookout(self) -> Lookout:
        """Return the same one each time."""
        if not hasattr(self, "_lookout"):
            self._lookout = Lookout(cast("Any", self), lambda: self.now_s)
        return self._lookout


def test_a_quick_slurm_is_looked_at_once_in_the_pause() -> None:
    """Ten times in ten seconds with a pause of one."""
    assert 9 <= SlowSlurm().looks_in(10) <= 10


def test_a_slow_look_is_followed_by_a_longer_pause() -> None:
    """A second each: a sixth of the time at most."""
    slurm = SlowSlurm()
    slurm.takes_s = 1.0
    assert 9 <= slurm.looks_in(60) <= 10


def test_haste_is_no_reason_to_look_all_the_time() -> None:
    """Where a look takes two seconds and all is changed all the time: half of it is spent so."""
    slurm = SlowSlurm()
    slurm.takes_s = 2.0
    before = slurm.looks
    while slurm.now_s < 60:
        slurm.lookout.look()
        slurm.lookout.hurry()
        slurm.now_s += 0.1
    assert 14 <= slurm.looks - before <= 16


def test_one_slow_look_lets_nobody_wait() -> None:
    """Two seconds after a restart, between quick ones: the next is as soon as ever."""
    slurm = SlowSlurm()
    slurm.looks_in(5)
    slurm.takes_s = 2.0
    assert slurm.looks_in(2) == 1
    slurm.takes_s = 0.0
    assert slurm.looks_in(5) >= 4


def test_what_comes_back_is_seen_soon_however_long_looks_tried() -> None:
    """Six seconds without an answer are followed by a pause of two, not of ten."""
    slurm = SlowSlurm()
    slurm.looks_in(3)
    slurm.is_away, slurm.takes_s = True, 6.0
    assert slurm.looks_in(6) == 1
    slurm.is_away, slurm.takes_s = False, 0.0
    assert slurm.looks_in(3) == 1


def test_one_that_does_not_answer_is_asked_more_rarely() -> None:
    """Pauses of 2, 4, 8, and then 10 s; once it answers, the usual ones."""
    slurm = SlowSlurm()
    slurm.is_away = True
    assert 7 <= slurm.looks_in(60) <= 9
    slurm.is_away = False
    slurm.looks_in(10)
    assert 9 <= slurm.looks_in(10) <= 10


def test_what_was_changed_is_looked_at_at_once() -> None:
    """The next call looks, unless Slurm is away."""
    slurm = SlowSlurm()
    assert slurm.lookout.look() is not None
    assert slurm.lookout.look() is None
    slurm.lookout.hurry()
    assert slurm.lookout.look() is not None
