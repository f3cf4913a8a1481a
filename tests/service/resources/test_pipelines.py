"""Pipelines as the API meets them: all or nothing, every fault at once, stages in order."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from dispatch.executions.job_file import applications_of, read_stages
from planner.files.errors import FileProblems
from rdl.compile.compiler import compile_expression
from rdl.compile.source import read_source
from service.resources import pipelines
from tests.service.access.walking import guarded
from tests.service.applying import shown_of
from tests.service.cli.client.in_process_server import let_commands_ask
from tests.service.cli.command_line import agenda
from tests.service.conftest import Open, Service

RDL = (
    "window(order(extract: atom(<1 cpu>, 2, 2, 2m, 4m), transform: atom(<1 cpu>, 1, 1, 3m, 3m), "
    "publish: atom(<1 cpu>, 1, 1, 2m, 2m)), +0, +7m)"
)
STAGES = {name: {"command": [f"./{name}.sh"]} for name in ("extract", "transform", "publish")}


@pytest.fixture
def service(open_service: Open) -> Service:
    """Return a service whose dispatcher ticks when a test says so."""
    return open_service(tick_s=0)


def post(service: Service, query: str = "", **more: Any) -> Any:
    """Ask for a pipeline; return the answer."""
    body = {"id": "nightly", "rdl": RDL, "stages": STAGES, **more}
    return service.client.post(f"/v1/pipelines{query}", json=body)


def states(service: Service) -> dict[str, str]:
    """Return the state of each stage."""
    found = service.client.get("/v1/pipelines/nightly").get_json()
    return {one["name"]: one["state"] for one in found["stages"]}


def test_a_pipeline_is_a_reservation_with_an_application_for_each_stage(service: Service) -> None:
    """Each application runs its command in the bundles of its atom, after those before it."""
    answer = post(service)
    body = answer.get_json()

    assert answer.status_code == 201
    assert answer.headers["Location"] == "/v1/pipelines/nightly"
    assert [(one["name"], one["after"]) for one in body["stages"]] == [
        ("extract", []),
        ("transform", ["extract"]),
        ("publish", ["extract", "transform"]),
    ]
    shown = shown_of(service, "nightly.extract")["application"]
    assert shown["reservation"] == "nightly"
    assert shown["components"] == [
        {
            "name": "extract",
            "count": 2,
            "core": True,
            "resources": {"cpu": 1, "memory": "4 GiB"},
            "command": "./extract.sh",
        }
    ]
    assert service.client.get("/v1/pipelines/nightly").get_json()["id"] == "nightly"


def test_the_members_of_a_together_are_the_components_of_one_application(
    service: Service,
) -> None:
    """Each has its own stage; what comes after needs all of them, and all start in one cycle."""
    rdl = (
        "window(order(load: atom(<1 cpu>, 1, 1, 1m, 1m), "
        "train: together(driver: atom(<1 cpu, 1 GiB memory>, 1, 1, 2m, 2m), "
        "workers: atom(<1 cpu>, 2, 2, 2m, 4m)),"
        " publish: atom(<1 cpu>, 1, 1, 1m, 1m)), +0, +4m)"
    )
    stages: dict[str, dict[str, Any]] = {
        name: {"command": [f"./{name}.sh"]} for name in ("load", "driver", "workers", "publish")
    }
    stages["workers"] |= {"retries": 2, "environment": {"SIDE": "worker"}}
    answer = post(service, rdl=rdl, stages=stages)

    assert answer.status_code == 201, answer.get_json()
    assert [(one["name"], one["after"], one["atom"]) for one in answer.get_json()["stages"]] == [
        ("load", [], "0.0"),
        ("train", ["load"], "0.1"),
        ("publish", ["load", "train"], "0.2"),
    ]
    shown = shown_of(service, "nightly.train")["application"]
    assert (shown["atom"], shown["retries"]) == ("0.1", 2)
    assert [
        (one["name"], one["count"], one["command"], one["atom"]) for one in shown["components"]
    ] == [("driver", 1, "./driver.sh", "0.1.0"), ("workers", 2, "./workers.sh", "0.1.1")]
    assert shown["components"][1]["environment"] == {"SIDE": "worker"}


@pytest.mark.parametrize(
    ("rdl", "name"),
    [
        ("together(a: atom(<1 cpu>, 1, 1, 1m, 1m), b: atom(<1 cpu>, 2, 2, 1m, 2m))", "a-b"),
        ("all(together(a: atom(<1 cpu>, 1, 1, 1m, 1m), b: atom(<1 cpu>, 2, 2, 1m, 2m)))", "a-b"),
    ],
)
def test_a_together_without_a_name_is_called_by_its_members(
    service: Service, rdl: str, name: str
) -> None:
    """Also where it is the whole request; one stage is missing, and it is named."""
    stages = {one: {"command": "true"} for one in "ab"}
    answer = post(service, rdl=rdl, stages=stages)
    assert answer.status_code == 201, answer.get_json()
    assert [one["name"] for one in answer.get_json()["stages"]] == [name]
    answer = post(service, id="other", rdl=rdl, stages={"a": {"command": "true"}})
    assert answer.status_code == 422 or answer.status_code == 400
    assert "'b'" in json.dumps(answer.get_json()["errors"])


def test_a_refused_pipeline_leaves_nothing(service: Service) -> None:
    """Neither a reservation nor an application is there when the Plan has no capacity."""
    answer = post(service, rdl=RDL.replace("2, 2, 2m", "99, 99, 2m"))

    assert answer.status_code == 422 or answer.status_code == 409
    assert service.client.get("/v1/applications").get_json()["applications"] == []
    assert service.client.get("/v1/pipelines/nightly").status_code == 404
    assert post(service).status_code == 201


@pytest.mark.parametrize("is_cancelled_before", [False, True])
def test_a_pipeline_is_cancelled_by_the_command_line(
    service: Service, monkeypatch: pytest.MonkeyPatch, is_cancelled_before: bool
) -> None:
    """With what runs and what waits, also where its reservation is over."""
    post(service)
    service.runtime.dispatcher.tick()
    if is_cancelled_before:
        service.client.delete("/v1/reservations/nightly")
    let_commands_ask(service, monkeypatch)
    done = agenda("pipelines", "cancel", "nightly", "-o", "json")
    assert (done.exit_code, json.loads(done.stdout)["reservation"]["state"]) == (0, "cancelled")
    for _ in range(2):
        service.runtime.dispatcher.tick()
    stages = service.client.get("/v1/pipelines/nightly").get_json()["stages"]
    assert {one["state"] for one in stages} <= {"killed", "failed"}
    assert agenda("pipelines", "cancel", "other").exit_code == 1


def test_a_check_changes_nothing(service: Service) -> None:
    """It is answered what would be promised."""
    answer = post(service, "?dry_run=true")

    assert answer.status_code == 200
    assert len(answer.get_json()["stages"]) == 3
    assert service.client.get("/v1/applications").get_json()["applications"] == []
    assert service.client.get("/v1/reservations/nightly").status_code == 404


def test_all_faults_of_all_stages_are_reported_together(service: Service) -> None:
    """Each has its place in the document, and what was meant where that can be guessed."""
    answer = post(
        service,
        stages={
            "extract": {"command": [], "timout": "1h"},
            "transfrm": {"command": "x", "retries": -1},
            "publish": {"command": "x", "directory": "here", "success": [0, 700]},
        },
    )
    errors = answer.get_json()["errors"]

    assert answer.status_code == 400
    assert {one["pointer"]: one["fix"] for one in errors} == {
        "/stages/extract/timout": "did you mean 'timeout'?",
        "/stages/extract/command": 'write such as ["./extract.sh", "--all"]',
        "/stages/transfrm/retries": None,
        "/stages/publish/directory": "begin it with /",
        "/stages/publish/success/1": None,
        "/stages/transfrm": "did you mean 'transform'?",
        "/stages": "add [stages.transform] with its command",
    }


@pytest.mark.parametrize(
    "rdl",
    [
        "any(load: atom(<1 cpu>, 1, 1, 2m, 2m), atom(<1 cpu>, 2, 2, 1m, 2m))",
        "order(load: atom(<1 cpu>, 1, 1, 2m, 2m), atom(<1 cpu>, 2, 2, 1m, 2m))",
        "order(load: atom(<1 cpu>, 1, 1, 2m, 2m)",
    ],
)
def test_a_request_whose_stages_cannot_be_told_is_refused(service: Service, rdl: str) -> None:
    """It is malformed at its RDL."""
    answer = post(service, rdl=rdl, stages={"load": {"command": "x"}})

    assert answer.status_code == 400
    assert {one["pointer"] for one in answer.get_json()["errors"]} == {"/rdl"}


def test_an_application_that_has_the_id_of_a_stage_refuses_the_pipeline(service: Service) -> None:
    """Nothing is reserved then; the commit itself refuses it where no one looked before."""
    part = {"name": "m", "count": 1, "core": True, "resources": {"cpu": 1}}
    other = {"id": "nightly.publish", "application": {"name": "x", "components": [part]}}
    service.client.post("/v1/applications", json=other)
    first = post(service)
    service.runtime.dispatcher.rows.get = lambda _: None  # type: ignore[method-assign]
    second = post(service)

    for answer in (first, second):
        assert (answer.status_code, answer.get_json()["code"]) == (409, "duplicate_id")
    assert service.client.get("/v1/reservations/nightly").status_code == 404


def test_the_same_pipeline_again_is_the_same(service: Service) -> None:
    """With other commands it is another, and its id is taken."""
    assert [post(service).status_code, post(service).status_code] == [201, 200]
    other = post(service, stages={**STAGES, "publish": {"command": ["./other.sh"]}})
    assert (other.status_code, other.get_json()["code"]) == (409, "duplicate_id")


def test_stages_start_in_their_slots_when_those_before_have_succeeded(service: Service) -> None:
    """Each begins with its slot; those that wait are queued."""
    post(service)
    seen = []
    for _ in range(12):
        service.runtime.dispatcher.tick()
        seen.append("".join(state[0] for state in states(service).values()))
        service.clock.advance(60)

    minutes = [(one, len(list(same))) for one, same in groupby(seen)]
    assert minutes == [("rqq", 2), ("crq", 3), ("ccr", 2), ("ccc", 5)]


def test_an_owner_who_ends_a_stage_fails_those_after_it(service: Service) -> None:
    """Their reason names the first that was ended."""
    post(service)
    service.runtime.dispatcher.tick()
    service.client.delete("/v1/applications/nightly.transform")
    service.runtime.dispatcher.tick()

    assert states(service) == {"extract": "running", "transform": "killed", "publish": "failed"}
    reason = shown_of(service, "nightly.publish")["reason"]
    assert reason == "nightly.transform was ended: its owner ended it"


def work(service: Service, code: int | None = None) -> list[str]:
    """Report as an executor that starts what is wanted, or ends it with a code; return what is."""
    names = [f"plain-{number}" for number in range(10)]
    registration = {"instance": "i", "machines": names}
    service.client.put("/v1/executors/e", json=registration)
    wanted = service.client.post("/v1/executors/e/sync", json={"instance": "i", "runs": []})
    state = {None: "running", 0: "exited"}.get(code, "failed")
    runs = [{"id": one["id"], "state": state, "code": code} for one in wanted.get_json()["wanted"]]
    service.client.post("/v1/executors/e/sync", json={"instance": "i", "runs": runs})
    service.runtime.dispatcher.tick()
    return [one["execution"] for one in wanted.get_json()["wanted"]]


@pytest.mark.usefixtures("unasked")
def test_retries_count_across_leaders_and_the_rest_is_released(open_service: Open) -> None:
    """A failure that an earlier leader saw is one; after the last stage nothing is held."""
    first = open_service(tick_s=0, executors=True)
    stages = {**STAGES, "extract": {"command": "x", "retries": 2, "backoff": "1s"}}
    work(first)
    post(first, stages=stages)
    first.runtime.dispatcher.tick()
    work(first, 3)
    assert shown_of(first, "nightly.extract")["retries"] == 1
    first.runtime.dispatcher.close()
    other = open_service(tick_s=0, executors=True)
    for code in (3, 0, 0, 0):
        other.clock.advance(5)
        other.runtime.dispatcher.tick()
        work(other, code)
        other.clock.advance(115)
        other.runtime.dispatcher.tick()
    found = other.client.get("/v1/pipelines/nightly").get_json()

    assert [(one["state"], one["retries"]) for one in found["stages"]] == [
        ("completed", 2),
        ("completed", 0),
        ("completed", 0),
    ]
    # Its first slot passed without a run; the work is done although time of it was missed.
    assert found["reservation"]["state"] == "completed"
    assert "its work did not run" in found["reservation"]["degradation"]["reason"]
    rows = [row for atom in found["reservation"]["atoms"] for row in atom["allocation"]]
    assert max((end for _, end, _ in rows), default=0) * 1000 <= other.runtime.now_ms()


def test_another_leader_knows_what_has_succeeded_and_what_has_failed(
    service: Service, open_service: Open
) -> None:
    """What was over before it led is read from the database, for each stage that waits."""
    post(service)
    service.runtime.dispatcher.tick()
    service.clock.advance(150)
    service.runtime.dispatcher.tick()
    assert states(service)["extract"] == "completed"
    service.runtime.dispatcher.close()
    service.clock.advance(60)
    other = open_service(tick_s=0)
    other.runtime.dispatcher.tick()
    assert states(other)["transform"] == "running"
    other.client.delete("/v1/applications/nightly.transform")
    other.runtime.dispatcher.tick()
    other.runtime.dispatcher.tick()

    assert states(other) == {"extract": "completed", "transform": "killed", "publish": "failed"}


def test_a_reservation_without_stages_is_no_pipeline(service: Service) -> None:
    """One of the same request and id is not taken for a pipeline."""
    service.reserve("nightly", RDL)

    assert service.client.get("/v1/pipelines/nightly").status_code == 404
    assert post(service).get_json()["code"] == "duplicate_id"


def test_a_pipeline_and_its_logs_are_its_tenants(open_service: Open) -> None:
    """To a user of another tenant neither is there."""
    server = guarded(open_service, tick_s=0)
    body = {"id": "nightly", "tenant": "ads", "rdl": RDL, "stages": STAGES}
    assert server.call("other", "POST", "/v1/pipelines", body).status_code == 403
    assert server.call("user", "POST", "/v1/pipelines", body).status_code == 201
    for path in ("/v1/pipelines/nightly", "/v1/applications/nightly.extract/logs"):
        assert server.call("user", "GET", path).status_code == 200
        assert server.call("operator", "GET", path).status_code == 200
        assert server.call("other", "GET", path).status_code == 404


def test_the_job_file_of_the_manual_is_read() -> None:
    """Its request and its stages fit each other."""
    text = Path("docs/dispatch.md").read_text().split("### Jobs of several stages")[1]
    job = tomllib.loads(text.split("```toml")[1].split("```")[0])
    problems: FileProblems = FileProblems()
    stages = read_stages(job["stages"], problems)
    made = applications_of(job["id"], read_source(job["rdl"]), stages, problems)

    assert not problems
    assert [(one.id, one.needs) for one in made] == [
        ("nightly.extract", ()),
        ("nightly.publish", ("nightly.extract",)),
    ]


def test_what_a_stage_says_of_tasks_ports_and_peers_is_checked(service: Service) -> None:
    """Members of a together have no tasks, and each name of a placeholder is one of theirs."""
    rdl = "together(a: atom(<1 cpu>, 1, 1, 1m, 1m), b: atom(<1 cpu>, 2, 2, 1m, 2m))"
    stages: dict[str, dict[str, Any]] = {
        "a": {"command": "serve", "ports": ["web", "web:80"]},
        "b": {"command": "call {dns_name#a} {port#c.web}", "tasks": 3},
    }
    answer = post(service, rdl=rdl, stages=stages)
    assert answer.status_code == 400
    pointers = {one["pointer"] for one in answer.get_json()["errors"]}
    assert pointers == {"/stages/a/ports", "/stages/b/tasks"}
    del stages["b"]["tasks"]
    stages["a"]["ports"] = ["web"]
    answer = post(service, rdl=rdl, stages=stages)
    (error,) = answer.get_json()["errors"]
    assert error["message"] == "{port#c.web}: there is no component 'c'; there are a, b"
    stages["b"]["command"] = "call {dns_name#a} {port#a.web}"
    assert post(service, rdl=rdl, stages=stages).status_code == 201


def test_a_stage_of_tasks_has_no_more_components_than_tasks(service: Service) -> None:
    """Of four to eight bundles three run its tasks."""
    rdl = "load: atom(<1 cpu>, 4, 8, 1m, 8m)"
    assert post(service, rdl=rdl, stages={"load": {"command": "x", "tasks": 3}}).status_code == 201
    shown = shown_of(service, "nightly.load")["application"]
    assert (shown["tasks"], [one["count"] for one in shown["components"]]) == (3, [3])


def test_an_image_that_no_host_runs_is_refused_with_its_stage(open_service: Open) -> None:
    """Nothing is reserved for it."""
    service = open_service(tick_s=0, executors=True)
    stages = {**STAGES, "publish": {"image": "registry/publish:3"}}
    answer = post(service, stages=stages)
    assert (answer.status_code, answer.get_json()["code"]) == (409, "wrong_state")
    assert [one["pointer"] for one in answer.get_json()["errors"]] == ["/stages/publish/image"]
    assert service.client.get("/v1/reservations/nightly").status_code == 404
    names = [
        name
        for group in service.client.get("/v1/cluster").get_json()["machines"]
        for name in (f"{group['name']}-{index}" for index in range(group["count"]))
    ]
    body = {"instance": "i", "machines": names, "engine": "podman"}
    assert service.client.put("/v1/executors/e", json=body).status_code == 201
    assert post(service, stages=stages).status_code == 201


def test_a_margin_is_held_by_the_plan_and_shown_as_slack(service: Service) -> None:
    """The last slot ends that long before the deadline, as late as the agent puts it."""
    rdl = RDL.replace("+7m", "+1h")
    answer = post(service, rdl=rdl, margin="25m", agent="headroom")
    assert answer.status_code == 201, answer.get_json()
    found = service.client.get("/v1/pipelines/nightly").get_json()
    (line,) = service.client.get("/v1/pipelines").get_json()["pipelines"]
    reservation = found["reservation"]
    last = max(end for atom in reservation["atoms"] for _, end, _ in atom["allocation"])

    assert last <= 35 * 60
    assert found["deadline_at"] == "2026-01-05T01:00:00Z"
    assert found["slack"] == line["slack"] == 3600 - last
    assert reservation["expression"].endswith("+0, +2100)")
    assert post(service, rdl=rdl, margin="20m", agent="headroom").status_code == 409


def test_a_job_without_a_window_has_no_deadline(service: Service) -> None:
    """Of an atom that may run at any time nothing is late."""
    answer = post(
        service,
        rdl="all(a: deadline(atom(<1 cpu>, 1, 1, 2m, 2m), +1h), b: atom(<1 cpu>, 1, 1, 2m, 2m))",
        stages={"a": {"command": "x"}, "b": {"command": "x"}},
    )
    assert answer.status_code == 201, answer.get_json()
    found = service.client.get("/v1/pipelines/nightly").get_json()
    assert (found["deadline_at"], found["slack"]) == (None, None)


def test_slack_counts_from_the_windows_of_the_newest_request(service: Service) -> None:
    """A request that replaces one with a margin has the windows that it names."""
    window = RDL.replace("+7m", "+1h")
    assert post(service, rdl=window, margin="25m", agent="earliest").status_code == 201
    before = service.client.get("/v1/pipelines/nightly").get_json()
    seen = []
    for rdl in (window.replace("+1h", "+50m"), before["reservation"]["expression"]):
        changed = service.client.put(
            "/v1/reservations/nightly", json={"rdl": rdl}, headers={"If-Match": "*"}
        )
        assert changed.status_code == 200, changed.get_json()
        found = service.client.get("/v1/pipelines/nightly").get_json()
        seen.append((found["deadline_at"], found["slack"]))
    assert (before["deadline_at"], before["slack"]) == ("2026-01-05T01:00:00Z", 53 * 60)
    assert seen == [("2026-01-05T00:50:00Z", 43 * 60), ("2026-01-05T00:35:00Z", 28 * 60)]


def test_the_deadline_of_a_run_is_computed_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also as the horizon moves, and of the next run."""
    compiled = []

    def counted(*given: Any) -> Any:
        compiled.append(given)
        return compile_expression(*given)

    monkeypatch.setattr(pipelines, "compile_expression", counted)
    rdl = "every(10m, window(load: atom(<1 cpu>, 1, 1, 2m, 2m), 0, 8m))"
    assert post(service, rdl=rdl, stages={"load": {"command": "x"}}).status_code == 201
    counts = []
    for _ in range(3):
        service.client.get("/v1/pipelines")
        service.client.get("/v1/pipelines/nightly")
        counts.append(len(compiled))
        service.clock.advance(120)
        service.reserve(f"r{len(counts)}", "atom(<1 cpu>, 1, 1, 60, 60)")
    service.runtime.dispatcher.tick()
    service.client.get("/v1/pipelines")
    assert (*counts, len(compiled)) == (1, 1, 1, 1)


