"""The answer to an admission, which is made before the commit, is what the Plan then keeps."""

from __future__ import annotations

import pytest

from service.asks import ReservationRequest, read_ask
from service.commits.commands import Admission, ReservationAnswer
from tests.service.conftest import Service

WANTED = {"id": "a", "tenant": "ads", "weight": 2.5, "priority": 3, "agent": "gree-l"}


@pytest.mark.parametrize(
    "rdl",
    [
        "window(atom(<1 cpu>, 2, 4, 10m, 40m), +20m, +2h)",
        "atom(<1 cpu>, 1, 10, 90s, 15m)",
        "any(atom(<11 cpu>, 1, 1, 1m, 1m), atom(<1 cpu>, 1, 1, 1m, 1m))",
        "every(1h, window(atom(<1 cpu>, 1, 1, 60, 60), 30m, 40m), anchor=7200)",
    ],
)
def test_the_answer_is_the_reservation_that_is_kept(service: Service, rdl: str) -> None:
    """Not yet begun or begun, with choices, notes and endless recurrence: not a field differs."""
    service.clock.advance(120)
    ask = read_ask(service.runtime, ReservationRequest(rdl=rdl, **WANTED))

    (answer,) = service.runtime.planner.change(Admission((ask,)))

    assert isinstance(answer, ReservationAnswer)
    with service.runtime.reading() as plan:
        kept = plan.reservation("a")
        assert kept is not None
        assert answer.reservation.to_json(answer.grid) == kept.to_json(plan.grid)
        assert (answer.version, answer.grid) == (plan.version, plan.grid)
