"""POST /v1/rdl/check says what the command says: meaning and questions."""

from __future__ import annotations

import json

import pytest

from tests.service.conftest import Service

ATOM = {"atom": {"bundle": {"cpu": 1}, "min": 1, "max": 2, "lease": "10m", "work": "100m"}}


@pytest.mark.parametrize(
    ("rdl", "place"),
    [
        ("atom(<1 cpu>, 1, 2, 10m, 100m)", {"span": [25, 29], "pointer": None}),
        (ATOM, {"span": None, "pointer": "/atom/work"}),
        (json.dumps(ATOM), {"span": None, "pointer": "/atom/work"}),
    ],
)
def test_a_check_says_what_is_meant_and_asked(
    service: Service, rdl: object, place: dict[str, object]
) -> None:
    """In every form of RDL; places are spans of text or pointers into JSON."""
    answer = service.client.post("/v1/rdl/check", json={"rdl": rdl}).get_json()

    assert (answer["meaning"]["often"], answer["meaning"]["runs"]) == ("once", 1)
    assert answer["meaning"]["at_once"] == {"cpu": ["1 cpu", "2 cpu"]}
    assert answer["questions"][0]["message"] == "100m means 100 minutes here"
    assert {key: answer["questions"][0][key] for key in place} == place


def test_a_session_means_no_promise(service: Service) -> None:
    """Nothing is planned of it, so nothing is said of times."""
    answer = service.client.post("/v1/rdl/check", json={"rdl": "void(<1 cpu>, 3)"}).get_json()

    assert (answer["meaning"], answer["questions"]) == (None, [])


def test_a_check_lists_the_parts_and_says_the_meaning_in_words(service: Service) -> None:
    """Each part has its path, its name, what it says, and its place in the text."""
    rdl = "window(order(a: atom(<1 cpu>, 1, 2, 10m, 2h), atom(<1 cpu>, 4, 4, 1h, 4h)), +0, +6h)"
    answer = service.client.post("/v1/rdl/check", json={"rdl": rdl}).get_json()

    assert [(part["path"], part["operator"], part["name"]) for part in answer["outline"]] == [
        ("", "window", None),
        ("0", "order", None),
        ("0.0", "atom", "a"),
        ("0.1", "atom", None),
    ]
    start, end = answer["outline"][2]["span"]
    assert rdl[start:end] == "atom(<1 cpu>, 1, 2, 10m, 2h)"
    assert answer["lines"][0] == ["runs", "once"]