def test_slack_is_that_of_the_tightest_stage(service: Service) -> None:
    """Not of the stage whose window ends last."""
    rdl = (
        "order(window(extract: atom(<1 cpu>, 1, 1, 2m, 2m), +0, +5m), "
        "window(publish: atom(<1 cpu>, 1, 1, 2m, 2m), +0, +1h))"
    )
    stages = {name: STAGES[name] for name in ("extract", "publish")}
    assert post(service, rdl=rdl, stages=stages, agent="earliest").status_code == 201
    found = service.client.get("/v1/pipelines/nightly").get_json()
    assert (found["deadline_at"], found["slack"]) == ("2026-01-05T01:00:00Z", 180.0)


def test_a_deadline_is_that_of_the_chosen_option(service: Service) -> None:
    """Of a request that was replaced by one that has others."""
    load = "load: atom(<1 cpu>, 1, 1, 2m, 2m)"
    more = {"rdl": f"window({load}, +0, +10m)", "stages": {"load": {"command": "x"}}}
    assert post(service, agent="earliest", **more).status_code == 201
    either = f"any(window({load}, +0, +10m), window({load.replace('load', 'other')}, +0, +1h))"
    changed = service.client.put(
        "/v1/reservations/nightly", json={"rdl": either}, headers={"If-Match": "*"}
    )
    assert changed.status_code == 200, changed.get_json()
    found = service.client.get("/v1/pipelines/nightly").get_json()
    assert found["deadline_at"] == "2026-01-05T00:10:00Z"


