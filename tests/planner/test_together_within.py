"""A `together` whose bundles are all in one rack: promised, refused, repeated and moved."""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import AGENT_NAMES, agent_named
from planner.cluster.cluster import Cluster
from planner.cluster.policy import DisplacementRule, Scope
from planner.files import PlanDocument
from planner.offer_search import OfferSearch
from planner.optimization.objective import Objective
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.plan.batch.admission import screen
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Conflict, Relocate, UncompiledRequest, Update
from planner.renegotiation import renegotiation_of
from planner.reservations.state import State
from planner.validation.validate import validate
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_workload
from rdl.compile.source import read_source
from rdl.text.formatter import format_expression
from tests.builders import a_plan, a_request, commit
from tests.planner.brute_force_packing import Piece, fits_on_machines
from tests.planner.displacement.small_plans import displace_now
from tests.planner.racks import STEPS, adapt_now, ask, lose, racks, racks_of, violations

#: A driver of two cores and two workers of one.
_TEAM = "together(atom(<2 cpu>, 1, 1, {0}, {0}), atom(<1 cpu>, 2, 2, {0}, {1}), within=rack)"


def _team(lease: int, start: int, end: int) -> str:
    return f"window({_TEAM.format(lease, 2 * lease)}, {start}, {end})"


def _rack_of(plan: Plan, id_: str = "job") -> str:
    """Return the one rack of a reservation that occurs once."""
    found = {rack for one in racks_of(plan, id_) for rack in one}
    assert len(found) == 1, found
    return found.pop()


@pytest.mark.parametrize("agent", AGENT_NAMES)
def test_every_agent_keeps_a_together_in_one_rack(agent: str) -> None:
    """Racks of three cores hold the driver or the workers; only that of four holds both."""
    plan = a_plan(racks([2, 1], [2, 2], [3])).build()
    assert ask(plan, a_request("job", _team(2, 0, 6)).on(plan.cluster), agent) is None
    assert _rack_of(plan) == "r1"
    assert violations(plan) == []


def test_a_team_goes_where_all_of_it_leaves_least() -> None:
    """One driver fits in r0, two in r1, but r0 has seven cores and r1 four."""
    plan = a_plan(racks([2, 1, 1, 1, 1, 1], [2, 2])).build()
    assert ask(plan, a_request("job", _team(2, 0, 2)).on(plan.cluster)) is None
    assert _rack_of(plan) == "r1"


def test_the_two_of_many_racks_that_hold_all_are_tried() -> None:
    """Of 190 pairs one holds all: r3 has the driver's only machine, r17 the workers'."""
    cores = [[4] if rack == 3 else [2, 2, 2, 2] if rack == 17 else [1] for rack in range(20)]
    plan = a_plan(racks(*cores)).build()
    atoms = "atom(<4 cpu>, 1, 1, 2, 2), atom(<1 cpu>, 8, 8, 2, 16)"
    text = f"window(together({atoms}, within=rack, values=2), 0, 2)"
    assert ask(plan, a_request("job", text).on(plan.cluster)) is None
    assert racks_of(plan) == [["r3"], ["r17"]]
    refused = ask(plan, a_request("more", text).on(plan.cluster))
    assert refused is not None
    assert "none of the 19 choices of 2 tried has as many" in refused
    assert violations(plan) == []


def test_a_refusal_counts_all_members_and_names_the_fullest_and_the_emptiest_rack() -> None:
    """Three of four cores are left in r0, none in r1 and r2; r3 holds no driver."""
    plan = a_plan(racks([2, 2], [4], [4], [1, 1])).build()
    for number, atom in enumerate(['<1 cpu>, 1, 1, 4, 4, on="two"', *["<4 cpu>, 1, 1, 4, 4"] * 2]):
        text = f"window(atom({atom}), 0, 4)"
        assert ask(plan, a_request(f"busy{number}", text).on(plan.cluster)) is None
    refused = ask(plan, a_request("job", _team(4, 0, 4)).on(plan.cluster))
    assert refused is not None
    assert "needs 3 bundles in one rack" in refused
    assert "no rack has as many: r0 has 2, r2 has 0" in refused


def test_each_run_has_a_rack_of_its_own() -> None:
    """Each of two racks holds the team in one of the periods only."""
    plan = a_plan(racks([4], [4])).build()
    for start, id_ in ((0, "first"), (6, "second")):
        busy = f"window(atom(<3 cpu>, 1, 1, 2, 2), {start}, {start + 2})"
        assert ask(plan, a_request(id_, busy).on(plan.cluster)) is None
    text = f"every(6, {_team(2, 0, 2)}, times=2)"
    assert ask(plan, a_request("job", text).on(plan.cluster)) is None
    driver, workers = racks_of(plan)[:2], racks_of(plan)[2:]
    assert driver == workers
    assert all(len(one) == 1 for one in driver)
    assert violations(plan) == []


