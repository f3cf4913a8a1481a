"""TurnPrecedence: who begins a call lets the planner's turn end first."""

from __future__ import annotations

import threading

import pytest

from service.host import precedence
from service.host.precedence import TurnPrecedence


def test_a_call_that_gives_way_continues_after_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for as long as the turn lasts, and no longer; without a turn it does not wait."""
    monkeypatch.setattr(precedence, "_LONGEST_S", 60.0)
    turn, begun, went_on = TurnPrecedence(), threading.Event(), threading.Event()
    turn.give_way()

    def call() -> None:
        begun.set()
        turn.give_way()
        went_on.set()

    thread = threading.Thread(target=call)
    with turn.held():
        thread.start()
        assert begun.wait(300)
        assert not went_on.wait(0.05)
    thread.join(300)
    assert went_on.is_set()


def test_no_one_gives_way_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that does not end keeps a call for a moment."""
    monkeypatch.setattr(precedence, "_LONGEST_S", 0.001)
    turn = TurnPrecedence()
    with turn.held():
        turn.give_way()
    turn.give_way()
