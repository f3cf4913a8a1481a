"""YARN's list: who is selected by which time, and the shapes of what is shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Service
from tests.service.yarn.facts import (
    ARRIVAL,
    EXAMPLE,
    ID,
    MINUTE,
    NOW,
    PERIOD,
    call,
    ids,
    listed,
    stage,
    submit,
)

SECOND_ID = "reservation_1404198295326_0004"

#: A stage that can be placed in one way only.
RIGID = {"stages": [stage(220, 220)], "window": MINUTE}


def memory(amount: int) -> dict[str, Any]:
    """Return a resource of as many vCores as GiB, as it is listed."""
    most = str(2**63 - 1)
    kinds = [("memory-mb", "Mi", amount * 1024), ("vcores", "", amount)]
    return {
        "memory": str(amount * 1024),
        "vCores": str(amount),
        "resourceInformations": {
            "resourceInformation": [
                {
                    "maximumAllocation": most,
                    "minimumAllocation": "0",
                    "name": name,
                    "resourceType": "COUNTABLE",
                    "units": units,
                    "value": str(value),
                }
                for name, units, value in kinds
            ]
        },
    }


class TestShape:
    def test_one_reservation_is_an_object_with_strings(self, yarn: Service) -> None:
        """The whole answer to a list of one, as YARN writes it."""
        submit(yarn, recurrence_expression=PERIOD, **RIGID)

        answer = call(yarn, "list", queue="dedicated", include_resource_allocations="true")

        assert answer.get_json() == {
            "reservations": {
                "acceptance-time": str(NOW),
                "user": "alice",
                "reservation-id": ID,
                "resource-allocations": {
                    "resource": memory(220),
                    "startTime": str(ARRIVAL),
                    "endTime": str(ARRIVAL + MINUTE),
                },
                "reservation-definition": {
                    "arrival": str(ARRIVAL),
                    "deadline": str(ARRIVAL + MINUTE),
                    "reservation-name": "res_1",
                    "recurrence-expression": str(PERIOD),
                    "priority": "0",
                    "reservation-requests": {
                        "reservation-request-interpreter": "0",
                        "reservation-request": {
                            "capability": {"memory": "1024", "vCores": "1"},
                            "min-concurrency": "220",
                            "num-containers": "220",
                            "duration": "60000",
                        },
                    },
                },
            }
        }

    def test_several_are_arrays(self, yarn: Service) -> None:
        """Reservations and stages are arrays if there are several."""
        submit(yarn)
        submit(yarn, SECOND_ID)

        shown = call(yarn, "list", queue="dedicated").get_json()["reservations"]

        assert [one["reservation-id"] for one in shown] == [ID, SECOND_ID]
        asked = shown[0]["reservation-definition"]["reservation-requests"]
        assert [one["num-containers"] for one in asked["reservation-request"]] == ["220", "110"]

    def test_none_has_no_member(self, yarn: Service) -> None:
        """An empty list is an empty object."""
        answer = call(yarn, "list", queue="dedicated")

        assert (answer.status_code, answer.get_json()) == (200, {})

    def test_absent_members_are_defaults(self, yarn: Service) -> None:
        """Without recurrence and priority they are listed as 0; without a name there is none."""
        submit(yarn, priority=None, reservation_name=None)

        (entry,) = listed(yarn)

        told = entry["reservation-definition"]
        assert (told["recurrence-expression"], told["priority"]) == ("0", "0")
        assert "reservation-name" not in told
        assert "resource-allocations" not in entry

    def test_allocations_begin_at_the_arrival(self, yarn: Service) -> None:
        """What comes before the first container, and between two stages, is listed with 0."""
        submit(yarn, "reservation_1_0001", stages=[stage(480, 480)], window=MINUTE)
        submit(yarn, stages=[stage(300, 300)], window=2 * MINUTE)

        (entry,) = listed(yarn, reservation_id=ID, include_resource_allocations="true")

        shown = entry["resource-allocations"]
        assert [one["resource"]["vCores"] for one in shown] == ["0", "300"]
        assert shown[0]["startTime"] == str(ARRIVAL)
        assert shown[0]["endTime"] == shown[1]["startTime"] == str(ARRIVAL + MINUTE)

    def test_stages_side_by_side_are_added(self, yarn: Service) -> None:
        """ALL of two stages in one minute holds both."""
        submit(yarn, stages=[stage(100, 100), stage(50, 50)], interpreter=1, window=MINUTE)

        (entry,) = listed(yarn, include_resource_allocations="true")

        assert entry["resource-allocations"]["resource"]["vCores"] == "150"


#: Times of a list, from the arrival on in ms, and whether the reservation of a minute is in it.
TIMES = [
    ({}, True),
    ({"start_time": -5, "end_time": -1}, True),
    ({"start_time": 0, "end_time": ARRIVAL - 1}, False),
    ({"start_time": 0, "end_time": ARRIVAL}, True),
    ({"start_time": ARRIVAL + MINUTE - 1}, True),
    ({"start_time": ARRIVAL + MINUTE}, False),
]

#: The same for one that recurs every four hours, long after the Plan's horizon.
RECURRENT = [
    ({"start_time": 0, "end_time": ARRIVAL - 1}, False),
    ({"start_time": 0, "end_time": ARRIVAL}, True),
    ({"start_time": ARRIVAL - PERIOD, "end_time": ARRIVAL - PERIOD + MINUTE}, False),
    ({"start_time": ARRIVAL + MINUTE, "end_time": ARRIVAL + PERIOD - 1}, False),
    ({"start_time": ARRIVAL + MINUTE, "end_time": ARRIVAL + PERIOD}, True),
    ({"start_time": ARRIVAL + PERIOD + 1, "end_time": ARRIVAL + PERIOD + 2}, True),
    ({"start_time": ARRIVAL + 999 * PERIOD, "end_time": ARRIVAL + 999 * PERIOD}, True),
    (
        {
            "start_time": ARRIVAL + 999 * PERIOD + MINUTE,
            "end_time": ARRIVAL + 1000 * PERIOD - 1,
        },
        False,
    ),
    ({"start_time": ARRIVAL + 999 * PERIOD + MINUTE}, True),
]


class TestSelection:
    def test_by_time(self, yarn: Service) -> None:
        """Start by the end of the query, which counts; end after its start, which does not."""
        submit(yarn, **RIGID)

        assert [bool(ids(yarn, **times)) for times, _ in TIMES] == [wanted for _, wanted in TIMES]

    def test_a_recurrence_modulo_its_period(self, yarn: Service) -> None:
        """Every instance counts, and none comes before the first."""
        submit(yarn, recurrence_expression=PERIOD, **RIGID)

        found = [bool(ids(yarn, **times)) for times, _ in RECURRENT]

        assert found == [wanted for _, wanted in RECURRENT]

    def test_every_instance_is_kept(self, yarn: Service) -> None:
        """Days later the Plan holds the recurrences of that day, at the same time of the period."""
        submit(yarn, recurrence_expression=PERIOD, **RIGID)
        for _ in range(9):
            yarn.clock.advance(8 * 3600)
            yarn.reserve(f"r{yarn.clock.now_ms()}")  # moves the Plan on

        held = yarn.client.get(f"/v1/reservations/{ID}").get_json()

        starts = [atom["allocation"][0][0] for atom in held["atoms"]]
        origin_s = NOW // 1000
        assert {(origin_s + start) * 1000 % PERIOD for start in starts} == {ARRIVAL % PERIOD}
        assert max(starts) > 3 * 86400
        assert held["state"] in ("accepted", "active")

    def test_by_id(self, yarn: Service) -> None:
        """Times are ignored then, and the queue says where to look."""
        submit(yarn)
        submit(yarn, SECOND_ID)
        never = {"start_time": 0, "end_time": 1}

        assert ids(yarn, reservation_id=SECOND_ID, **never) == [SECOND_ID]
        assert ids(yarn, queue="default", reservation_id=ID) == []
        assert ids(yarn, reservation_id="reservation_1_0001") == []

    def test_by_queue(self, yarn: Service) -> None:
        """Without a queue it is that of the name default."""
        submit(yarn)
        submit(yarn, SECOND_ID, queue="default")

        assert ids(yarn) == [ID]
        answer = call(yarn, "list").get_json()
        assert answer["reservations"]["reservation-id"] == SECOND_ID

    def test_what_was_not_asked_as_yarn_does_is_not_listed(self, yarn: Service) -> None:
        """Reservations of /v1 have no definition, whatever their ids."""
        yarn.reserve(ID, queue="dedicated")

        assert ids(yarn) == []
        submit(yarn)
        assert ids(yarn) == [ID]

    @pytest.mark.parametrize(
        ("query", "status", "start"),
        [
            ({"reservation_id": "res_1_1"}, 404, "The specified reservation id is invalid: "),
            ({"reservation_id": ""}, 404, "The specified reservation id is invalid: "),
            ({"reservation_id": "reservation_a_b"}, 400, "For input string: "),
            ({"queue": "nowhere"}, 400, "The specified queue: nowhere is not managed"),
            ({"queue": "rest"}, 400, "The specified queue: rest is not managed"),
            ({"queue": ""}, 400, "The queue is not specified"),
            ({"start_time": 5, "end_time": 4}, 400, "The specified end time must be greater"),
            ({"start_time": "now"}, 400, "?start-time: "),
            ({"nonsense": 1}, 400, "?nonsense: "),
        ],
    )
    def test_what_cannot_be_listed(
        self, yarn: Service, query: dict[str, Any], status: int, start: str
    ) -> None:
        """The statuses and messages of YARN."""
        answer = call(yarn, "list", **{"queue": "dedicated", **query})

        assert answer.status_code == status
        assert answer.get_json()["RemoteException"]["message"].startswith(start)

    def test_the_whole_example(self, yarn: Service) -> None:
        """It is held from its arrival on, and fits one of its two stages."""
        call(yarn, "submit", EXAMPLE)

        (entry,) = listed(yarn, include_resource_allocations="true")

        pieces = entry["resource-allocations"]
        pieces = [pieces] if isinstance(pieces, dict) else pieces
        work = sum(
            int(one["resource"]["vCores"]) * (int(one["endTime"]) - int(one["startTime"]))
            for one in pieces
        )
        assert work in (220 * MINUTE, 110 * 2 * MINUTE)