def test_a_team_whose_rack_loses_a_machine_moves_as_a_whole() -> None:
    """Only the machine of a worker is lost; the driver moves with the workers."""
    plan = a_plan(racks([2, 1, 1], [2, 2])).build()
    busy = a_request("busy", 'window(atom(<2 cpu>, 2, 2, 4, 8, on="two", within=rack), 0, 4)')
    assert ask(plan, busy.on(plan.cluster)) is None
    assert ask(plan, a_request("job", _team(2, 4, 6)).on(plan.cluster)) is None
    there = _rack_of(plan)
    lose(plan, "r0m1" if there == "r0" else "r1m0")
    adapt_now(plan)
    assert _rack_of(plan) == ("r1" if there == "r0" else "r0")
    found = plan.reservation("job")
    assert found is not None
    assert found.state is State.ACCEPTED
    assert [atom.rows.tolist() for atom in found.atoms] == [[[4, 6, 1]], [[4, 6, 2]]]
    assert violations(plan) == []


def test_a_driver_and_64_workers_leave_a_lost_rack() -> None:
    """All machines of their rack are lost: they keep their times, in the other rack."""
    plan = a_plan(racks([35, 35], [35, 35])).build()
    atoms = "atom(<2 cpu>, 1, 1, 2, 2), atom(<1 cpu>, 64, 64, 2, 128)"
    text = f"window(together({atoms}, within=rack), 4, 6)"
    assert ask(plan, a_request("job", text).on(plan.cluster)) is None
    lost = _rack_of(plan)
    lose(plan, f"{lost}m0", f"{lost}m1")
    adapt_now(plan)
    assert {_rack_of(plan), lost} == {"r0", "r1"}
    found = plan.reservation("job")
    assert found is not None
    assert [atom.rows.tolist() for atom in found.atoms] == [[[4, 6, 1]], [[4, 6, 64]]]
    assert violations(plan) == []


def test_a_team_that_runs_and_loses_a_machine_is_not_divided() -> None:
    """Its rack has no other machine: it is degraded, and no part of it goes to another rack."""
    plan = a_plan(racks([2, 1, 1], [2, 1])).build()
    assert ask(plan, a_request("job", _team(4, 0, 4)).on(plan.cluster)) is None
    assert _rack_of(plan) == "r0"
    commit(plan, Advance(1, STEPS))
    lose(plan, "r0m1")
    adapt_now(plan)
    found = plan.reservation("job")
    assert found is not None
    assert found.state is State.DEGRADED
    assert {rack for one in racks_of(plan) for rack in one} <= {"r0"}


def test_its_owner_moves_it_to_another_time_and_rack() -> None:
    """Later there is only one rack that holds it."""
    plan = a_plan(racks([2, 2], [4])).build()
    assert ask(plan, a_request("job", _team(2, 0, 4)).on(plan.cluster)) is None
    busy = "window(atom(<1 cpu>, 1, 1, 6, 6), 6, 12)"
    assert ask(plan, a_request("busy", busy).on(plan.cluster)) is None
    known = plan.reservation("job")
    assert known is not None
    wanted = a_request("job", _team(2, 6, 12)).on(plan.cluster)
    result = renegotiation_of(plan, "job", wanted).place(agent_named("gree"), Limits())
    assert result.placed, result.detail
    assert commit(plan, Update("job", known.revision, wanted, result, "gree")).record is not None
    assert _rack_of(plan)
    assert violations(plan) == []


def test_a_team_of_higher_priority_displaces_what_is_in_one_rack() -> None:
    """What has the only rack that holds it moves to a later time."""
    policy = DisplacementRule("urgent", Scope())
    plan = a_plan(replace(racks([4], [3]), policies=(policy,))).build()
    low = a_request("low", "window(atom(<4 cpu>, 1, 1, 4, 4), 0, 12)").priority(1)
    assert ask(plan, low.on(plan.cluster), "earliest") is None
    high = a_request("job", _team(4, 0, 4)).priority(2).on(plan.cluster)
    assert displace_now(plan, high) is not None
    assert _rack_of(plan) == "r0"
    moved = plan.reservation("low")
    assert moved is not None
    assert moved.atoms[0].rows.tolist()[0][0] >= 4
    assert violations(plan) == []


