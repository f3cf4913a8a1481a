"""Offers: accepted when sent back, ranked by how little they change, found where they exist."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.offers import Offer, Seeker, find_offers
from planner.plan.plan import Plan
from planner.request import Request
from rdl.compile.compiler import compile_source
from rdl.compile.source import read_source
from tests.builders import a_cluster, a_plan, a_request, ask

CLUSTER = a_cluster().step("10s").horizon("1h").machines("plain", 4, cpu=4, memory="8 GiB").build()


def offers_for(plan: Plan, text: str, agent: str = "gree", most: int = 3) -> tuple[Offer, ...]:
    """Ask for offers as the service does."""
    asked = a_request("asked", "atom(<1 cpu>, 1, 1, 10, 10)").on(plan.cluster)
    seeker = Seeker(
        asked,
        read_source(text),
        plan.cluster.context(plan.cluster.grid(), 0),
        plan.snapshot(),
        agent_named(agent),
    )
    return find_offers(seeker, most)


def is_accepted(plan: Plan, text: str, agent: str = "gree") -> bool:
    """Plan a text as a new request on the same version."""
    graph = compile_source(text, plan.cluster.context(plan.cluster.grid(), 0))
    request = Request("asked", "default", "default", 0, 1.0, 0, graph)
    return agent_named(agent).plan([request], plan.snapshot(), Limits())[0].placed


def full_until(minutes: int) -> Plan:
    """Return a Plan whose 16 cores are all taken up to a minute."""
    steps = minutes * 6
    text = f"window(atom(<1 cpu>, 16, 16, {minutes}m, {minutes * 16}m), 0, {steps * 10})"
    return a_plan(CLUSTER).holding(a_request("standing", text).on(CLUSTER)).build()


def test_the_earliest_deadline_is_offered() -> None:
    """All cores are taken for 10 minutes, so 5 minutes of all cores end at minute 15."""
    offers = offers_for(full_until(10), "window(atom(<1 cpu>, 16, 16, 5m, 80m), 0, 10m)")

    deadline = next(offer for offer in offers if offer.kind == "deadline")
    assert (deadline.asked, deadline.offered) == (600, 900)
    assert deadline.expression == "window(atom(<1 cpu>, 16, 16, 300, 4800), 0, 900)"
    assert deadline.share == pytest.approx(0.5)


def test_the_largest_part_is_offered() -> None:
    """12 of 16 cores are taken throughout: a gang of 8 for the whole window becomes one of 4."""
    standing = a_request("standing", "window(atom(<1 cpu>, 12, 12, 1h, 12h), 0, 1h)").on(CLUSTER)
    plan = a_plan(CLUSTER).holding(standing).build()

    offers = offers_for(plan, "window(atom(<1 cpu>, 8, 8, 10m, 80m), 0, 10m)")

    assert [offer.kind for offer in offers] == ["size"]
    assert offers[0].expression == "window(atom(<1 cpu>, 4, 4, 600, 2400), 0, 600)"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("atom(<1 cpu>, 17, 17, 10m, 170m)", 16 / 17),
        ("all(atom(<1 cpu>, 8, 8, 1h, 8h), atom(<2 cpu>, 5, 5, 1h, 5h))", 15 / 18),
        ("window(atom(<1 cpu>, 1, 16, 10m, 240m), 0, 10m)", 2 / 3),
    ],
)
def test_a_size_says_how_much_work_is_left(text: str, part: float) -> None:
    """Bundles of a gang and leases are whole: more is left out than was tried."""
    (offer,) = [
        one for one in offers_for(Plan(CLUSTER, CLUSTER.grid()), text) if one.kind == "size"
    ]

    assert (offer.asked, offer.offered) == (1.0, pytest.approx(part))
    assert offer.share == pytest.approx(1 - part)


def test_an_earlier_start_is_offered() -> None:
    """Free only before minute 30: a window of minutes 30 to 40 could start earlier."""
    standing = a_request("standing", "window(atom(<1 cpu>, 16, 16, 30m, 8h), 30m, 1h)").on(CLUSTER)
    plan = a_plan(CLUSTER).holding(standing).build()

    offers = offers_for(plan, "window(atom(<1 cpu>, 16, 16, 5m, 80m), 30m, 40m)")

    assert [offer.kind for offer in offers] == ["start"]
    assert offers[0].offered == 1500


def test_a_window_too_short_to_compile_gets_a_deadline() -> None:
    """Ten minutes of work in a window of five needs no full cluster to be refused, only time."""
    offers = offers_for(Plan(CLUSTER, CLUSTER.grid()), "window(atom(<1 cpu>,1,1,10m,10m), 0, 5m)")

    assert [(offer.kind, offer.offered) for offer in offers if offer.kind == "deadline"] == [
        ("deadline", 600)
    ]


def test_nothing_is_offered_where_nothing_helps() -> None:
    """Everything is taken to the horizon, so there is no offer, and no error."""
    offers = offers_for(full_until(60), "window(atom(<1 cpu>, 1, 4, 10m, 40m), 0, 1h)")

    assert offers == ()


def test_offers_are_ranked_by_how_little_they_change() -> None:
    """The smallest share comes first, and no more than asked for are returned."""
    plan = full_until(10)
    text = "window(atom(<1 cpu>, 1, 16, 1m, 160m), 0, 15m)"

    shares = [offer.share for offer in offers_for(plan, text)]

    assert shares == sorted(shares)
    assert len(offers_for(plan, text, most=1)) == 1


def drawn_text(draw: st.DrawFn) -> str:
    """Draw a request of one or two atoms in a window."""
    bundle = f"<{draw(st.integers(1, 3))} cpu, 1 GiB memory>"
    atoms = []
    for _ in range(draw(st.integers(1, 2))):
        g, lease = draw(st.integers(1, 6)), draw(st.integers(1, 30)) * 10
        work = lease * g * draw(st.integers(1, 4))
        atoms.append(f"atom({bundle}, {g}, {g + draw(st.integers(0, 6))}, {lease}, {work})")
    operator = draw(st.sampled_from(["order", "any", "all"]))
    body = atoms[0] if len(atoms) == 1 else f"{operator}({', '.join(atoms)})"
    start = draw(st.integers(0, 120)) * 10
    return f"window({body}, {start}, {start + draw(st.integers(1, 200)) * 10})"


@st.composite
def asked_on_a_plan(draw: st.DrawFn) -> tuple[Plan, str, str]:
    """Draw a loaded Plan, a request, and the agent that is asked."""
    plan = Plan(CLUSTER, CLUSTER.grid())
    for index in range(draw(st.integers(0, 12))):
        with suppress(ValueError):  # what no plan can satisfy is left out
            ask(plan, a_request(f"s{index}", drawn_text(draw)).on(CLUSTER))
    return plan, drawn_text(draw), draw(st.sampled_from(["gree", "gree-l", "aligned"]))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(asked_on_a_plan())
def test_an_offer_sent_back_is_accepted(drawn: tuple[Plan, str, str]) -> None:
    """Whatever the Plan, request and agent: every offer is accepted in the version it names."""
    plan, text, agent = drawn

    for offer in offers_for(plan, text, agent, most=9):
        assert offer.at_version == plan.version
        assert is_accepted(plan, offer.expression, agent), offer
