"""Pipelines that recur: each run once, in order, whatever is late, killed or run again."""

from __future__ import annotations

from typing import Any

import pytest

from service.commits.adaptation import PlanAdapter
from service.store import ApplicationRows
from tests.service.access.walking import guarded
from tests.service.applying import an_application, shown_of, submit_one
from tests.service.cli.client.in_process_server import let_commands_ask
from tests.service.cli.command_line import agenda
from tests.service.conftest import Open, Service

#: Three runs, one each half hour, of two stages of two minutes.
RDL = (
    "every(30m, window(order(extract: atom(<1 cpu>, 1, 1, 2m, 2m), "
    "publish: atom(<1 cpu>, 1, 1, 2m, 2m)), 0, 4m), times=3)"
)
ONE = "load: atom(<1 cpu>, 1, 1, 2m, 2m)"
STAGES = {name: {"command": f"./{name}.sh"} for name in ("extract", "publish")}
MACHINES = [f"plain-{number}" for number in range(10)]


@pytest.fixture
def service(open_service: Open) -> Service:
    """Return a service whose dispatcher ticks when a test says so, in memory."""
    return open_service(tick_s=0)


@pytest.fixture
def executing(open_service: Open) -> Service:
    """Return one on executors, which a test plays."""
    found = open_service(tick_s=0, executors=True, lease_s=3600.0)
    found.client.put("/v1/executors/e", json={"instance": "i", "machines": MACHINES})
    return found


def post(service: Service, **more: Any) -> Any:
    """Ask for the pipeline; return the answer."""
    return service.client.post(
        "/v1/pipelines", json={"id": "nightly", "rdl": RDL, "stages": STAGES, **more}
    )


def play(service: Service, minutes: int, codes: dict[str, int] | None = None) -> None:
    """Tick once a minute; with `codes` an executor ends the stages named there as they say."""
    for _ in range(minutes):
        service.runtime.dispatcher.tick()
        if codes is not None:
            work(service, codes)
            service.runtime.dispatcher.tick()
        service.clock.advance(60)


def work(service: Service, codes: dict[str, int]) -> None:
    """Start what is wanted, as an executor, and end what `codes` names by application."""
    reports = {
        run["id"]: {"id": run["id"], "state": "running"}
        for one in service.client.get("/v1/applications").get_json()["applications"]
        for run in service.client.get(f"/v1/applications/{one['id']}/runs").get_json()["runs"]
        if run["state"] == "running"
    }

    def sync() -> Any:
        body = {"instance": "i", "runs": list(reports.values())}
        answer = service.client.post("/v1/executors/e/sync", json=body)
        assert answer.status_code == 200, answer.get_json()
        return answer.get_json()

    wanted = sync()["wanted"]
    for id_ in reports.keys() - {one["id"] for one in wanted}:
        reports[id_] = {"id": id_, "state": "stopped"}
    for one in wanted:
        code = codes.get(one["execution"])
        reports[one["id"]] = {"id": one["id"], "state": "running"}
        if code is not None:
            reports[one["id"]] |= {"state": "failed" if code else "exited", "code": code}
    sync()


def runs_of(service: Service) -> list[dict[str, Any]]:
    """Return the runs, the oldest first."""
    found = service.client.get("/v1/pipelines/nightly/runs").get_json()["runs"]
    return list(reversed(found))


def states(service: Service) -> list[str]:
    """Return the state of each run."""
    return [one["state"] for one in runs_of(service)]


