"""A week of a cluster with five teams, a cohort, licences and monthly maintenance; then the ten
questions of docs/howto/ten-questions.md, by the commands that are written there.

The clock is moved by the test. Answers are compared with what the week asked for.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from service.cli.kit.errors import DONE, REFUSED
from tests.docs.pages import ROOT
from tests.end_to_end.pages.site import Site, served_site
from tests.service.cli.command_line import agenda

#: Cores that each team has: those of the cohort are guarantees, the others are limits.
RESEARCH: Final = {"ads": 60, "search": 80, "data": 100}
OTHERS: Final = {"web": 40, "lab": 40}
TEAMS: Final = RESEARCH | OTHERS

#: The most that ads may reserve with what it borrows.
MOST_OF_ADS: Final = 120

CLUSTER: Final = (
    """
step = "30m"
horizon = "9d"

[[machines]]
name = "standard"
count = 20
resources = { cpu = 16 }

[[pools]]
name = "matlab"
count = 10

[promises]
level = "placed"

[[policies]]
name = "take-back"
type = "displacement"
tenant = "*"
"""
    + "".join(
        f"""
[[policies]]
name = "{team}-cores"
type = "quota"
tenant = "{team}"
guarantee = {{ cpu = {cores} }}
{f"limit = {{ cpu = {MOST_OF_ADS} }}" if team == "ads" else ""}
cohort = "research"
lend = "6h"
"""
        for team, cores in RESEARCH.items()
    )
    + "".join(
        f"""
[[policies]]
name = "{team}-cores"
type = "quota"
tenant = "{team}"
limit = {{ cpu = {cores} }}
"""
        for team, cores in OTHERS.items()
    )
)

DAYS: Final = 7
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S

#: The maintenance of the first Monday, which is the first day of the week.
FIRST_MONDAY: Final = {
    "machines": "standard", "count": 15, "start": "+2h", "end": "+6h",
    "every": "1mo", "day": "first mon", "reason": "monthly firmware",
}  # fmt: skip

PAGE: Final = ROOT / "docs" / "howto" / "ten-questions.md"
_ROW: Final = re.compile(r"^\| (?P<question>[^|]+\?) \| `(?P<command>agenda [^`]+)` \|$", re.M)


@dataclass(slots=True)
class Week:
    """The site, and what was asked of it.

    Attributes
    ----------
    asked
        Core-hours of each request, by tenant and status of the answer.
    """

    site: Site
    asked: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def ask(
        self,
        id_: str,
        cores: int,
        span: tuple[int, int],
        status: int = 201,
        *,
        hours: int | None = None,
        bundle: str = "<1 cpu>",
    ) -> dict[str, Any]:
        """Ask for cores for some hours within a span, hours from now; all of it by default.

        The tenant is the id up to its first hyphen. The answer must have the status.
        """
        start, end = span
        lasts = end - start if hours is None else hours
        atom = f"atom({bundle}, {cores}, {cores}, {lasts}h, {cores * lasts}h)"
        rdl = f"window({atom}, +{start}h, +{end}h)"
        tenant = id_.partition("-")[0]
        answer = self.site.client.post(
            "/v1/reservations", json={"id": id_, "tenant": tenant, "rdl": rdl}
        )
        assert answer.status_code == status, answer.get_data(as_text=True)
        self.asked.setdefault((tenant, status), []).append(cores * lasts)
        found: dict[str, Any] = answer.get_json()
        return found

    def run_application(self, team: str, day: int) -> None:
        """Submit the application of a team's nightly reservation: half of it core, half elastic."""
        quarter = TEAMS[team] // 4
        parts = [
            {"name": name, "count": quarter, "core": core, "resources": {"cpu": 1}}
            for name, core in (("solver", True), ("helper", False))
        ]
        application = {"name": "nightly", "size": "4h", "components": parts,
                       "reservation": f"{team}-nightly-{day}"}  # fmt: skip
        body = {"id": f"{team}-work-{day}", "tenant": team, "application": application}
        self.site.call("POST", "/v1/applications", body)

    def pass_hours(self, hours: int) -> None:
        """Let hours pass; the dispatcher runs each hour, and the adapter once they are over.

        The threads that advance the Plan and repair it look by the processor's clock, once a
        second: a week that passes in seconds may be over before they see what failed on Thursday.
        """
        for _ in range(hours):
            self.site.runtime.dispatcher.tick()
            self.site.clock.advance(HOUR_S)
        self.site.runtime.dispatcher.tick()
        self.site.runtime.planner._committer.move_to_now()
        self.site.runtime.planner.adapter.run()


