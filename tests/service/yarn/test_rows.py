"""Every row of what is known of YARN's wire: statuses, messages and shapes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from service.access.user import Actor, Role, User
from tests.patience import eventually
from tests.service.conftest import Service
from tests.service.yarn.facts import (
    ARRIVAL,
    BASE,
    EXAMPLE,
    ID,
    MINUTE,
    NOW,
    call,
    definition,
    ids,
    listed,
    stage,
    submission,
    submit,
)

BAD = "BadRequestException"
PACKAGE = "org.apache.hadoop.yarn.webapp"
OTHER_ID = "reservation_1404198295326_0004"


def without(body: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a body without some members."""
    return {name: value for name, value in body.items() if name not in names}


class TestSuccess:
    def test_a_new_id(self, yarn: Service) -> None:
        """200 with exactly one member, an id of YARN's form that counts up."""
        answers = [call(yarn, "new-reservation") for _ in range(2)]

        assert [answer.status_code for answer in answers] == [200, 200]
        assert all(answer.content_type.startswith("application/json") for answer in answers)
        made = [answer.get_json() for answer in answers]
        assert made == [
            {"reservation-id": f"reservation_{NOW}_0001"},
            {"reservation-id": f"reservation_{NOW}_0002"},
        ]

    def test_the_example_is_accepted_without_a_body(self, yarn: Service) -> None:
        """Submit answers 202 and nothing more, and the Plan holds it."""
        answer = call(yarn, "submit", EXAMPLE)

        assert (answer.status_code, answer.get_data()) == (202, b"")
        held = yarn.client.get(f"/v1/reservations/{ID}").get_json()
        assert (held["state"], held["tenant"], held["queue"]) == ("accepted", "alice", "dedicated")
        assert "every(14400, " in held["expression"]

    @pytest.mark.parametrize("path", ["update", "delete"])
    def test_a_change_answers_an_empty_object(self, yarn: Service, path: str) -> None:
        """Update and delete answer 200 and an empty JSON object."""
        submit(yarn)
        body = {"reservation-id": ID, "reservation-definition": definition([stage(10, 1)])}

        answer = call(yarn, path, body if path == "update" else {"reservation-id": ID})

        assert (answer.status_code, answer.get_json()) == (200, {})
        assert answer.content_type.startswith("application/json")

    def test_what_an_update_changes(self, yarn: Service) -> None:
        """The Plan and the list have the new definition; who submitted it when stays."""
        submit(yarn)
        before = listed(yarn)[0]
        yarn.clock.advance(60)
        asked = definition([stage(10, 1)])

        call(yarn, "update", {"reservation-id": ID, "reservation-definition": asked}, user="bob")

        after = listed(yarn)[0]
        stages = after["reservation-definition"]["reservation-requests"]["reservation-request"]
        assert stages["num-containers"] == "10"
        assert [after[k] for k in ("user", "acceptance-time")] == [
            before[k] for k in ("user", "acceptance-time")
        ]

    def test_an_update_without_capacity_leaves_all_as_it_was(self, yarn: Service) -> None:
        """It is 400, and the list still shows the old definition."""
        submit(yarn)
        before = listed(yarn, include_resource_allocations="true")

        asked = definition([stage(481, 481)])
        answer = call(yarn, "update", {"reservation-id": ID, "reservation-definition": asked})

        assert answer.status_code == 400
        assert listed(yarn, include_resource_allocations="true") == before

    def test_what_is_deleted_is_listed_no_more(self, yarn: Service) -> None:
        """The list is empty, and the Plan has cancelled it."""
        submit(yarn)

        call(yarn, "delete", {"reservation-id": ID})

        assert listed(yarn) == []
        assert yarn.client.get(f"/v1/reservations/{ID}").get_json()["state"] == "cancelled"