def test_each_occurrence_is_a_run_with_stages_of_its_own(service: Service) -> None:
    """A run starts with its slots, its stages in order; the rest of the recurrence stays."""
    made = post(service).get_json()
    assert [(one["name"], one["after"], one["application"]) for one in made["stages"]] == [
        ("extract", [], ""),
        ("publish", ["extract"], ""),
    ]
    assert (made["recurs"], made["runs"]) == (True, 0)
    assert service.client.get("/v1/applications").get_json()["applications"] == []
    play(service, 1)
    first = service.client.get("/v1/pipelines/nightly").get_json()
    assert [(one["application"], one["state"]) for one in first["stages"]] == [
        ("nightly.extract@0", "running"),
        ("nightly.publish@0", "queued"),
    ]
    assert first["next_at"] == "2026-01-05T00:30:00Z"
    play(service, 5)
    assert states(service) == ["succeeded"]
    play(service, 65)

    assert states(service) == ["succeeded"] * 3
    assert [one["start_at"][11:16] for one in runs_of(service)] == ["00:00", "00:30", "01:00"]
    assert [one["deadline_at"][11:16] for one in runs_of(service)] == ["00:04", "00:34", "01:04"]
    shown = shown_of(service, "nightly.publish@2")["application"]
    assert (shown["reservation"], shown["atom"]) == ("nightly", "0@2.0.1")
    assert shown["components"][0]["environment"] == {
        "AGENDA_JOB": "nightly",
        "AGENDA_JOB_RUN": "2",
        "AGENDA_JOB_TIME": "2026-01-05T01:00:00Z",
    }
    listed = service.client.get("/v1/pipelines").get_json()["pipelines"]
    assert [(one["id"], one["state"], one["runs"], one["over"]) for one in listed] == [
        ("nightly", "succeeded", 3, True)
    ]


def test_an_endless_pipeline_continues_beyond_the_first_horizon(service: Service) -> None:
    """Occurrences that come with time are runs as well."""
    post(service, rdl=RDL.replace(", times=3", "").replace("30m", "2h"))
    for hour in range(6):  # a commit moves the present, and the horizon with it
        play(service, 60)
        service.reserve(f"r{hour}", "atom(<1 cpu>, 1, 1, 60, 60)")
    play(service, 5)

    assert states(service) == ["succeeded"] * 4


@pytest.mark.parametrize(
    ("overlap", "after_the_first_slot", "after_the_first_run"),
    [
        ("queue", ["running"], ["succeeded", "running"]),
        ("skip", ["running", "skipped"], ["succeeded", "skipped"]),
        ("parallel", ["running", "running"], ["succeeded", "running"]),
        (None, ["running"], ["succeeded", "running"]),
    ],
)
def test_a_run_that_is_due_while_an_earlier_one_runs_follows_the_overlap(
    executing: Service,
    overlap: str,
    after_the_first_slot: list[str],
    after_the_first_run: list[str],
) -> None:
    """It waits, is left out, or starts; without a word it waits."""
    post(executing, **({} if overlap is None else {"overlap": overlap}))
    play(executing, 32, {})
    assert states(executing) == after_the_first_slot
    assert runs_of(executing)[0]["late"]
    play(executing, 5, {"nightly.extract@0": 0, "nightly.publish@0": 0})

    assert states(executing) == after_the_first_run


@pytest.mark.parametrize(
    ("overlap", "found"), [("skip", ["failed", "failed"]), ("queue", ["running"])]
)
def test_runs_whose_time_passed_without_a_server_are_announced(
    service: Service, overlap: str, found: list[str]
) -> None:
    """With a queue they are made up for, one after another; else they count as failed."""
    post(service, overlap=overlap)
    service.clock.advance(55 * 60)
    service.runtime.dispatcher.tick()
    assert states(service) == found
    play(service, 25)

    assert states(service) == ([*found, "succeeded"] if overlap == "skip" else ["succeeded"] * 3)
    if overlap == "skip":
        reason = shown_of(service, "nightly.extract@0")["reason"]
        assert reason == "its slots passed while no server dispatched"