def _begin_day(week: Week, day: int) -> None:
    """Ask at midnight, each team for half of what it has, for too much, and for licences."""
    for team, cores in TEAMS.items():
        week.ask(f"{team}-nightly-{day}", cores // 2, (1, 12), hours=4)
        refused = week.ask(f"{team}-greedy-{day}", cores + 1, (7, 11), 409)
        assert refused["code"] == "quota"
        assert f"policy {team}-cores" in refused["detail"]
        week.run_application(team, day)
    licensed = "<1 cpu, 1 matlab>"
    week.ask(f"data-design-{day}", 6, (20, 22), bundle=licensed)
    refused = week.ask(f"lab-design-{day}", 5, (20, 22), 409, bundle=licensed)
    assert refused["code"] == "capacity"
    assert "4 matlab" in refused["detail"]


def _borrow(week: Week, day: int) -> None:
    """Let ads borrow at ten: what nobody asked for six hours ahead, and up to its limit."""
    week.ask(f"ads-early-{day}", 100, (11, 13), 409)
    week.pass_hours(10)
    week.ask(f"ads-beyond-{day}", MOST_OF_ADS + 1, (1, 3), 409)
    week.ask(f"ads-surge-{day}", 100, (1, 3))
    week.pass_hours(14)


def _take_back(week: Week, day: int) -> None:
    """Let data claim in the evening what ads has borrowed of its guarantee."""
    week.pass_hours(20)
    week.ask(f"lab-overnight-{day}", 32, (1, 7))
    week.pass_hours(1)
    week.ask(f"ads-surge-{day}", 110, (4, 6))
    week.pass_hours(1)
    week.ask(f"search-claim-{day}", 80, (3, 5))
    claimed = week.ask(f"data-claim-{day}", 100, (3, 5))
    assert [(one["id"], one["fate"]) for one in claimed["displaced"]] == [
        (f"ads-surge-{day}", "degraded")
    ]
    week.pass_hours(2)


def _play(week: Week) -> None:
    """Let the week pass, up to midnight of the next Monday."""
    week.site.call("POST", "/v1/cluster/outages", FIRST_MONDAY)
    refused = week.ask("data-maintained-0", 90, (2, 6), 409)
    assert refused["code"] == "capacity"
    assert "monthly firmware" in refused["detail"]
    for day in range(DAYS):
        _begin_day(week, day)
        if day == 2:
            _borrow(week, day)
        elif day in (3, DAYS - 1):
            _take_back(week, day)
        else:
            week.pass_hours(24)
    week.ask(f"data-design-{DAYS}", 6, (20, 22), bundle="<1 cpu, 1 matlab>")
    week.ask(f"lab-greedy-{DAYS}", TEAMS["lab"] + 1, (7, 11), 409)
    assert week.site.call("GET", "/v1/plan/counts")["now"] == DAYS * DAY_S


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Week]:
    """Return the site after its week."""
    with served_site(tmp_path_factory.mktemp("week"), CLUSTER) as site:
        played = Week(site)
        _play(played)
        yield played


def _commands() -> dict[str, list[str]]:
    """Return the arguments of the command that answers each question of the page."""
    found = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {question: shlex.split(command)[1:] for question, command in found}


def _answer(week: Week, question: str, *more: str) -> Any:
    """Return the JSON of the command that the page has for a question."""
    done = agenda(*_commands()[question], *more, "-o", "json", "--server", week.site.url)
    assert done.exit_code == DONE, done.output
    return json.loads(done.stdout)