class TestSubmitTwice:
    def test_the_same_definition_is_answered_the_same_way(self, yarn: Service) -> None:
        """202 again, however its numbers are written, and one reservation."""
        submit(yarn)
        again = json.loads(json.dumps(submission()).replace("220", '"220"'))

        assert call(yarn, "submit", again).status_code == 202

        assert ids(yarn) == [ID]

    def test_an_id_that_is_written_otherwise_is_the_same(self, yarn: Service) -> None:
        """The counter is a number: zeros before it say nothing."""
        submit(yarn)

        assert call(yarn, "submit", submission("reservation_1404198295326_3")).status_code == 202
        assert ids(yarn) == [ID]

    def test_another_definition_is_refused(self, yarn: Service) -> None:
        """400, and what stands stays."""
        submit(yarn)
        before = listed(yarn)

        answer = call(yarn, "submit", submission(reservation_name="res_2"), user="stranger")

        assert answer.status_code == 400
        message = answer.get_json()["RemoteException"]["message"]
        start = f"Reservation allocation already exists with the reservation id {ID}"
        assert message.startswith(start)
        assert listed(yarn) == before

    def test_a_deleted_id_may_be_submitted_again(self, yarn: Service) -> None:
        """Then the new one is listed, and can be updated and deleted."""
        submit(yarn)
        call(yarn, "delete", {"reservation-id": ID})

        submit(yarn, reservation_name="res_2")

        (entry,) = listed(yarn)
        assert entry["reservation-definition"]["reservation-name"] == "res_2"
        assert call(yarn, "delete", {"reservation-id": ID}).status_code == 200
        assert listed(yarn) == []

    def test_a_refused_id_may_be_submitted_again(self, yarn: Service) -> None:
        """A request without capacity leaves its id free."""
        body = submission(stages=[stage(481, 481)])
        assert call(yarn, "submit", body).status_code == 400

        submit(yarn)

        assert ids(yarn) == [ID]


#: What is sent, and what it is answered: call, body, status, exception, start of the message.
FAULTS: dict[str, tuple[str, Any, int, str, str]] = {
    "no definition": (
        "submit",
        without(EXAMPLE, "reservation-definition"),
        400,
        BAD,
        "Input ReservationDefinition should not be null",
    ),
    "null definition": (
        "submit",
        {**EXAMPLE, "reservation-definition": None},
        400,
        BAD,
        "Input ReservationDefinition should not be null",
    ),
    "no requests": (
        "submit",
        submission(asked=without(definition(), "reservation-requests")),
        400,
        BAD,
        "The ReservationDefinition should contain at least one ReservationRequest",
    ),
    "no stages": (
        "submit",
        submission(stages=[]),
        400,
        BAD,
        "The ReservationDefinition should contain at least one ReservationRequest",
    ),
    "update without id": (
        "update",
        {"reservation-definition": definition()},
        400,
        BAD,
        "Update operations must specify an existing ",
    ),
    "update without definition": (
        "update",
        {"reservation-id": ID},
        400,
        BAD,
        "Input ReservationDefinition should not be null",
    ),
    "delete without id": ("delete", {}, 400, BAD, "Missing reservation id."),
    "no id": ("submit", submission(None), 400, BAD, "Reservation id cannot be null"),
    "no queue": ("submit", submission(queue=None), 400, BAD, "The queue is not specified"),
    "empty queue": ("submit", submission(queue=""), 400, BAD, "The queue is not specified"),
    "unknown queue": (
        "submit",
        submission(queue="nowhere"),
        400,
        BAD,
        "The specified queue: nowhere is not managed by reservation system",
    ),
    "queue without plan": (
        "submit",
        submission(queue="rest"),
        400,
        BAD,
        "The specified queue: rest is not managed by reservation system",
    ),
    "unknown id on update": (
        "update",
        {"reservation-id": ID, "reservation-definition": definition()},
        400,
        BAD,
        f"The specified reservation with ID: {ID} is unknown",
    ),
    "unknown id on delete": (
        "delete",
        {"reservation-id": ID},
        400,
        BAD,
        f"The specified reservation with ID: {ID} is unknown",
    ),
    "deadline in the past": (
        "submit",
        submission(arrival=NOW - 2 * MINUTE, deadline=NOW - MINUTE),
        400,
        BAD,
        f"The specified deadline: {NOW - MINUTE} is the past",
    ),
    "window too short": (
        "submit",
        submission(stages=[stage(1, 1, 20 * MINUTE)]),
        400,
        BAD,
        "",
    ),
    "no capacity": (
        "submit",
        submission(stages=[stage(481, 481)]),
        400,
        BAD,
        "",
    ),
    "beyond the horizon": (
        "submit",
        submission(arrival=ARRIVAL + 10**11, deadline=ARRIVAL + 10**11 + 60 * MINUTE),
        400,
        BAD,
        "",
    ),
    "window longer than the recurrence": (
        "submit",
        submission(recurrence_expression="60000"),
        400,
        BAD,
        "",
    ),
    "recurrence that is no number": (
        "submit",
        submission(recurrence_expression="0 0 * * *"),
        400,
        BAD,
        "",
    ),
    "wrong prefix": (
        "submit",
        submission("res_1404198295326_0003"),
        404,
        "IOException",
        "The specified reservation id is invalid: res_1404198295326_0003",
    ),
    "too few parts": (
        "delete",
        {"reservation-id": "reservation_1404198295326"},
        404,
        "IOException",
        "The specified reservation id is invalid: reservation_1404198295326",
    ),
    "too many parts": (
        "update",
        {"reservation-id": f"{ID}_1", "reservation-definition": definition()},
        404,
        "IOException",
        f"The specified reservation id is invalid: {ID}_1",
    ),
    "parts that are no numbers": (
        "delete",
        {"reservation-id": "reservation_now_0003"},
        400,
        "NumberFormatException",
        'For input string: "now"',
    ),
    "interpreter out of range": (
        "submit",
        submission(interpreter=4),
        400,
        BAD,
        "The ReservationDefinition cannot be read: ",
    ),
    "recurrence of cron": (
        "submit",
        submission(recurrence_expression="0 2 * * *"),
        400,
        BAD,
        "The ReservationDefinition cannot be read: /recurrence-expression: recurrence-expression "
        "is '0 2 * * *'; write a whole number from 0 to ",
    ),
    "memory under another name": (
        "submit",
        submission(stages=[{**stage(1, 1), "capability": {"memory-mb": 1, "vCores": 1}}]),
        400,
        BAD,
        "The ReservationDefinition cannot be read: /reservation-requests/reservation-request/0/"
        "capability/memory-mb: unknown key 'memory-mb'; known: memory, vCores; "
        "did you mean 'memory'?",
    ),
    "stage without capability": (
        "submit",
        submission(stages=[without(stage(1, 1), "capability")]),
        400,
        BAD,
        "The ReservationDefinition cannot be read: ",
    ),
    "stage that is null": ("submit", submission(stages=[None]), 400, BAD, ""),
    "body that is no object": ("submit", [1], 400, BAD, ""),
    "unknown member": ("submit", {**EXAMPLE, "que": "x"}, 400, BAD, ""),
    "unknown member of a delete": ("delete", {"reservation-id": ID, "id": 1}, 400, BAD, "unknown"),
    "id that is no text": ("delete", {"reservation-id": {"a": 1}}, 404, "IOException", ""),
}