def test_a_run_that_failed_is_run_again_by_hand(executing: Service) -> None:
    """Only what had not succeeded, in its order; what goes or has succeeded is refused."""
    path = "/v1/pipelines/nightly/again"
    post(executing)
    play(executing, 1, {"nightly.extract@0": 0})
    assert executing.client.post(path, json={"run": 0}).get_json()["code"] == "wrong_state"
    play(executing, 3, {"nightly.publish@0": 3})
    assert states(executing) == ["failed"]
    assert executing.client.post(path, json={"run": 7}).status_code == 404
    answer = executing.client.post(path, json={"run": 0})
    assert answer.status_code == 202
    assert [(one["application"], one["attempt"]) for one in answer.get_json()["stages"]] == [
        ("nightly.extract@0", 1),
        ("nightly.publish@0~2", 2),
    ]
    play(executing, 1, {"nightly.publish@0~2": 3})
    executing.client.post(path, json={"run": 0})
    play(executing, 1, {"nightly.publish@0~3": 0})
    (run,) = runs_of(executing)

    assert (run["state"], run["stages"][1]["attempt"]) == ("succeeded", 3)
    again = executing.client.post(path, json={"run": 0}).get_json()
    assert (again["code"], again["detail"]) == ("wrong_state", "run 0 of 'nightly' has succeeded")
    whole = executing.client.post(path, json={"run": 0, "all": True}).get_json()
    assert [(one["application"], one["state"]) for one in whole["stages"]] == [
        ("nightly.extract@0~2", "queued"),
        ("nightly.publish@0~4", "queued"),
    ]
    assert [one["after"] for one in whole["stages"]] == [[], ["extract"]]
    play(executing, 3, {})
    assert [one["state"] for one in runs_of(executing)[0]["stages"]] == ["running", "queued"]


@pytest.mark.parametrize(("options", "ran"), [({}, [1, 2]), ({"all": True}, [0, 1, 2])])
def test_tasks_that_have_succeeded_are_not_run_again(
    executing: Service, open_service: Open, options: dict[str, bool], ran: list[int]
) -> None:
    """Unless all of them are asked for; another leader knows it, too."""
    stages = {"load": {"command": "x", "tasks": 3}}
    rdl = f"window({ONE}, 0, 1h)".replace("2m, 2m", "30m, 30m")
    post(executing, rdl=rdl, stages=stages, agent="earliest")
    ended = {"nightly.load": [0, 3, 3], "nightly.load~2": [0] * 3}
    for id_, codes in ended.items():
        for code in codes:
            play(executing, 1, {id_: code})
        if id_ == "nightly.load":
            assert states(executing) == ["failed"]
            body = {"run": 0, **options}
            answer = executing.client.post("/v1/pipelines/nightly/again", json=body)
            assert answer.status_code == 202
            executing.runtime.dispatcher.tick()
            executing.runtime.dispatcher.close()
            executing = open_service(tick_s=0, executors=True, lease_s=3600.0)
            executing.clock.advance(60)
    runs = executing.client.get("/v1/applications/nightly.load~2/runs").get_json()["runs"]

    assert [one["task"] for one in runs] == ran
    assert states(executing) == ["succeeded"]
    (stage,) = runs_of(executing)[0]["stages"]
    assert stage["tasks"] == {"count": 3, "done": 3, "failed": 0, "left": 0}