HOW_FULL: Final = "How full is it now, and at today's peak?"
AT_RISK: Final = "What is at risk or degraded, and why?"
REFUSED_LATELY: Final = "What was refused in the last hour, and why?"
WHO_MAY: Final = "Who may reserve how much, and how much of it is used?"
WHO_USED: Final = "Who used the cluster last month, and were promises kept?"
DOWN: Final = "Which machines are down, until when, why, and who changed that?"
LOADED: Final = "How loaded is each machine?"
WHAT_IF: Final = "What would be affected if this rack failed?"
WHO_CHANGED: Final = "Who changed what since yesterday?"
HOW_MANY: Final = "How many machines do we need next quarter?"
QUESTIONS: Final = (HOW_FULL, AT_RISK, REFUSED_LATELY, WHO_MAY, WHO_USED, DOWN, LOADED, WHAT_IF,
                    WHO_CHANGED, HOW_MANY)  # fmt: skip


def test_the_page_has_one_command_for_each_of_the_ten_questions() -> None:
    assert tuple(_commands()) == QUESTIONS


def test_how_full_it_is_now_and_at_its_peak(week: Week) -> None:
    """Lab's 32 cores at midnight; at one o'clock also those that search and data claimed."""
    status = _answer(week, HOW_FULL)
    assert (status["machines"]["up"], status["machines"]["total"]) == (20, 20)
    promised = {one["resource"]: one for one in status["promised"]}
    cpu, matlab = promised["cpu"], promised["matlab"]
    assert (cpu["now"], cpu["capacity"]) == (32, 320)
    assert cpu["peak_share"] == pytest.approx((32 + 80 + 100) / 320, abs=1e-4)
    assert cpu["peak_at"] == "2026-01-12T01:00:00Z"
    assert (matlab["now"], matlab["peak_share"]) == (0, 0.6)
    assert matlab["peak_at"] == "2026-01-12T20:00:00Z"


def test_what_is_at_risk_and_why(week: Week) -> None:
    """What ads had borrowed was taken back; the reason names the guarantee."""
    (risk,) = _answer(week, AT_RISK)["at_risk"]
    assert (risk["id"], risk["state"]) == ("ads-surge-6", "degraded")
    assert risk["since_at"] == "2026-01-11T22:00:00Z"
    assert "data-cores" in risk["reason"]


def test_what_was_refused_in_the_last_hour(week: Week) -> None:
    """Only the request of this midnight; those of yesterday are older."""
    assert _answer(week, REFUSED_LATELY)["refused"] == [{"code": "quota", "count": 1}]


def test_who_may_reserve_how_much_and_how_much_is_used(week: Week) -> None:
    """Guarantee, limit with what may be borrowed, use now and at the peak, of each team."""
    policies = _answer(week, WHO_MAY)["policies"]
    use = {one["name"]: one["use"][0] for one in policies if one["use"]}
    whole = sum(RESEARCH.values())
    shown = {
        name: tuple(one[key] for key in ("guarantee", "limit", "used", "peak"))
        for name, one in use.items()
    }
    assert shown == {
        "ads-cores": (60, MOST_OF_ADS, 0, 0),
        "search-cores": (80, whole, 0, 80),
        "data-cores": (100, whole, 0, 100),
        "web-cores": (None, 40, 0, 0),
        "lab-cores": (None, 40, 32, 32),
    }


