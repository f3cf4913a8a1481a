"""Offers on machines: whatever is offered finds machines, too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.offer_search import OfferSearch, quick
from planner.plan.batch.admission import screen
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Refuse, UncompiledRequest
from planner.promise import PromiseLevel
from planner.request import Request
from rdl.compile.source import read_source
from rdl.text.formatter import format_expression
from tests.builders import a_cluster, a_request, commit


def cluster_of(cores: tuple[int, ...]) -> Cluster:
    """Machines of some cores each, steps of 10 s, ten minutes; slots are promised."""
    built = a_cluster().step("10s").horizon("10m")
    for number, one in enumerate(cores):
        built = built.machines(f"m{number}", 1, cpu=one)
    return replace(built.build(), promise=PromiseLevel.PLACED)


def ask(plan: Plan, request: Request, agent: str) -> bool:
    """Place a request and commit the answer as the service does; return whether it stands."""
    chosen = agent_named(agent)
    result = chosen.plan([request], plan.view(), Limits())[0]
    if result.code is not None:
        commit(plan, Refuse(request, result.code, result.detail, result.binding))
        return False
    return commit(plan, Admit(request, result, agent, planner=quick(chosen))).record is not None


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a request of one or two atoms in a window."""
    if draw(st.booleans()):
        return draw(together_texts())
    atoms = []
    for _ in range(draw(st.integers(1, 2))):
        least, lease = draw(st.integers(1, 3)), draw(st.integers(1, 10)) * 10
        work = lease * least * draw(st.integers(1, 3))
        most = least + draw(st.integers(0, 3))
        cores = draw(st.integers(1, 4))
        atoms.append(f"atom(<{cores} cpu>, {least}, {most}, {lease}, {work})")
    operator = draw(st.sampled_from(["order", "any", "all"]))
    body = atoms[0] if len(atoms) == 1 else f"{operator}({', '.join(atoms)})"
    start = draw(st.integers(0, 40)) * 10
    return f"window({body}, {start}, {start + draw(st.integers(1, 50)) * 10})"


@st.composite
def together_texts(draw: st.DrawFn) -> str:
    """Draw two gangs of different bundles that run at the same time, in a window."""
    lease = draw(st.integers(1, 10)) * 10
    gangs = []
    for _ in range(2):
        count, cores = draw(st.integers(1, 3)), draw(st.integers(1, 4))
        gangs.append(f"atom(<{cores} cpu>, {count}, {count}, {lease}, {count * lease})")
    start = draw(st.integers(0, 40)) * 10
    end = start + lease + draw(st.integers(0, 20)) * 10
    return f"window(together({', '.join(gangs)}), {start}, {end})"


def answer_for(plan: Plan, text: str, agent: str) -> dict[str, object]:
    """Ask whether a request would be accepted, as the service does."""
    expression = read_source(text)
    asked = UncompiledRequest("asked", "default", "default", 0, 1.0, 0, text)
    asked = replace(asked, expression=format_expression(expression))
    search = OfferSearch.of(plan)
    return search.answer(asked, expression, agent_named(agent), 9, lambda one: screen(plan, one))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(2, 6), min_size=1, max_size=4).map(tuple),
    st.lists(texts(), max_size=8),
    texts(),
    st.sampled_from(["gree", "gree-l", "earliest"]),
)
def test_an_offer_sent_back_finds_machines(
    cores: tuple[int, ...], standing: list[str], text: str, agent: str
) -> None:
    """On machines that others hold in part: the answer is the commit's, and offers are kept."""
    plan = Plan(cluster_of(cores), cluster_of(cores).grid())
    for number, one in enumerate(standing):
        other = a_request(f"s{number}", one).if_possible(plan.cluster)
        if other is not None:
            ask(plan, other, agent)
    request = a_request("asked", text).if_possible(plan.cluster)
    assume(request is not None)
    assert request is not None
    answer = answer_for(plan, text, agent)
    assert answer["accepted"] is ask(plan.copy(), request, agent)
    offers = answer["offers"]
    assert isinstance(offers, list)
    refusal = answer["refusal"]
    binding = refusal["binding"] if isinstance(refusal, dict) else None
    event(f"offers: {len(offers)}, for lack of {binding and binding['kind']}")
    for offer in offers:
        changed = a_request("asked", offer["expression"]).on(plan.cluster)
        assert ask(plan.copy(), changed, agent), offer


def scattered(agent: str) -> Plan:
    """Return a Plan of two machines of 4 cores with 3 taken of each for five minutes."""
    cluster = cluster_of((4, 4))
    plan = Plan(cluster, cluster.grid())
    for name in ("a", "b"):
        text = "window(atom(<3 cpu>, 1, 1, 5m, 5m), 0, 5m)"
        assert ask(plan, a_request(name, text).on(cluster), agent)
    return plan


@pytest.mark.parametrize("agent", ["gree", "exact", "milp"])
def test_a_refusal_for_machines_says_what_and_when_and_offers_a_later_deadline(agent: str) -> None:
    """The pool has 2 cores left, no machine has: after the others end there is capacity."""
    plan = scattered("gree")
    text = "window(atom(<2 cpu>, 1, 1, 2m, 2m), 0, 5m)"
    answer = answer_for(plan, text, agent)
    assert not answer["accepted"]
    refusal, offers = answer["refusal"], answer["offers"]
    assert isinstance(refusal, dict)
    assert isinstance(offers, list)
    binding = refusal["binding"]
    assert (binding["kind"], binding["needed"], binding["free"]) == ("machines", 1, 0)
    assert "machines hold none of them" in refusal["detail"]
    later = next(one for one in offers if one["change"]["kind"] == "deadline")
    assert later["change"]["offered"] >= 420
    assert ask(plan, a_request("asked", later["expression"]).on(plan.cluster), agent)


def test_a_search_leaves_the_capacity_of_the_plan_as_it_is() -> None:
    """Trials write a copy: what machines of the Plan have left does not change."""
    plan = scattered("gree")
    before = plan.room.copy()
    answer_for(plan, "window(atom(<2 cpu>, 1, 1, 2m, 2m), 0, 5m)", "gree")
    assert (plan.room._tree == before._tree).all()