def test_an_offer_is_a_time_at_which_one_rack_holds_it() -> None:
    """Before step 6 each rack has three cores left; after it both have four."""
    plan = a_plan(racks([4], [4])).build()
    busy = "window(atom(<1 cpu>, 2, 2, 6, 12, spread=1), 0, 6)"
    assert ask(plan, a_request("busy", busy).on(plan.cluster)) is None
    text = _team(2, 0, 6)
    assert ask(plan, a_request("job", text).on(plan.cluster)) is not None
    expression = read_source(text)
    asked = UncompiledRequest("asked", "default", "default", 0, 1.0, 0, text)
    asked = replace(asked, expression=format_expression(expression))
    found = OfferSearch.of(plan).answer(
        asked, expression, agent_named("gree"), 3, lambda one: screen(plan, one)
    )
    offers = found["offers"]
    assert isinstance(offers, list)
    assert offers
    for number, offer in enumerate(offers):
        copy = plan.copy()
        again = a_request(f"again{number}", offer["expression"]).on(plan.cluster)
        assert ask(copy, again) is None
        assert violations(copy) == []


def test_a_commit_refuses_machines_in_two_racks() -> None:
    """The driver stays, the workers are named a machine of another rack."""
    plan = a_plan(racks([2, 2], [4])).build()
    assert ask(plan, a_request("job", _team(2, 0, 2)).on(plan.cluster)) is None
    found = plan.reservation("job")
    assert found is not None
    driver, workers = (atom.slots for atom in found.atoms)
    assert driver is not None
    assert workers is not None
    other = workers.copy()
    other[:, 3] = 0 if _rack_of(plan) == "r1" else 2
    outcome = commit(plan, Relocate("job", found.revision, (driver, other), "")).outcomes[0]
    assert isinstance(outcome, Conflict)
    assert "not all in one rack" in outcome.detail


@pytest.mark.parametrize("agent", ["gree-l", "exact", "milp"])
def test_a_batch_keeps_each_team_in_one_rack(agent: str) -> None:
    """Three racks of four cores hold three teams at a time; totals would hold them otherwise."""
    cluster = racks([3, 1], [2, 2], [4])
    lines = [a_request(f"job{k}", _team(4, 0, 12)).line for k in range(6)]
    lines.append(a_request("one", "window(atom(<3 cpu>, 1, 1, 4, 4), 0, 12)").line)
    work = compile_workload(lines, cluster)
    document = plan_workload(cluster, work, agent_named(agent), Limits(work=20, seed=1))
    body = PlanDocument.from_json(json.loads(document.to_text())).to_json()
    assert validate(body) == []
    teams = [one for one in body["reservations"] if len(one["atoms"]) == 2]
    assert len(teams) >= 5
    for team in teams:
        machines = {slot[3] for atom in team["atoms"] for slot in atom["slots"]}
        assert len({name[:2] for name in machines}) == 1, machines


@dataclass(frozen=True, slots=True)
class _Job:
    """Gangs of (cores, bundles, spread) that run together in so many racks, 0 in any number."""

    number: int
    lease: int
    end: int
    gangs: tuple[tuple[int, int, int], ...]
    racks: int

    def text(self) -> str:
        atoms = [
            f"atom(<{cores} cpu>, {count}, {count}, {self.lease}, {count * self.lease}"
            + (f", spread={spread})" if spread else ")")
            for cores, count, spread in self.gangs
        ]
        within = f", within=rack, values={self.racks}" if self.racks else ""
        return f"window(together({', '.join(atoms)}{within}), 0, {self.end})"

    def pieces(self, start: int, machines: frozenset[int]) -> list[Piece]:
        """Return what it takes from a step on, on these machines."""
        return [
            Piece(start, start + self.lease, n, (cores,), machines, 9 * self.number + k, spread)
            for k, (cores, n, spread) in enumerate(self.gangs)
        ]


def _draw(draw: random.Random, number: int) -> _Job:
    lease = draw.randint(1, 3)
    gangs = tuple(
        (draw.choice([1, 1, 2]), draw.randint(1, 2), draw.choice([0, 0, 1]))
        for _ in range(draw.randint(2, 3))
    )
    return _Job(number, lease, draw.randint(max(lease, 3), 5), gangs, draw.choice([0, 1, 1, 1, 2]))


