"""The core/elastic algorithm: hand-derived cases, laws, and a plain reference event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.cluster.baselines import SCHEDULERS, RigidScheduler, scheduler_named
from bench.papers.cluster.plain_elastic import PlainElastic, TotalRoom, amounts_of
from dispatch.pool.claims import Claim, ClaimPart, GrantRule
from dispatch.pool.ordering import ORDERINGS, Ordering, Rule, ordering_named
from dispatch.pool.scheduler import ElasticScheduler

TOTAL = (12, 10)
KINDS = ("a", "b")
_RULES = {
    "flexible": GrantRule.FLEXIBLE,
    "flexible-grow": GrantRule.GROW_ONLY,
    "malleable": GrantRule.MALLEABLE,
    "rigid": GrantRule.FLEXIBLE,
}
_ALL = [*ORDERINGS, *[f"{name}!" for name in ORDERINGS if name != "drf"]]


def ordering_of(name: str) -> Ordering:
    """`name!` is the preemptive form, by priority."""
    if name.endswith("!"):
        return ordering_named(name[:-1], preemptive=True, by_priority=True)
    return ordering_named(name)


_amount = st.integers(0, 5)


def _parts(most: int) -> st.SearchStrategy[tuple[ClaimPart, ...]]:
    part = st.builds(ClaimPart, st.integers(1, 4), st.tuples(_amount, _amount))
    return st.lists(part, max_size=most).map(tuple)


@st.composite
def claims(draw: st.DrawFn, name: str, at: int, *, rigid: bool = False) -> Claim:
    """A claim that may or may not fit into TOTAL."""
    each = draw(st.tuples(st.integers(0, 4), st.integers(1, 4)))
    return Claim(
        name,
        (ClaimPart(draw(st.integers(1, 3)), each),),
        () if rigid else draw(_parts(2)),
        float(at),
        float(draw(st.integers(1, 8))),
        draw(st.integers(0, 2)),
        draw(st.sampled_from("xy")),
    )


@st.composite
def events(draw: st.DrawFn, *, rigid: bool = False) -> list[tuple[int, Claim | None, int]]:
    """(time, arrival or None, index of who departs) in order of time."""
    found, now = [], 0
    for index in range(draw(st.integers(1, 14))):
        now += draw(st.integers(0, 3))
        departs = draw(st.integers(0, 2)) == 0
        claim = None if departs else draw(claims(f"n{index}", now, rigid=rigid))
        found.append((now, claim, draw(st.integers(0, 9))))
    return found


def _plain(name: str, ordering: Ordering) -> PlainElastic:
    return PlainElastic(TotalRoom(KINDS, TOTAL), ordering, _RULES[name])


@settings(max_examples=250)
@given(st.sampled_from(SCHEDULERS), st.sampled_from(_ALL), events())
def test_every_event_gives_what_the_plain_algorithm_gives(
    name: str, order: str, happenings: list[tuple[int, Claim | None, int]]
) -> None:
    """Service, its order, and every grant equal those of lists and loops, whatever the order."""
    total = dict(zip(KINDS, TOTAL, strict=True))
    scheduler = scheduler_named(name, total, ordering_of(order))
    plain = _plain(name, ordering_of(order))
    for now, claim, index in happenings:
        present = plain.names()
        if claim is not None:
            scheduler.arrive(claim, now)
            plain.arrive(_rigid(claim) if name == "rigid" else claim, now)
        elif present:
            gone = present[index % len(present)]
            scheduler.depart(gone, now)
            plain.depart(gone, now)
        assert scheduler.service_order() == plain.service_order()
        assert set(scheduler.queue()) == set(plain.queue())
        if name != "rigid":
            for other in plain.service_order():
                assert scheduler.grants_of(other) == plain.grants_of(other)


def _rigid(claim: Claim) -> Claim:
    return replace(claim, core=claim.core + claim.elastic, elastic=())


@settings(max_examples=150)
@given(
    st.sampled_from(["flexible", "flexible-grow", "malleable"]), st.sampled_from(_ALL), st.data()
)
def test_later_tiers_are_granted_from_what_the_first_leaves(
    name: str, order: str, data: st.DataObject
) -> None:
    """In the order of tiers and turns; service is as if they asked for none."""
    total = dict(zip(KINDS, TOTAL, strict=True))
    scheduler = ElasticScheduler(total, ordering_of(order), _RULES[name])
    plain = _plain(name, ordering_of(order))
    for index, (now, claim, gone) in enumerate(data.draw(events())):
        present = plain.names()
        if claim is not None:
            tier = data.draw(st.integers(0, 2))
            claim = replace(claim, tier=tier, turn=(data.draw(st.integers(0, 2)), index))
            if tier and data.draw(st.booleans()):
                claim = replace(claim, core=())
                scheduler.replace_joined((), [claim], now)
                plain.replace_joined((), [claim], now)
            else:
                scheduler.arrive(claim, now)
                plain.arrive(claim, now)
        elif present:
            other = present[gone % len(present)]
            if other in plain.joined():
                scheduler.replace_joined([other], (), now)
                plain.replace_joined([other], (), now)
            else:
                scheduler.depart(other, now)
                plain.depart(other, now)
        assert scheduler.service_order() == plain.service_order()
        assert set(scheduler.joined()) == set(plain.joined())
        for other in (*plain.service_order(), *plain.joined()):
            assert scheduler.grants_of(other) == plain.grants_of(other)
        assert list(scheduler.faults()) == []


def test_those_who_wait_with_preemption_are_ordered_by_what_counts_now() -> None:
    """Under HRRN as printed the longer one waits the later one goes, also in the urgent line."""
    one, wide = (ClaimPart(1, (0, 1)),), (ClaimPart(3, (0, 2)),)
    scheduler = ElasticScheduler(
        dict(zip(KINDS, TOTAL, strict=True)), ordering_of("hrrn-2d-printed!")
    )
    for name, core, at in (("n0", one, 0), ("n1", one, 0), ("n2", (ClaimPart(3, (0, 1)),), 0)):
        scheduler.arrive(Claim(name, core, (), at, 1.0, 0, "x"), at)
    scheduler.arrive(Claim("n3", wide, (), 0.0, 1.0, 2, "x"), 0)
    scheduler.arrive(Claim("n4", wide, (), 1.0, 1.0, 2, "x"), 1)
    scheduler.depart("n0", 1)
    assert scheduler.service_order() == ("n4", "n1", "n2")


def test_who_comes_in_is_ordered_as_one_that_runs() -> None:
    """Under SRPT over components left n1 waits with 3 s x 3 = 9 and runs with 3 s x 2 = 6, which
    goes before n0's 4 s x 2 = 8."""
    scheduler = ElasticScheduler(dict(zip(KINDS, TOTAL, strict=True)), ordering_of("srpt-2d2!"))
    one, free = (ClaimPart(1, (0, 1)),), ClaimPart(1, (0, 0))
    scheduler.arrive(Claim("n0", one, (free,), 0.0, 4.0, 2, "x"), 0)
    scheduler.arrive(Claim("n1", one, (free, free), 0.0, 3.0, 2, "x"), 0)
    assert scheduler.service_order() == ("n1", "n0")


