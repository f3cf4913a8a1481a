"""Times by the clock of the request's zone, else the cluster's: sentences, and fields alongside."""

from __future__ import annotations

import json

import pytest

from tests.service.conftest import Service

_FULL = "window(atom(<1 cpu>, 10, 10, 1h, 10h), 0, 1h{zone})"


@pytest.fixture
def zoned(service: Service) -> Service:
    """A server whose cluster is in Berlin, all of it held for an hour."""
    path = "/v1/cluster"
    cluster = service.client.get(path)
    body = {**cluster.get_json(), "zone": "Europe/Berlin"}
    answer = service.client.put(
        path,
        data=json.dumps(body),
        headers={"If-Match": cluster.headers["ETag"]},
        content_type="application/json",
    )
    assert answer.status_code == 200, answer.get_data(as_text=True)
    assert service.client.get(path).get_json()["zone"] == "Europe/Berlin"
    service.reserve("first", _FULL.format(zone=""))
    return service


@pytest.mark.parametrize(
    ("named", "zone", "time"),
    [
        ("", "Europe/Berlin", "Mon 2026-01-05 01:00 (Europe/Berlin)"),
        (', zone="Asia/Tokyo"', "Asia/Tokyo", "Mon 2026-01-05 09:00 (Asia/Tokyo)"),
    ],
)
def test_a_refusal_reads_in_the_zone_of_its_request(
    zoned: Service, named: str, zone: str, time: str
) -> None:
    """The sentence says the zone; the same instant is shown next to the seconds in RFC 3339."""
    refusal = zoned.ask("second", _FULL.format(zone=named)).get_json()["refusal"]
    assert time in refusal["detail"]
    assert refusal["zone"] == zone
    assert (refusal["binding"]["at"], refusal["binding"]["at_at"]) == (0, "2026-01-05T00:00:00Z")
    assert refusal["submitted_at"] == "2026-01-05T00:00:00Z"
    assert zoned.client.get("/v1/reservations/second").get_json()["zone"] == zone


def test_a_reservation_says_its_zone_and_utc_says_nothing(service: Service) -> None:
    """Absent means UTC, as before there were zones."""
    service.reserve("a", "window(atom(<1 cpu>, 1, 1, 1h, 1h), 0, 2h)")
    service.reserve("b", 'window(atom(<1 cpu>, 1, 1, 1h, 1h), 0, 2h, zone="Asia/Tokyo")')
    a, b = (service.client.get(f"/v1/reservations/{one}").get_json() for one in "ab")
    assert "zone" not in a
    assert b["zone"] == "Asia/Tokyo"


def test_seconds_of_a_reservation_have_dates_next_to(service: Service) -> None:
    """Its allocation and its window, in the answer to POST, alone, and in a list."""
    text = "window(order(fetch: atom(<1 cpu>, 1, 1, 1h, 1h), atom(<1 cpu>, 2, 2, 1h, 2h)), 0, 2h)"
    made = service.ask("a", text).get_json()
    alone = service.client.get("/v1/reservations/a").get_json()
    listed = service.client.get("/v1/reservations").get_json()["reservations"][0]
    for shown in (made, alone, listed):
        assert [(atom["name"], atom["allocation_at"]) for atom in shown["atoms"]] == [
            ("fetch", [["2026-01-05T00:00:00Z", "2026-01-05T01:00:00Z"]]),
            (
                "2 x <1 cpu, 4 GiB memory> for 1h (second of order)",
                [["2026-01-05T01:00:00Z", "2026-01-05T02:00:00Z"]],
            ),
        ]
        assert shown["window_at"] == ["2026-01-05T00:00:00Z", "2026-01-05T02:00:00Z"]