def test_slack_of_a_pipeline_that_recurs_is_that_of_its_next_run(service: Service) -> None:
    """Then of its last one."""
    rdl = "every(10m, window(load: atom(<1 cpu>, 1, 1, 2m, 2m), 0, 8m), times=2)"
    more = {"rdl": rdl, "stages": {"load": {"command": "x"}}, "agent": "earliest"}
    assert post(service, margin="3m", **more).status_code == 201
    seen = []
    for minutes in (1, 12, 30):
        for _ in range(minutes):
            service.clock.advance(60)
            service.runtime.dispatcher.tick()
        found = service.client.get("/v1/pipelines/nightly").get_json()
        seen.append((found["next_at"], found["deadline_at"], found["slack"]))
    assert seen == [
        ("2026-01-05T00:10:00Z", "2026-01-05T00:18:00Z", 360.0),
        (None, "2026-01-05T00:18:00Z", 360.0),
        (None, "2026-01-05T00:18:00Z", 360.0),
    ]


@pytest.mark.parametrize(
    ("rdl", "margin", "words"),
    [
        ("load: atom(<1 cpu>, 1, 1, 2m, 2m)", "1m", "has no window"),
        ("window(load: atom(<1 cpu>, 1, 1, 2m, 2m), +0, +3m)", "2m", "with a margin of 2m"),
        ('deadline(load: atom(<1 cpu>, 1, 1, 2m, 2m), 00:10, zone="UTC")', "20m", "is longer than"),
        ("window(load: atom(<1 cpu>, 1, 1, 2m, 2m), +0, +3m)", "24h", "at most 23h"),
        (
            'all(deadline(load: atom(<1 cpu>, 1, 1, 2m, 2m), 00:20, zone="UTC"), '
            'deadline(save: atom(<1 cpu>, 1, 1, 2m, 2m), 23:59, zone="UTC"))',
            "30m",
            "is longer than the window of load",
        ),
    ],
)
def test_a_margin_that_its_window_does_not_have_is_refused(
    service: Service, rdl: str, margin: str, words: str
) -> None:
    """By name, and nothing is left."""
    stages = {name: {"command": "x"} for name in ("load", "save") if name in rdl}
    answer = post(service, rdl=rdl, margin=margin, stages=stages)
    (error,) = answer.get_json()["errors"]
    assert (answer.status_code, error["pointer"]) == (400, "/margin")
    assert words in error["message"]
    assert service.client.get("/v1/pipelines/nightly").status_code == 404


