"""A Slurm whose accounting does not answer when a server begins to lead."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.backends.slurm.control.errors import SlurmError
from tests.service.conftest import Open


def test_a_silent_accounting_holds_up_a_leader_for_some_seconds_only(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ten seconds without it the leader continues; the next tenure asks for it again."""
    now_s, asked = [0.0], []

    def begin(*_arguments: Any, needs_history: bool, **_options: Any) -> Any:
        asked.append(needs_history)
        if needs_history:
            raise SlurmError("slurmdbd does not answer")
        return object()

    module = "service.dispatching.dispatcher_thread"
    monkeypatch.setattr(f"{module}.Tenure", begin)
    monkeypatch.setattr(f"{module}.time.monotonic", lambda: now_s[0])
    dispatcher = open_service(tick_s=0).runtime.dispatcher
    for now_s[0] in (0.0, 4.0, 9.9):
        with pytest.raises(SlurmError, match="slurmdbd"):
            dispatcher._begin_tenure()
    now_s[0] = 10.0
    dispatcher._begin_tenure()
    with pytest.raises(SlurmError, match="slurmdbd"):
        dispatcher._begin_tenure()
    assert asked == [True, True, True, False, True]