class TestFaults:
    @pytest.mark.parametrize("row", FAULTS)
    def test_a_row_of_the_table(self, yarn: Service, row: str) -> None:
        """The status, the names of the exception and the start of the message are YARN's."""
        path, body, status, exception, start = FAULTS[row]

        answer = call(yarn, path, body)

        fault = answer.get_json()["RemoteException"]
        assert answer.status_code == status, fault
        assert answer.content_type.startswith("application/json")
        assert set(fault) == {"exception", "message", "javaClassName"}
        assert fault["exception"] == exception
        assert fault["javaClassName"].endswith(f".{exception}")
        assert fault["message"].startswith(start)
        assert len(fault["message"]) > 10
        assert listed(yarn) == []

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("new-reservation", None),
            ("submit", EXAMPLE),
            ("update", {"reservation-id": ID, "reservation-definition": definition()}),
            ("delete", {"reservation-id": ID}),
            ("list", None),
        ],
    )
    @pytest.mark.parametrize("user", [None, ""])
    def test_no_user(self, yarn: Service, path: str, body: Any, user: str | None) -> None:
        """Every call without a user is 401."""
        answer = call(yarn, path, body, user=user)

        fault = answer.get_json()["RemoteException"]
        assert answer.status_code == 401
        assert fault["exception"] == "AuthorizationException"
        assert fault["message"].startswith("Unable to obtain user name, user not authenticated")

    def test_no_queue_takes_reservations(self, yarn: Service) -> None:
        """Then the feature is off: new-reservation is 500, the others 400."""
        cluster = yarn.client.get("/v1/cluster")
        body = cluster.get_json()
        body["queues"] = [{"name": "rest", "reservable": False}]
        headers = {"If-Match": cluster.headers["ETag"]}
        assert yarn.client.put("/v1/cluster", json=body, headers=headers).status_code == 200

        made, sent = call(yarn, "new-reservation"), call(yarn, "submit", EXAMPLE)

        assert (made.status_code, sent.status_code) == (500, 400)
        assert made.get_json()["RemoteException"]["message"].startswith(
            "Unable to create new reservation"
        )
        message = sent.get_json()["RemoteException"]["message"]
        assert message.startswith("Reservation is not enabled")

    @pytest.mark.parametrize(
        ("raw", "media", "status"),
        [
            (b"{", "application/json", 400),
            (b'{"queue": 1, "queue": 2}', "application/json", 400),
            (b"\xff", "application/json", 400),
            (b"queue=1", "application/x-www-form-urlencoded", 415),
            (b"", "", 415),
        ],
    )
    def test_a_body_that_cannot_be_read(
        self, yarn: Service, raw: bytes, media: str, status: int
    ) -> None:
        """It is a RemoteException too, with or without a query."""
        for query in ("?user.name=alice", ""):
            url = f"{BASE}/submit{query}"
            answer = yarn.client.post(url, data=raw, content_type=media)
            assert (answer.status_code, list(answer.get_json())) == (status, ["RemoteException"])