@pytest.mark.parametrize(
    "more",
    [
        {"directory": "/srv"},
        {"timeout": "1h"},
        {"success": [0, 7]},
        {"image": "registry/extract:1"},
    ],
)
def test_what_a_slurm_is_not_given_is_refused(
    open_service: Open, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    """Of a stage and of a component, by name; nothing is left."""
    service = open_service(tick_s=0)
    config = replace(service.runtime.config, slurm=Path("slurm.toml"))
    monkeypatch.setattr(service.runtime, "config", config)
    component = {"name": "m", "count": 1, "core": True, "resources": {"cpu": 1}, "command": "ls"}
    applied = {"name": "x", "components": [component | more]}
    asked = {
        "/stages/extract": post(service, stages=STAGES | {"extract": {"command": "ls", **more}}),
        "/application/components/0": service.client.post(
            "/v1/applications", json={"id": "x", "application": applied}
        ),
    }
    for pointer, answer in asked.items():
        found = answer.get_json()
        assert (answer.status_code, found["code"]) == (409, "wrong_state"), found
        assert [one["pointer"] for one in found["errors"]] == [f"{pointer}/{next(iter(more))}"]
    assert service.client.get("/v1/reservations/nightly").status_code == 404
    assert service.client.get("/v1/applications/x").status_code == 404


def test_tasks_are_refused_on_a_slurm(open_service: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of Slurm runs one command."""
    service = open_service(tick_s=0)
    config = replace(service.runtime.config, slurm=Path("slurm.toml"))
    monkeypatch.setattr(service.runtime, "config", config)
    answer = post(service, stages=STAGES | {"extract": {"command": "ls", "tasks": 5}})
    assert [one["pointer"] for one in answer.get_json()["errors"]] == ["/stages/extract/tasks"]