@settings(max_examples=150)
@given(st.sampled_from(SCHEDULERS), st.sampled_from(_ALL), events())
def test_laws_hold_after_every_event(
    name: str, order: str, happenings: list[tuple[int, Claim | None, int]]
) -> None:
    """Cores are never taken, grants stay within demand, nothing is over-committed, and the
    grants reported are exactly the changes."""
    scheduler = scheduler_named(name, dict(zip(KINDS, TOTAL, strict=True)), ordering_of(order))
    there: dict[str, Claim] = {}
    told: dict[str, tuple[int, ...]] = {}
    for now, claim, index in happenings:
        before = set(scheduler.service_order())
        gone = None
        if claim is not None:
            there[claim.name] = claim
            changes = scheduler.arrive(claim, now)
        elif there:
            gone = sorted(there)[index % len(there)]
            del there[gone]
            changes = scheduler.depart(gone, now)
            told.pop(gone, None)
        else:
            continue
        for change in changes:
            assert change.started == (change.name not in told)
            assert change.started or change.granted != told[change.name]
            told[change.name] = change.granted
        serving = scheduler.service_order()
        assert before - {gone} <= set(serving)
        assert told == {other: scheduler.grants_of(other) for other in serving}
        held = [0, 0]
        for other in serving:
            entry = there[other]
            assert all(
                0 <= got <= part.count for got, part in zip(told[other], entry.elastic, strict=True)
            )
            parts = tuple(
                ClaimPart(got, part.amounts)
                for got, part in zip(told[other], entry.elastic, strict=True)
            )
            held = [
                one + more
                for one, more in zip(held, amounts_of(entry.core + parts, 2), strict=True)
            ]
        assert all(one <= most for one, most in zip(held, TOTAL, strict=True))
        free = {kind: TOTAL[at] - held[at] for at, kind in enumerate(KINDS)}
        assert scheduler.free() == free