class TestTokens:
    """With tokens in force the token's user counts, and nothing of the query."""

    @pytest.fixture
    def as_user(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Return a function that makes every call that of a token's user."""

        def let(user: User) -> None:
            monkeypatch.setattr(
                "service.http.gate.Gate.admit", lambda *_given: Actor(user, call="a test")
            )

        return let

    def test_the_token_says_who_submits_for_which_tenant(self, yarn: Service, as_user: Any) -> None:
        """Not the query: the list shows the token's name, the Plan one of its tenants."""
        as_user(User("carol", Role.USER, frozenset({"ads"})))

        submit(yarn)

        assert listed(yarn)[0]["user"] == "carol"
        assert yarn.client.get(f"/v1/reservations/{ID}").get_json()["tenant"] == "ads"

    def test_the_default_static_user_is_refused(self, yarn: Service, as_user: Any) -> None:
        """403 for dr.who."""
        as_user(User("dr.who", Role.ADMIN))

        answer = call(yarn, "new-reservation")

        assert answer.status_code == 403
        assert answer.get_json()["RemoteException"]["exception"] == "ForbiddenException"

    def test_others_may_neither_see_nor_change(self, yarn: Service, as_user: Any) -> None:
        """400 as YARN's access lists answer; the duplicate is reported before, as YARN tells it."""
        submit(yarn)
        as_user(User("eve", Role.USER, frozenset({"other"})))
        asked = {"reservation-id": ID, "reservation-definition": definition()}

        changed, deleted = call(yarn, "update", asked), call(yarn, "delete", {"reservation-id": ID})
        twice = call(yarn, "submit", submission(reservation_name="mine"))

        assert [one.status_code for one in (changed, deleted, twice)] == [400, 400, 400]
        for answer in (changed, deleted):
            message = answer.get_json()["RemoteException"]["message"]
            assert re.match("User eve does not have permission", message)
        assert "already exists" in twice.get_json()["RemoteException"]["message"]
        assert listed(yarn) == []

    def test_another_tenants_definition_is_never_the_same(
        self, yarn: Service, as_user: Any
    ) -> None:
        """Its id with its very definition is taken: success would promise what no one gets."""
        submit(yarn)
        as_user(User("eve", Role.USER, frozenset({"other"})))

        answer = call(yarn, "submit", submission())

        assert answer.status_code == 400
        assert "already exists" in answer.get_json()["RemoteException"]["message"]


def test_an_id_whose_reservation_left_the_plan_gets_a_row_of_its_own(
    yarn: Service, open_service: Any
) -> None:
    """Submitted again in another queue, nothing is notified of who submitted it before."""
    service = open_service(tick_s=0, ended_days=0.05)
    submit(service)
    assert [row.id for row in service.runtime.yarn.rows_of_client_id(ID)] == [ID]
    for hours in (6, 2):
        service.clock.advance(hours * 3600)
        service.runtime.planner.bring_up_to_date()
    eventually(lambda: service.runtime.archive.find(ID))
    assert service.runtime.yarn.rows_of_client_id(ID) == []  # in the transaction in which it left
    later = {"arrival": ARRIVAL + 300 * MINUTE, "deadline": ARRIVAL + 312 * MINUTE}

    answer = call(service, "submit", submission(queue="default", **later), user="bob")

    assert answer.status_code == 202, answer.get_data(as_text=True)
    assert [one["user"] for one in listed(service, queue="default")] == ["bob"]
    assert listed(service) == []


def test_ids_survive_restarts_and_are_unique_among_processes(
    yarn: Service, open_service: Any
) -> None:
    """Another process on the same database continues counting."""
    other = open_service(tick_s=0)
    made = [call(one, "new-reservation").get_json() for one in (yarn, other, yarn)]
    yarn.runtime.close()

    made.append(call(open_service(tick_s=0), "new-reservation").get_json())

    assert [one["reservation-id"] for one in made] == [
        f"reservation_{NOW}_{counter:04d}" for counter in (1, 2, 3, 4)
    ]


def test_what_was_submitted_survives_a_restart(yarn: Service, open_service: Any) -> None:
    """The list of a later process is the list of the one before."""
    submit(yarn)
    before = listed(yarn, include_resource_allocations="true")
    yarn.runtime.close()

    assert listed(open_service(tick_s=0), include_resource_allocations="true") == before
    assert OTHER_ID not in before
