"""Offers over HTTP: with refusals, on request, kept, and accepted when sent back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import CLUSTER, Open, Service

WHOLE_CLUSTER = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)"
LIMITS = """
[[policies]]
type = "limits"
name = "short"
tenant = "*"
max_window = "2h"
min_lead = "10m"
"""


def offers_of(service: Service, rdl: object, **more: Any) -> Any:
    """Ask what would be accepted."""
    answer = service.client.post("/v1/offers", json={"rdl": rdl, **more})
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


def test_offers_count_the_memory_that_a_request_is_given(service: Service) -> None:
    """All memory is taken: half a core has none left, whether it is asked about or asked for."""
    service.reserve("full", "window(atom(<0.1 cpu, 4 GiB memory>, 10, 10, 1h, 10h), 0, 1h)")
    rdl = "window(atom(<0.5 cpu>, 1, 1, 10m, 10m), 0, 1h)"
    told = offers_of(service, rdl)
    answer = service.ask("half", rdl)
    assert (told["accepted"], answer.status_code) == (False, 409)
    assert told["refusal"]["binding"]["resource"] == "memory"
    offered = [one["expression"] for one in told["offers"]]
    assert offered == [one["expression"] for one in answer.get_json()["refusal"]["offers"]]


class TestRefusals:
    def test_asked_again_later_offer_the_same(self, service: Service) -> None:
        """Deadlines are dates: an answer half a minute later reads the same."""
        service.reserve("first", "window(atom(<1 cpu>, 10, 10, 1h, 10h), 0, 1h)")
        asked = "window(atom(<1 cpu>, 10, 10, 10m, 100m), +0, +15m)"
        before = offers_of(service, asked)["offers"][0]
        service.clock.at_ms += 29_977
        after = offers_of(service, asked)["offers"][0]
        assert before["expression"].endswith("+0, 2026-01-05T01:10:00Z)")
        assert after["expression"] == before["expression"]
        assert after["sentence"] == before["sentence"]
        assert after["sentence"] == ("it would fit if the deadline were Mon 2026-01-05 01:10 (UTC)")

    def test_of_another_size_mean_the_same_later(self, service: Service) -> None:
        """A window that counts from the submission is offered with its dates, on the grid."""
        service.reserve("first", "window(atom(<1 cpu>, 6, 6, 2h, 12h), 0, 2h)")
        asked = "window(atom(<1 cpu>, 1, 10, 10m, 8h), +5m, +1h)"
        offers = offers_of(service, asked)["offers"]
        (smaller,) = (one for one in offers if one["change"]["kind"] == "size")
        assert smaller["expression"].endswith("2026-01-05T00:05:00Z, 2026-01-05T01:00:00Z)")
        service.clock.at_ms += 29_977
        service.reserve("second", smaller["expression"])

    def test_of_another_size_are_known_when_sought_again(self, service: Service) -> None:
        """The history says that a request is an offer of its refusal, whatever its dates."""
        service.reserve("first", "window(atom(<1 cpu>, 6, 6, 2h, 12h), 0, 2h)")
        asked = "window(atom(<1 cpu>, 1, 10, 10m, 8h), +5m, +1h)"
        assert service.ask("second", asked).status_code == 409
        service.clock.at_ms += 120_000
        offers = offers_of(service, asked)["offers"]
        (smaller,) = (one for one in offers if one["change"]["kind"] == "size")

        service.reserve("second", smaller["expression"])

        history = service.client.get("/v1/reservations/second").get_json()["history"]
        assert any("an offer (size) instead of" in entry.get("detail", "") for entry in history)

    def test_carry_offers_that_are_accepted(self, service: Service) -> None:
        """A refusal has at most three, the least change first, for the version it is kept in."""
        service.reserve("first", WHOLE_CLUSTER)

        refusal = service.ask("second", WHOLE_CLUSTER).get_json()["refusal"]

        version = service.client.get("/v1/plan").headers["ETag"].strip('"')
        shares = [offer["change"]["share"] for offer in refusal["offers"]]
        assert 1 <= len(shares) <= 3
        assert shares == sorted(shares)
        assert {str(offer["at_version"]) for offer in refusal["offers"]} == {version}
        service.reserve("third", refusal["offers"][0]["expression"])

    def test_are_kept_with_their_offers(self, open_service: Open) -> None:
        """Reading the refusal shows them, after a restart too."""
        service = open_service()
        service.reserve("first", WHOLE_CLUSTER)
        told = service.ask("second", WHOLE_CLUSTER).get_json()["refusal"]["offers"]
        kept = service.client.get("/v1/reservations/second").get_json()["offers"]
        service.runtime.close()

        after = open_service().client.get("/v1/reservations/second").get_json()["offers"]

        assert told
        assert told == kept == after

    def test_carry_as_many_as_wanted(self, service: Service) -> None:
        """`offers` bounds them, 0 asks for none, and more than ten is an error."""
        service.reserve("first", WHOLE_CLUSTER)

        counts = [
            len(
                service.ask(f"r{n}", WHOLE_CLUSTER, query=f"?offers={n}").get_json()["refusal"][
                    "offers"
                ]
            )
            for n in (0, 1)
        ]

        assert counts == [0, 1]
        assert service.ask("r11", WHOLE_CLUSTER, query="?offers=11").status_code == 400

    def test_of_a_dry_run_name_the_present_version(self, service: Service) -> None:
        """A dry run makes no version, so its offers hold in the one that is."""
        service.reserve("first", WHOLE_CLUSTER)

        answer = service.ask("second", WHOLE_CLUSTER, query="?dry_run=true")

        assert {o["at_version"] for o in answer.get_json()["refusal"]["offers"]} == {1}

    def test_of_a_batch_carry_none_unless_asked(self, service: Service) -> None:
        """In bulk a search for each would take longer than the admissions."""
        batch = [{"rdl": WHOLE_CLUSTER}] * 2
        path = "/v1/reservations:batch"

        counts = []
        for query in ("?dry_run=true", "?dry_run=true&offers=2"):
            results = service.client.post(path + query, json=batch).get_json()["results"]
            refused = next(one["body"] for one in results if one["status"] == 409)
            counts.append(len(refused["refusal"]["offers"]))

        assert counts[0] == 0
        assert 1 <= counts[1] <= 2

    def test_are_not_offered_what_their_own_batch_takes(self, service: Service) -> None:
        """The second of two is offered what is left when the first is in, and gets it."""
        batch = [{"rdl": WHOLE_CLUSTER}] * 2

        answer = service.client.post("/v1/reservations:batch?offers=3", json=batch).get_json()

        refusal = answer["results"][1]["body"]["refusal"]
        assert refusal["offers"][0]["at_version"] == 1
        service.reserve("again", refusal["offers"][0]["expression"])

    def test_have_no_offers_when_there_is_no_time(self, open_service: Open) -> None:
        """The search is bounded: without time the refusal stands alone."""
        service = open_service(offer_s=0.0)
        service.reserve("first", WHOLE_CLUSTER)

        assert service.ask("second", WHOLE_CLUSTER).get_json()["refusal"]["offers"] == []


class TestSearch:
    def test_says_why_and_what_instead(self, service: Service) -> None:
        """Code, sentence and binding, as a refusal has; nothing is changed."""
        service.reserve("first", WHOLE_CLUSTER)

        body = offers_of(service, WHOLE_CLUSTER)

        assert (body["accepted"], body["refusal"]["code"]) == (False, "capacity")
        assert body["refusal"]["binding"]["resource"] == "cpu"
        assert body["offers"]
        assert service.client.get("/v1/plan").headers["ETag"] == '"1"'

    def test_has_no_refusal_for_what_fits(self, service: Service) -> None:
        """What would be accepted needs no offers."""
        body = offers_of(service, WHOLE_CLUSTER)

        assert (body["accepted"], body["refusal"], body["offers"]) == (True, None, [])

    def test_helps_what_cannot_be_compiled_for_lack_of_time(self, service: Service) -> None:
        """Ten minutes of work in five: unsatisfiable as it is, a deadline is offered.

        It is a date, and leaves a minute to take it.
        """
        body = offers_of(service, "window(atom(<1 cpu>, 1, 1, 600, 600), +0, +5m)")

        assert body["refusal"]["code"] == "unsatisfiable"
        deadlines = [o for o in body["offers"] if o["change"]["kind"] == "deadline"]
        assert deadlines[0]["expression"].endswith("+0, 2026-01-05T00:11:00Z)")
        assert deadlines[0]["sentence"] == (
            "it would fit if the deadline were Mon 2026-01-05 00:11 (UTC)"
        )
        assert deadlines[0]["change"]["offered_at"] == "2026-01-05T00:11:00Z"
        service.reserve("r", deadlines[0]["expression"])

    def test_moves_windows_to_where_policies_allow_them(
        self, open_service: Open, cluster_file: Path
    ) -> None:
        """Too long, or too early: the window is cut or moved, and granted when sent back."""
        cluster_file.write_text(CLUSTER + LIMITS)
        service = open_service()
        atom = "atom(<1 cpu>, 1, 10, 60, 600)"

        for rdl, code in (
            (f"window({atom}, +20m, +4h)", "window_limit"),
            (f"window({atom}, +0, +1h)", "lead_time"),
        ):
            body = offers_of(service, rdl)
            assert body["refusal"]["code"] == code
            service.reserve(code, body["offers"][0]["expression"])

    @pytest.mark.parametrize(
        ("body", "pointer"),
        [
            ({"rdl": "atom("}, "/rdl"),
            ({"rdl": WHOLE_CLUSTER, "most": 0}, "/most"),
            ({"rdl": WHOLE_CLUSTER, "agent": "greel"}, "/agent"),
            ({"rdl": WHOLE_CLUSTER, "queue": "nowhere"}, "/queue"),
            ({"rdl": WHOLE_CLUSTER, "promise": "certain"}, "/promise"),
            ({"rdl": WHOLE_CLUSTER, "promise": "pooled"}, "/promise"),
        ],
    )
    def test_refuses_what_cannot_be_read(
        self, service: Service, body: dict[str, Any], pointer: str
    ) -> None:
        """Malformed input is 400 and says where."""
        answer = service.client.post("/v1/offers", json=body)

        assert answer.status_code == 400
        assert answer.get_json()["errors"][0]["pointer"] == pointer