@given(st.sampled_from(_ALL), events(rigid=True))
def test_with_only_core_applications_flexible_is_rigid(
    order: str, happenings: list[tuple[int, Claim | None, int]]
) -> None:
    """No elastic components: the same executions are in service after every event."""
    total = dict(zip(KINDS, TOTAL, strict=True))
    flexible = ElasticScheduler(total, ordering_of(order))
    rigid = RigidScheduler(total, ordering_of(order))
    there: list[str] = []
    for now, claim, index in happenings:
        if claim is not None:
            there.append(claim.name)
            flexible.arrive(claim, now)
            rigid.arrive(claim, now)
        elif there:
            gone = there.pop(index % len(there))
            flexible.depart(gone, now)
            rigid.depart(gone, now)
        assert flexible.service_order() == rigid.service_order()


def _claim(name: str, core: int, elastic: int = 0, **more: object) -> Claim:
    parts = (ClaimPart(elastic, (1,)),) if elastic else ()
    return Claim(name, (ClaimPart(core, (1,)),), parts, **more)  # type: ignore[arg-type]


def test_a_request_that_exactly_fills_the_cluster_starts() -> None:
    """The printed algorithm's `<` would leave it waiting for ever."""
    scheduler = ElasticScheduler({"u": 10})
    assert [grant.name for grant in scheduler.arrive(_claim("a", 10), 0)] == ["a"]


def test_preemption_counts_granted_elastic_not_requested() -> None:
    """A asks for 8 elastic but holds 4 of 10: a core of 6 would fit the printed test, not this."""
    scheduler = ElasticScheduler({"u": 10}, ordering_named("priority", preemptive=True))
    scheduler.arrive(_claim("a", 6, 8), 0)
    scheduler.arrive(_claim("b", 6, priority=1), 0)
    assert scheduler.service_order() == ("a",)
    assert scheduler.queue() == ("b",)
    scheduler.arrive(_claim("c", 4, priority=1), 0)
    assert scheduler.service_order() == ("c", "a")
    assert scheduler.grants_of("a") == (0,)


def test_nothing_is_admitted_while_a_preemptive_request_waits() -> None:
    """W is served before L, even where L's head would fit."""
    scheduler = ElasticScheduler({"u": 10}, ordering_named("priority", preemptive=True))
    scheduler.arrive(_claim("a", 6), 0)
    scheduler.arrive(_claim("w", 6, priority=1), 0)
    scheduler.arrive(_claim("l", 2), 0)
    assert scheduler.service_order() == ("a",)
    scheduler.depart("w", 1)
    assert scheduler.service_order() == ("a", "l")


def test_a_smaller_total_takes_elastic_back_from_the_end_and_leaves_cores() -> None:
    """10 to 7: the second loses its grants first; below the cores nothing but grants goes."""
    for name in ("flexible", "flexible-grow", "malleable"):
        scheduler = scheduler_named(name, {"u": 14})
        scheduler.arrive(_claim("a", 3, 4), 0)
        scheduler.arrive(_claim("b", 3, 4), 0)
        assert (scheduler.grants_of("a"), scheduler.grants_of("b")) == ((4,), (4,))
        changes = scheduler.set_total({"u": 11}, 1)
        assert [(change.name, change.granted) for change in changes] == [("b", (1,))]
        scheduler.set_total({"u": 5}, 2)
        assert scheduler.service_order() == ("a", "b")
        assert scheduler.free() == {"u": -1}