def test_who_used_the_cluster_and_whether_promises_were_kept(week: Week) -> None:
    """Each promise of the week with its outcome, each refused request, and what work used.

    What ads borrowed on Thursday has failed. Of the last evening lab's promise has begun, and those
    of ads and data have been changed; they are not over.
    """
    report = _answer(week, WHO_USED)
    rows = {one["name"]: one for one in report["rows"]}
    assert rows.keys() == TEAMS.keys()
    nights = {team: DAYS * 4 * (cores // 2) for team, cores in TEAMS.items()}
    # Beyond the nights: what was claimed on Thursday; licences of data; what ads borrowed on
    # Wednesday; of lab's two long ones the second up to midnight.
    more = {
        "data": (DAYS + 2, 2 * 6 * DAYS + 2 * 100), "search": (1, 2 * 80), "ads": (3, 2 * 100),
        "lab": (2, (6 + 3) * 32),
    }  # fmt: skip
    for team, row in rows.items():
        count, hours = more.get(team, (0, 0))
        failed = 1 if team == "ads" else 0
        assert (row["promised"], row["failed"]) == (DAYS + count, failed), team
        assert row["kept"] == row["promised"] - failed, team
        assert row["promised_core_hours"] == pytest.approx(nights[team] + hours), team
        refused = week.asked[team, 409]
        last = [4 * (TEAMS["lab"] + 1)] if team == "lab" else []  # asked at this very midnight
        assert row["refused"] == len(refused) - len(last), team
        assert row["refused_core_hours"] == pytest.approx(sum(refused) - sum(last)), team
        assert row["used_core_hours"] == pytest.approx(nights[team], rel=0.1), team
    assert {team: rows[team]["peak_cores"] for team in RESEARCH} == {
        "ads": 100, "search": 80, "data": 100,
    }  # fmt: skip


def test_which_machines_are_down_or_will_be(week: Week) -> None:
    """The maintenance of January is over; that of February is on its first Monday."""
    (outage,) = _answer(week, DOWN)["outages"]
    assert outage["start_at"] == "2026-02-02T02:00:00Z"
    assert outage["end_at"] == "2026-02-02T06:00:00Z"
    assert (outage["every"], outage["day"]) == ("1mo", "first mon")
    assert (outage["reason"], outage["by"]) == ("monthly firmware", "local")
    assert outage["names"] == [f"standard-{n}" for n in range(5, 20)]


def test_how_loaded_each_machine_is(week: Week) -> None:
    """The machines' shares add up to lab's 32 cores; all are up."""
    machines = _answer(week, LOADED)["machines"]
    assert len(machines) == 20
    assert all(one["up"] for one in machines)
    assert 16 * sum(one["promised_share"] for one in machines) == pytest.approx(32)


def test_what_a_loss_would_affect_changes_nothing(week: Week) -> None:
    """Four machines that are free lose nobody anything; nineteen leave 16 of lab's 32 cores."""
    before = week.site.call("GET", "/v1/plan/counts")
    assert _answer(week, WHAT_IF)["affected"] == []
    affected = _answer(week, WHAT_IF, "--count", "19")["affected"]
    degraded = {one["id"] for one in affected if one["fate"] == "degraded"}
    assert degraded == {"lab-overnight-6", "search-claim-6", "data-claim-6"}
    assert week.site.call("GET", "/v1/plan/counts") == before


def test_who_changed_what_since_yesterday(week: Week) -> None:
    """The requests of the last 24 hours, and what was taken back, with the request's user."""
    entries = _answer(week, WHO_CHANGED)
    assert Counter(one["kind"] for one in entries) == {
        "admit": len(TEAMS) + 1 + 4 + 1,
        "refuse": len(TEAMS) + 1 + 1,
        "submit_application": len(TEAMS),
        "degrade": 1,
    }
    (degraded,) = (one for one in entries if one["kind"] == "degrade")
    assert (degraded["about"], degraded["user"]) == ("ads-surge-6", "local")
    (cluster,) = json.loads(
        agenda("audit", "--kind", "cluster", "-o", "json", "--server", week.site.url).stdout
    )
    assert cluster["call"] == "POST /v1/cluster/outages"


def test_how_many_machines_the_week_needs(
    week: Week, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What policies refuse no number accepts, and the answer says so; 45 % need few."""
    monkeypatch.chdir(tmp_path)
    command = _commands()[HOW_MANY]
    (cluster, workload) = (Path(one) for one in command[1:3])
    cluster.parent.mkdir()
    exported = agenda("export", "plan.json", "--workload", workload, "--cluster",
                      "cluster.json", "--server", week.site.url)  # fmt: skip
    assert exported.exit_code == DONE, exported.output
    cluster.write_text(Path("cluster.json").read_text())
    answered = agenda(*command, "-o", "json")
    assert answered.exit_code == REFUSED
    largest = json.loads(answered.stdout)["tried"][-1]
    # Each team's excess of each midnight; of ads what it asked for too early, beyond its limit, and
    # what it borrowed: plans of files are made at their origin, which lends for its first hours.
    assert largest["refused"]["quota"] == DAYS * len(TEAMS) + 1 + 2 + 3
    fewer = ("--of", "requests", "--target", "45%")
    sizing = json.loads(agenda(*command, *fewer, "-o", "json").stdout)
    shares = {one["machines"]: one["requests_share"] for one in sizing["tried"]}
    found = sizing["found"]["machines"]
    assert shares[found] >= 0.45 > shares[found - 1]
    assert found < 20