def _placed(plan: Plan) -> list[Piece]:
    """Return all slots of a Plan, each on its machine."""
    return [
        Piece(start, end, n, (atom.bundle["cpu"] // 1000,), frozenset([machine]))
        for held in plan.reservations()
        for atom in held.atoms
        if atom.slots is not None
        for start, end, n, machine in atom.slots.tolist()
    ]


def _judge(cluster: Cluster, jobs: list[_Job], agent: str) -> tuple[int, int, int]:
    """Ask for jobs one after the other; return how many are accepted, refused, refused wrongly.

    Wrongly: at some start some rack holds it, all others staying where they are.
    """
    capacity = [(group.resources["cpu"] // 1000,) for group in cluster.machines]
    by_rack: dict[str, set[int]] = {}
    for number, group in enumerate(cluster.machines):
        by_rack.setdefault(dict(group.domains)["rack"], set()).add(number)
    plan, accepted, refused, wrong = a_plan(cluster).build(), 0, 0, 0
    for job in jobs:
        there = _placed(plan)
        places = [
            frozenset().union(*(by_rack[rack] for rack in some))
            for some in combinations(by_rack, job.racks or len(by_rack))
        ]
        request = a_request(f"r{job.number}", job.text()).if_possible(cluster)
        if request is not None and ask(plan, request, agent) is None:
            accepted += 1
            assert fits_on_machines(capacity, _placed(plan))
            continue
        refused += 1
        wrong += any(
            fits_on_machines(capacity, [*there, *job.pieces(start, machines)])
            for start in range(job.end - job.lease + 1)
            for machines in places
        )
    assert violations(plan) == []
    return accepted, refused, wrong


def _judged(agent: str, seeds: range) -> tuple[int, int, int]:
    total = (0, 0, 0)
    for seed in seeds:
        draw = random.Random(seed)
        cluster = racks(
            *([draw.randint(1, 3) for _ in range(draw.randint(1, 3))] for _ in range(3)), steps=6
        )
        one = _judge(cluster, [_draw(draw, number) for number in range(6)], agent)
        total = tuple(map(sum, zip(total, one, strict=True)))  # type: ignore[assignment]
    return total


@pytest.mark.parametrize(
    ("agent", "seeds"),
    [("gree", range(40)), ("gree-l", range(40)), ("exact", range(3)), ("milp", range(3))],
)
def test_no_start_at_which_a_rack_holds_all_is_missed(agent: str, seeds: range) -> None:
    """Nothing is accepted that no rack holds; others stay where they are."""
    accepted, refused, wrong = _judged(agent, seeds)
    assert accepted
    assert refused
    assert wrong == 0


@pytest.mark.soak
def test_no_start_is_missed_at_length() -> None:
    """The same from a seed that is reported; best fit in five orders is no proof."""
    first = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={first}")
    accepted, refused, wrong = _judged("gree-l", range(first, first + 500))
    print(accepted, refused, wrong)
    assert 1000 * wrong <= 5 * refused


@given(st.data())
def test_orders_and_recurrences_stay_in_one_rack_each(data: st.DataObject) -> None:
    """Several teams and recurrences, judged by the validator, as they are asked for, after an
    optimization, and after a loss of machines.
    """
    cores = st.lists(st.integers(1, 3), min_size=1, max_size=3)
    cluster = racks(*data.draw(st.lists(cores, min_size=2, max_size=3)))
    plan = a_plan(cluster).build()
    for number in range(data.draw(st.integers(1, 4))):
        teams = []
        for _ in range(data.draw(st.integers(1, 2))):
            lease, domain = (
                data.draw(st.integers(1, 2)),
                data.draw(st.sampled_from(["rack", "zone"])),
            )
            sizes = data.draw(st.lists(st.integers(1, 2), min_size=2, max_size=3))
            atoms = [f"atom(<1 cpu>, {n}, {n}, {lease}, {n * lease})" for n in sizes]
            teams.append(f"together({', '.join(atoms)}, within={domain})")
        shapes = [
            f"window(order({', '.join(teams)}), 0, 10)",
            f"every(4, window(all({', '.join(teams)}), 0, 4), times=3)",
        ]
        request = a_request(f"r{number}", data.draw(st.sampled_from(shapes))).if_possible(cluster)
        if request is not None:
            ask(plan, request, data.draw(st.sampled_from(["gree", "gree-l", "earliest"])))
    assert violations(plan) == []
    scope = OptimizeScope(admit_refused=True)
    better = optimize(plan, Objective(), scope, OptimizeOptions(Limits(work=10, seed=1), solver=""))
    if better.changes:
        prepared = plan.prepare(better.changes, better.based_on, joint=True)
        assert prepared.record is not None, prepared.outcomes
        plan.apply(prepared.record)
    assert violations(plan) == []
    commit(plan, Advance(data.draw(st.integers(0, 6)), STEPS))
    names = [group.name for group in cluster.machines]
    lose(plan, *data.draw(st.lists(st.sampled_from(names), max_size=3, unique=True)))
    adapt_now(plan)
    assert not [one for one in violations(plan) if "rack" in one or "zone" in one]
