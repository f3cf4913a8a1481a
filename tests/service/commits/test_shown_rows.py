"""ShownRows: a list shows reservations as they are now, and writes each once until it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from service import shown_rows
from service.shown_rows import ShownRows
from service.windows import WindowBook
from tests.service.conftest import Service

EARLY = "window(atom(<1 cpu>, 8, 8, 600, 4800), 0, +2h)"
LATER = "window(atom(<1 cpu>, 2, 2, 600, 1200), +10m, +3h)"


def listed(service: Service) -> list[Any]:
    """Return the list, and see that it is what a process without a memory would show."""
    shown: list[Any] = service.client.get("/v1/reservations").get_json()["reservations"]
    rows = ShownRows(WindowBook())
    with service.runtime.reading() as plan:
        taken = rows.take(plan, np.arange(len(plan.table)))
    assert shown == [msgspec.json.decode(text) for text in rows.texts(taken)]
    return shown


def renegotiate(service: Service) -> None:
    """Ask for another thing under the same id."""
    answer = service.client.put(
        "/v1/reservations/a", json={"rdl": LATER}, headers={"If-Match": "*"}
    )
    assert answer.status_code == 200, answer.get_json()


def lose(service: Service) -> None:
    """Take half of the machines away."""
    body = {"machines": "plain", "count": 5, "end": "+2h"}
    assert service.client.post("/v1/cluster/outages", json=body).status_code == 201


def advance(service: Service) -> None:
    """Let it begin."""
    service.clock.advance(700)
    service.reserve("later", LATER)


def cancel(service: Service) -> None:
    """Give it up."""
    headers = {"If-Match": "*"}
    assert service.client.delete("/v1/reservations/a", headers=headers).status_code == 200


def accept(service: Service) -> None:
    """Keep what is held."""
    assert service.client.post("/v1/holds/h/accept").status_code == 200


def rezone(service: Service) -> None:
    """Read times in another zone."""
    before = service.client.get("/v1/cluster")
    body = {**before.get_json(), "zone": "Europe/Berlin"}
    headers = {"If-Match": before.headers["ETag"]}
    answer = service.client.put("/v1/cluster", json=body, headers=headers)
    assert answer.status_code == 200, answer.get_json()


@pytest.mark.parametrize("change", [renegotiate, lose, advance, cancel, accept, rezone])
def test_a_list_shows_what_has_changed(service: Service, change: Callable[[Service], None]) -> None:
    """Whatever it is that changes: what is requested, held, where, its state, the cluster."""
    service.reserve("a", EARLY)
    service.reserve("b", LATER)
    service.client.post("/v1/holds", json={"rdl": LATER, "id": "h", "time": 30})
    before = listed(service)
    change(service)

    assert listed(service) != before


def test_machines_that_move_are_shown(service: Service) -> None:
    """A relocation leaves the revision as it is."""
    service.reserve("a", "window(atom(<1 cpu>, 8, 8, 600, 4800), +10m, +20m)")
    service.reserve("b", "window(atom(<1 cpu>, 2, 2, 600, 1200), +10m, +20m)")
    cancel(service)  # the first eight are free again
    before = listed(service)
    body = {"machines": "plain", "count": 2, "end": "+2h"}
    assert service.client.post("/v1/cluster/outages", json=body).status_code == 201
    after = listed(service)

    assert after[1]["revision"] == before[1]["revision"]
    assert _slots(after[1]) != _slots(before[1])


def _slots(entry: Any) -> list[Any]:
    found: list[Any] = entry["atoms"][0]["slots"]
    return found


def test_what_has_not_changed_is_not_written_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three reservations one changes."""
    for id_ in "abc":
        service.reserve(id_, "window(atom(<1 cpu>, 1, 1, 600, 600), 0, +2h)")
    listed(service)
    written: list[str] = []
    write = ShownRows._write

    def noted(self: ShownRows, row: Any, grid: Any) -> msgspec.Raw:
        written.append(row.reservation.id)
        return write(self, row, grid)

    cancel(service)
    monkeypatch.setattr(ShownRows, "_write", noted)
    for _ in range(2):
        service.client.get("/v1/reservations")

    assert written == ["a"]


def test_the_oldest_are_forgotten(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory is bounded."""
    monkeypatch.setattr(shown_rows, "_MOST", 2)
    for id_ in "abc":
        service.reserve(id_, "window(atom(<1 cpu>, 1, 1, 600, 600), 0, +2h)")
    listed(service)

    assert list(service.runtime.shown_rows._known) == [1, 2]