def test_logs_of_a_run_that_is_none_are_an_error(
    executing: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of a job have numbers, those of its stages have ids; a run may have written nothing."""
    post(executing)
    play(executing, 1, {})
    let_commands_ask(executing, monkeypatch)
    assert agenda("logs", "nightly", "--run", "0").exit_code == 0
    wrong = agenda("logs", "nightly", "--run", "x")
    assert (wrong.exit_code, "there is no run 'x'" in wrong.stderr) == (1, True)


def test_stages_that_run_again_wait_for_each_other(executing: Service) -> None:
    """The first of them runs, and the next one after its success."""
    post(executing)
    play(executing, 1, {"nightly.extract@0": 1})
    executing.client.post("/v1/pipelines/nightly/again", json={"run": 0})
    play(executing, 3, {})
    stages = runs_of(executing)[0]["stages"]
    assert [(one["name"], one["state"], one["after"]) for one in stages] == [
        ("extract", "running", []),
        ("publish", "queued", ["extract"]),
    ]
    play(executing, 3, {"nightly.extract@0~2": 0, "nightly.publish@0~2": 0})
    assert states(executing) == ["succeeded"]


def test_a_job_that_runs_once_is_run_again_while_its_reservation_lasts(executing: Service) -> None:
    """After that it needs a reservation of its own."""
    once = f"window({ONE}, 0, 2m)"
    post(executing, rdl=once, stages={"load": {"command": "x"}})
    play(executing, 1, {"nightly.load": 1})
    answer = executing.client.post("/v1/pipelines/nightly/again", json={"run": 0})
    assert [one["application"] for one in answer.get_json()["stages"]] == ["nightly.load~2"]
    play(executing, 3, {"nightly.load~2": 1})
    late = executing.client.post("/v1/pipelines/nightly/again", json={})
    assert (late.status_code, late.get_json()["code"]) == (409, "wrong_state")


def test_another_leader_starts_no_run_twice(service: Service, open_service: Open) -> None:
    """It continues after the run that the earlier one started last."""
    post(service)
    play(service, 2)
    service.runtime.dispatcher.close()
    other = open_service(tick_s=0)
    play(other, 35)

    assert [one["application"] for run in runs_of(other) for one in run["stages"]] == [
        f"nightly.{stage}@{run}" for run in (0, 1) for stage in ("extract", "publish")
    ]
    assert states(other)[0] == "succeeded"


def test_a_cancelled_pipeline_starts_no_further_run(service: Service) -> None:
    """It says why."""
    post(service)
    play(service, 10)
    assert service.client.delete("/v1/reservations/nightly").status_code == 200
    play(service, 60)

    assert states(service) == ["succeeded"]
    found = service.client.get("/v1/pipelines/nightly").get_json()
    assert (found["reason"], found["next_at"]) == ("its reservation is cancelled", None)


def test_a_request_that_changes_keeps_what_has_run(service: Service) -> None:
    """Runs continue with the occurrences that begin later; other stages end the pipeline."""
    post(service)
    play(service, 10)
    tag = service.client.get("/v1/reservations/nightly").headers["ETag"]
    later = RDL.replace("30m,", "40m,").replace("times=3", "times=2")
    path, headers = "/v1/reservations/nightly", {"If-Match": tag}
    changed = service.client.put(path, json={"rdl": later}, headers=headers)
    assert changed.status_code == 200, changed.get_json()
    play(service, 60)

    assert states(service) == ["succeeded", "succeeded"]


def test_ids_of_later_runs_are_kept_for_them(service: Service) -> None:
    """No application may have one; and a pipeline is refused where one has."""
    assert submit_one(service, "weekly.load@1", an_application()).status_code == 201
    taken = post(service, id="weekly").get_json()
    assert (taken["code"], taken["errors"][0]["pointer"]) == ("duplicate_id", "/id")
    post(service)
    refused = submit_one(service, "nightly.extract@2", an_application())

    assert (refused.status_code, refused.get_json()["code"]) == (409, "duplicate_id")


def test_a_run_whose_ids_are_taken_nevertheless_is_left_out(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs after it start."""
    post(service)
    monkeypatch.setattr("service.resources.applications._check_id", lambda *_: None)
    submit_one(service, "nightly.extract@0", an_application())
    play(service, 1)
    assert [(one["run"], one["stages"]) for one in runs_of(service)] == [(0, [])]
    shown = service.client.get("/v1/pipelines/nightly").get_json()["stages"]
    assert [(one["name"], one["application"]) for one in shown] == [
        ("extract", ""),
        ("publish", ""),
    ]
    play(service, 39)

    assert [one["run"] for one in runs_of(service)] == [0, 1]
    assert states(service) == ["skipped", "succeeded"]


@pytest.mark.parametrize(
    ("change", "pointers"),
    [
        ({"overlap": "never"}, {"/overlap"}),
        ({"rdl": ONE, "overlap": "skip", "stages": {"load": {"command": "x"}}}, {"/overlap"}),
        ({"rdl": f"order({RDL}, last: atom(<1 cpu>, 1, 1, 2m, 2m))"}, {"/rdl"}),
        (
            {
                "rdl": RDL.replace("order(", f"order(every(5m, {ONE}, times=2), ").replace(
                    "0, 4m", "0, 25m"
                )
            },
            {"/rdl"},
        ),
    ],
)
def test_what_is_no_recurring_job_is_refused(
    service: Service, change: dict[str, Any], pointers: set[str]
) -> None:
    """It is malformed, where it is wrong."""
    answer = post(service, **change)
    found = {one["pointer"] for one in answer.get_json()["errors"]}

    assert answer.status_code == 400
    assert pointers <= found
    assert service.client.get("/v1/pipelines").get_json()["pipelines"] == []


def test_the_same_pipeline_again_is_the_same(service: Service) -> None:
    """With another overlap it is another."""
    assert [post(service).status_code, post(service).status_code] == [201, 200]
    assert post(service, overlap="skip").status_code == 409


def test_runs_are_their_tenants(open_service: Open) -> None:
    """To a user of another tenant neither they nor the pipeline are there."""
    server = guarded(open_service, tick_s=0)
    body = {"id": "nightly", "tenant": "ads", "rdl": RDL, "stages": STAGES}
    assert server.call("user", "POST", "/v1/pipelines", body).status_code == 201
    again = {"run": 0}
    for walker, status in (("other", 404), ("user", 200)):
        found = server.call(walker, "GET", "/v1/pipelines/nightly/runs")
        assert found.status_code == status
        listed = server.call(walker, "GET", "/v1/pipelines").get_json()["pipelines"]
        assert [one["id"] for one in listed] == ([] if walker == "other" else ["nightly"])
        assert server.call(walker, "POST", "/v1/pipelines/nightly/again", again).status_code == 404


def test_runs_come_in_pages(service: Service) -> None:
    """The newest first, each once."""
    post(service)
    play(service, 70)
    path = "/v1/pipelines/nightly/runs"
    first = service.client.get(f"{path}?limit=2").get_json()
    rest = service.client.get(f"{path}?limit=2&before={first['next']}").get_json()

    assert [one["run"] for one in first["runs"] + rest["runs"]] == [2, 1, 0]
    assert rest["next"] is None


def test_a_leader_that_was_replaced_starts_nothing(service: Service) -> None:
    """Its tenure is over when it writes a run: nothing of that is there."""
    post(service)
    rows: ApplicationRows = service.runtime.dispatcher.rows
    service.runtime.dispatcher.tick()
    service.clock.advance(30 * 60)
    real = rows.lead
    rows.lead = lambda *given: max(real(*given) - 1, 1) + 7  # type: ignore[method-assign]
    service.runtime.dispatcher.close()
    service.runtime.dispatcher._leads_until_ms = -1
    assert service.runtime.dispatcher.tick() is None
    assert len(runs_of(service)) == 1


#: Jobs whose applications the dispatcher could not read: request, stages, and what is named.
UNREADABLE = {
    "a name": ("order(_a: {0}, b: {0})", ("_a", "b"), "/stages/_a"),
    "a long name": ("together({1})", tuple(f"one-of-many-{one:05}" for one in range(9)), "/rdl"),
    "a long elastic name": (
        "order({2}: atom(<1 cpu>, 1, 2, 2m, 4m), b: {0})", ("n" * 122, "b"), f"/stages/{'n' * 122}",
    ),
    "two of one id": ("order(together(a: {0}, b: {0}), a-b: {0})", ("a", "b", "a-b"), "/rdl"),
    "too many bundles": ("order(a: atom(<1 cpu>, 1, 3000000, 2m, 4m), b: {0})", ("a", "b"),
                         "/stages/a"),
}  # fmt: skip


@pytest.mark.parametrize("recurs", [False, True])
@pytest.mark.parametrize("what", UNREADABLE)
def test_a_job_that_the_dispatcher_could_not_read_is_refused(
    service: Service, what: str, recurs: bool
) -> None:
    """Nothing is left of it, and the dispatcher goes on for others."""
    rdl, names, pointer = UNREADABLE[what]
    atom = "atom(<1 cpu>, 1, 1, 2m, 2m)"
    rdl = rdl.format(atom, ", ".join(f"{name}: {atom}" for name in names), names[0])
    stages = {name: {"command": "true"} for name in names}
    answer = post(service, rdl=f"every(30m, {rdl}, times=3)" if recurs else rdl, stages=stages)
    assert answer.status_code == 400, answer.get_json()
    assert pointer in {one["pointer"] for one in answer.get_json()["errors"]}
    assert service.client.get("/v1/reservations/nightly").status_code == 404
    submit_one(service, "other", an_application())
    service.runtime.dispatcher.tick()
    assert shown_of(service, "other")["state"] == "running"


def test_stages_that_fail_for_being_late_fail_with_those_before_them(executing: Service) -> None:
    """Both are to fail at the end of their slots; the dispatcher goes on."""
    stages = {name: {"command": "x", "on_late": "fail"} for name in STAGES}
    assert post(executing, stages=stages, agent="earliest").status_code == 201
    executing.runtime.dispatcher.tick()
    executing.clock.advance(600)
    play(executing, 3)
    (run,) = runs_of(executing)
    assert [one["state"] for one in run["stages"]] == ["failed", "failed"]
    submit_one(executing, "other", an_application())
    executing.runtime.dispatcher.tick()
    assert shown_of(executing, "other")["state"] == "starting"


def test_an_attempt_by_hand_does_not_fail_for_being_late(service: Service) -> None:
    stages = {"load": {"command": "x", "on_late": "fail"}}
    rdl = f"every(30m, {ONE}, times=3)"
    assert post(service, rdl=rdl, stages=stages, agent="earliest").status_code == 201
    play(service, 1)
    service.client.delete("/v1/applications/nightly.load@0")
    play(service, 10)
    again = service.client.post("/v1/pipelines/nightly/again", json={"run": 0})
    assert again.status_code == 202
    play(service, 2)
    assert shown_of(service, "nightly.load@0~2")["state"] in ("running", "completed")


def test_a_together_has_its_name_in_each_run(service: Service) -> None:
    atom = "atom(<1 cpu>, 1, 1, 2m, 2m)"
    rdl = f"every(30m, crunch: together(a: {atom}, b: {atom}), times=3)"
    stages = {"a": {"command": "x"}, "b": {"command": "y"}}
    made = post(service, rdl=rdl, stages=stages, agent="earliest")
    assert [one["name"] for one in made.get_json()["stages"]] == ["crunch"]
    play(service, 1)
    (run,) = runs_of(service)
    assert [one["application"] for one in run["stages"]] == ["nightly.crunch@0"]


def test_pipelines_whose_runs_could_have_the_same_ids_are_refused(service: Service) -> None:
    """Nor is it said what applications of others there are."""
    every = "every(30m, {}: atom(<1 cpu>, 1, 1, 2m, 2m), times=3)"
    first = post(service, id="p", rdl=every.format("b.c"), stages={"b.c": {"command": "x"}})
    assert first.status_code == 201
    second = post(service, id="p.b", rdl=every.format("c"), stages={"c": {"command": "x"}})
    assert (second.status_code, second.get_json()["code"]) == (409, "duplicate_id")
    submit_one(service, "x.secret", an_application())
    third = post(service, id="x", rdl=every.format("c"), stages={"c": {"command": "x"}})
    assert (third.status_code, third.get_json()["code"]) == (409, "duplicate_id")
    assert "secret" not in third.get_data(as_text=True)


def test_a_run_that_an_outage_had_taken_is_started_when_it_is_restored(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the last occurrence is degraded the pipeline is not over.

    The adapter answers calls only: by itself it would give the occurrence up sooner or later.
    """
    monkeypatch.setattr(PlanAdapter, "tick", lambda _self: None)
    rdl = "every(30m, window(load: atom(<1 cpu>, 10, 10, 5m, 50m), 0, 25m), times=2)"
    assert post(service, rdl=rdl, stages={"load": {"command": "x"}}, agent="earliest")
    play(service, 10)
    body = {"machines": "plain", "count": 10, "start": 1800, "end": 14000, "kind": "loss"}
    made = service.client.post("/v1/cluster/outages", json={**body, "reason": "x"})
    assert made.status_code == 201, made.get_json()
    play(service, 2)
    outage = made.get_json()["outage"]["id"]
    assert service.client.delete(f"/v1/cluster/outages/{outage}").status_code == 200
    play(service, 40)
    assert [one["run"] for one in runs_of(service)] == [0, 1]