def test_what_runs_already_is_adopted_whether_it_fits_or_not() -> None:
    """A core of 8 in a pool of 5 is in service; no one else starts until it has left."""
    scheduler = ElasticScheduler({"u": 5})
    (grant,) = scheduler.adopt(_claim("a", 8, 2), 0)
    assert (grant.started, grant.granted, scheduler.free()) == (True, (0,), {"u": -3})
    assert scheduler.arrive(_claim("b", 1), 1) == ()
    assert [one.name for one in scheduler.depart("a", 2)] == ["b"]


def test_what_is_sent_back_is_passed_by_no_one() -> None:
    """Three of five in service are sent back when two are left: the small one behind waits too."""
    scheduler = ElasticScheduler({"u": 5})
    scheduler.arrive(_claim("a", 3, 2, submitted_s=0), 0)
    scheduler.arrive(_claim("b", 1, submitted_s=1), 1)
    scheduler.set_total({"u": 2}, 2)
    assert scheduler.requeue("a", 2) == ()
    assert (scheduler.service_order(), scheduler.queue()) == ((), ("a", "b"))
    grants = scheduler.set_total({"u": 4}, 3)
    assert [(grant.name, grant.started) for grant in grants] == [("a", True)]
    with pytest.raises(ValueError, match="not in service"):
        scheduler.requeue("b", 4)


def test_backfill_lets_a_small_request_pass() -> None:
    """FIFO waits for the head; with backfill the third starts alongside the first."""
    for order, serving in (("fifo", ("a",)), ("fifo-backfill", ("a", "c"))):
        scheduler = ElasticScheduler({"u": 10}, ordering_named(order))
        for claim in (_claim("a", 6), _claim("b", 6), _claim("c", 4)):
            scheduler.arrive(claim, 0)
        assert scheduler.service_order() == serving


def test_sizes_order_as_the_papers_table_says() -> None:
    """10 x 2 s against 6 x 3 s: 1-D takes the shorter, 2-D the smaller (journal, 4.4)."""
    for order, first in (("sjf", "long-wide"), ("sjf-2d", "narrow")):
        scheduler = ElasticScheduler({"u": 10}, ordering_named(order))
        scheduler.arrive(_claim("now", 10, run_s=1.0), 0)
        scheduler.arrive(_claim("long-wide", 10, run_s=2.0), 0)
        scheduler.arrive(_claim("narrow", 6, run_s=3.0), 0)
        scheduler.depart("now", 1)
        assert scheduler.service_order()[0] == first


def test_drf_serves_the_tenant_with_less() -> None:
    """Tenant x holds 4 of 10, so y's later request goes before x's earlier one."""
    scheduler = ElasticScheduler({"u": 10}, ordering_named("drf"))
    for name, tenant in (("a", "x"), ("b", "z")):
        scheduler.arrive(_claim(name, 4 if name == "a" else 6, tenant=tenant), 0)
    for name, tenant in (("c", "x"), ("d", "y")):
        scheduler.arrive(_claim(name, 6, tenant=tenant), 0)
    scheduler.depart("b", 1)
    assert scheduler.service_order() == ("a", "d")


def test_misuse_is_reported() -> None:
    """Unknown names, taken names, missing cores and wrong shapes are errors that say so."""
    with pytest.raises(ValueError, match="did you mean 'srpt-2d"):
        ordering_named("srpt-2d0")
    with pytest.raises(ValueError, match="cannot preempt"):
        ordering_named("drf", preemptive=True)
    with pytest.raises(ValueError, match="there are flexible"):
        scheduler_named("elastic", {"u": 1})
    scheduler = ElasticScheduler({"u": 1})
    scheduler.arrive(_claim("a", 1), 0)
    with pytest.raises(ValueError, match="in the pool already"):
        scheduler.arrive(_claim("a", 1), 0)
    with pytest.raises(ValueError, match="no core component"):
        scheduler.arrive(Claim("b", ()), 0)
    with pytest.raises(ValueError, match="give u"):
        scheduler.arrive(Claim("b", (ClaimPart(1, (1, 2)),)), 0)
    assert Rule.DRF in {ordering.rule for ordering in ORDERINGS.values()}
