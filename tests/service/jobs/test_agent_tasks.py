"""Agents of a comparison, each a task: those that are done are not run again."""

from __future__ import annotations

import msgspec

from planner.workload.compare import AgentRun
from service.jobs.comparison import kept_runs, written_runs
from service.jobs.tasks import bare_limits, compare_on
from tests.service.conftest import Service
from tests.service.jobs import work


def test_runs_that_were_kept_are_taken_over(service: Service) -> None:
    """By way of the row on disk: the agent that is missing runs, and is shown next to the other."""
    service.reserve("a")
    with service.runtime.reading() as plan:
        day = work.day_of(plan)
    ran: list[AgentRun] = []
    first = compare_on(None, day, bare_limits(["gree"], None, 0), bool, tell=ran.append)
    kept = msgspec.json.encode({"runs": written_runs({"gree": first.run("gree")}, 7)})
    assert kept_runs(kept, 8) == {}, "of another version of the Plan"
    older = msgspec.json.encode({"runs": {"agenda": "0.0.1", "plan": [7]}})
    assert kept_runs(older, 7) == {}, "of another version of Agenda"
    done = kept_runs(kept, 7)
    assert done == {"gree": first.run("gree")}
    names = bare_limits(["gree-l", "gree"], None, 0)
    whole = compare_on(None, day, names, bool, done, ran.append)
    assert [one.agent for one in ran] == ["gree", "gree-l"]
    assert [one.agent for one in whole.runs] == ["gree-l", "gree"]
    assert whole.baseline == "gree"
    assert whole.run("gree-l").differences is not None
