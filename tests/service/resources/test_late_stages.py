"""Stages that are late: announced, given more time, or failed, as their job says."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.accounts.late_stages import with_more_time
from rdl.compile.source import read_source
from rdl.text.formatter import format_expression
from tests.service.applying import shown_of
from tests.service.conftest import Open, Service

MACHINES = [f"plain-{number}" for number in range(10)]

#: Two stages, of four and two minutes, in a window of `{}`.
RDL = (
    "window(order(extract: atom(<1 cpu>, 2, 2, 4m, 8m), publish: atom(<1 cpu>, 1, 1, 2m, 2m)), "
    "0, {})"
)


@pytest.fixture
def service(open_service: Open) -> Service:
    """Return a service with an executor that a test plays."""
    found = open_service(tick_s=0, executors=True, lease_s=3600.0)
    found.client.put("/v1/executors/e", json={"instance": "i", "machines": MACHINES})
    return found


def post(service: Service, window: str, **extract: Any) -> Any:
    """Ask for the job; return the answer."""
    stages = {"extract": {"command": "x", **extract}, "publish": {"command": "y"}}
    body = {"id": "job", "rdl": RDL.format(window), "stages": stages, "agent": "earliest"}
    return service.client.post("/v1/pipelines", json=body)


def play(service: Service, minutes: int, ended: frozenset[str] = frozenset()) -> None:
    """Tick twice a minute; an executor starts what is wanted and ends what `ended` names."""
    for _ in range(minutes):
        for _ in range(2):
            service.runtime.dispatcher.tick()
            work(service, ended)
            service.runtime.dispatcher.tick()
            service.clock.advance(30)


def work(service: Service, ended: frozenset[str]) -> None:
    """Report as the executor."""
    path, body = "/v1/executors/e/sync", {"instance": "i"}
    running = [
        {"id": run["id"], "state": "running"}
        for stage in ("extract", "publish")
        for run in service.client.get(f"/v1/applications/job.{stage}/runs").get_json()["runs"]
        if run["state"] == "running"
    ]
    wanted = service.client.post(path, json={**body, "runs": running}).get_json()["wanted"]
    reports = {one["id"]: {**one, "state": "stopped"} for one in running}
    for one in wanted:
        end = {"state": "exited", "code": 0} if one["execution"] in ended else {"state": "running"}
        reports[one["id"]] = {"id": one["id"], **end}
    service.client.post(path, json={**body, "runs": list(reports.values())})


def slots_of(service: Service) -> list[list[int]]:
    """Return start and end in minutes of what each stage holds."""
    atoms = service.client.get("/v1/reservations/job").get_json()["atoms"]
    return [[row // 60 for row in one["allocation"][0][:2]] for one in atoms]


def words_of(service: Service) -> list[tuple[str, str]]:
    """Return what the history of the reservation says of late stages."""
    history = service.client.get("/v1/reservations/job").get_json()["history"]
    return [(one["what"], one["detail"]) for one in history if one["what"] == "stage_late"]


def test_a_stage_that_runs_at_the_end_of_its_slots_gets_more_time(service: Service) -> None:
    """A quarter, again and again, on the same machines; the stage after it moves."""
    post(service, "20m", on_late="extend")
    play(service, 4)
    assert slots_of(service) == [[0, 5], [5, 7]]
    play(service, 1)
    assert slots_of(service) == [[0, 7], [7, 9]]
    held = service.client.get("/v1/applications/job.extract/runs").get_json()["runs"]
    assert [(one["state"], one["wanted"]) for one in held] == [("running", True)] * 2
    play(service, 6, frozenset({"job.extract", "job.publish"}))

    assert shown_of(service, "job.publish")["state"] == "completed"
    assert words_of(service) == []


def test_without_time_left_it_keeps_what_it_has_and_is_announced(service: Service) -> None:
    """Once, by its history and the event; the stage that waits for it, too."""
    post(service, "6m", on_late="extend")
    play(service, 5)
    assert slots_of(service) == [[0, 4], [4, 6]]
    said = words_of(service)

    assert [text.split()[0] for _, text in said] == ["job.extract", "job.publish"]
    assert said[0][1] == (
        "job.extract has not ended, and its slots ended Mon 2026-01-05 00:04 (UTC)"
    )
    run = service.client.get("/v1/pipelines/job/runs").get_json()["runs"][0]
    assert (run["late"], [one["late"] for one in run["stages"]]) == (True, [True, True])


def test_a_last_stage_that_ends_early_is_not_late(service: Service) -> None:
    """Though the rest of its slots is released from the middle of a step on."""
    post(service, "20m")
    play(service, 5, frozenset({"job.extract"}))
    service.clock.advance(30)
    play(service, 1, frozenset({"job.extract", "job.publish"}))
    assert slots_of(service) == [[0, 4], [4, 5]]
    run = service.client.get("/v1/pipelines/job/runs").get_json()["runs"][0]
    assert (run["state"], run["stages"][1]["ended_at"][14:19]) == ("succeeded", "05:30")
    assert [one["late"] for one in run["stages"]] == [False, False]


@pytest.mark.parametrize("late", ["extract", "publish"])
def test_a_stage_that_overran_by_half_a_step_is_late(service: Service, late: str) -> None:
    """Also when its reservation is completed: by a last stage that ended early, or by its time."""
    post(service, "20m")
    play(service, 4, frozenset({"job.extract"}) if late == "publish" else frozenset())
    play(service, 2 if late == "publish" else 0)
    service.clock.advance(30)
    play(service, 2, frozenset({"job.extract", "job.publish"}))
    assert service.client.get("/v1/reservations/job").get_json()["state"] == "completed"
    run = service.client.get("/v1/pipelines/job/runs").get_json()["runs"][0]
    assert (run["state"], run["late"]) == ("succeeded", True)
    assert [one["name"] for one in run["stages"] if one["late"]] == [late]


def test_another_leader_does_not_announce_it_again(service: Service, open_service: Open) -> None:
    """The history of the reservation says that it was."""
    post(service, "6m")
    play(service, 5)
    before = words_of(service)
    service.runtime.dispatcher.close()
    other = open_service(tick_s=0, executors=True, lease_s=3600.0)
    other.runtime.dispatcher.tick()
    other.runtime.dispatcher.tick()

    assert len(before) == 2
    assert words_of(other) == before


def test_a_stage_that_shall_fail_does_so_at_the_end_of_its_slots(service: Service) -> None:
    """What needs it fails with its reason."""
    post(service, "20m", on_late="fail")
    play(service, 4)
    assert shown_of(service, "job.extract")["state"] == "running"
    play(service, 1)

    late = "it was late: its slots ended Mon 2026-01-05 00:04 (UTC)"
    assert [(shown_of(service, f"job.{one}")["state"], shown_of(service, f"job.{one}")["reason"])
            for one in ("extract", "publish")] == [
        ("failed", late), ("failed", f"job.extract failed: {late}")
    ]  # fmt: skip
    play(service, 1)
    runs = service.client.get("/v1/applications/job.extract/runs").get_json()["runs"]
    assert {(one["state"], one["wanted"]) for one in runs} == {("stopped", False)}


@pytest.mark.parametrize(
    ("rdl", "on_late"), [(RDL.format("20m"), "wait"), (f"every(1h, {RDL.format('20m')})", "extend")]
)
def test_what_a_stage_cannot_do_is_refused(service: Service, rdl: str, on_late: str) -> None:
    """An unknown word; and more time for a run of a job that recurs."""
    stages = {"extract": {"command": "x", "on_late": on_late}, "publish": {"command": "y"}}
    answer = service.client.post("/v1/pipelines", json={"rdl": rdl, "stages": stages})

    assert answer.status_code == 400
    pointers = [one["pointer"] for one in answer.get_json()["errors"]]
    assert pointers == ["/stages/extract/on_late"]


def test_only_the_named_atom_gets_more_time() -> None:
    """Its work grows by that for each of its bundles."""
    source = read_source(
        "window(order(a: atom(<1 cpu>, 1, 2, 1m, 4m), b: atom(<1 cpu>, 1, 1, 1m, 1m)), 0, 1h)"
    )
    longer = with_more_time(source, "0.0", 60_000)

    assert format_expression(longer) == format_expression(source).replace("240", "360")
    with pytest.raises(ValueError, match="no atom"):
        with_more_time(source, "0", 60_000)
