"""Small Plans and the events that happen to their machines, for tests of the adapter."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from planner.adaptation.adapter import adapt
from planner.adaptation.result import Adaptation
from planner.agent import Limits
from planner.cluster.cluster import Cluster, Outage
from planner.metrics import measure
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Reconfigure
from planner.promise import PromiseLevel
from planner.reservations.rows import split
from planner.validation.validate import validate
from planner.workload.plan import document_of
from tests.builders import a_cluster, a_request, ask, commit

HORIZON = 24
MACHINES = 6


def small_cluster(machines: int = MACHINES, horizon: int = HORIZON) -> Cluster:
    """Machines of one core and steps of a second."""
    return a_cluster().horizon(horizon).machines("m", machines, cpu=1).build()


def with_outages(cluster: Cluster, *losses: tuple[int, int, int]) -> Cluster:
    """Return the cluster with (count, from, to) machines away, the highest ones."""
    size = cluster.machines[0].count
    outages = tuple(
        Outage("m", tuple(range(size - count, size)), start * 1000, end * 1000)
        for count, start, end in losses
    )
    return replace(cluster, outages=outages)


def lose(plan: Plan, *losses: tuple[int, int, int]) -> Adaptation:
    """Change the outages from now on, let the adapter answer, and commit what it says."""
    known = [(count, max(start, plan.now), end) for count, start, end in losses if end > plan.now]
    past = tuple(one for one in plan.cluster.outages if one.start_ms < plan.now * 1000)
    over = tuple(replace(one, end_ms=min(one.end_ms, plan.now * 1000)) for one in past)
    later = with_outages(plan.cluster, *known).outages
    commit(plan, Reconfigure(replace(plan.cluster, outages=over + later)))
    return adapt_now(plan)


def adapt_now(plan: Plan) -> Adaptation:
    """Let the adapter answer to the Plan as it is, and commit what it says."""
    found = adapt(plan, Limits(work=20, seed=1))
    if found.changes:
        prepared = plan.prepare(found.changes, found.based_on, joint=True)
        assert prepared.record is not None, prepared.outcomes
        plan.apply(prepared.record)
    return found


def violations(plan: Plan) -> list[str]:
    """Return what the validator says of a Plan."""
    document = document_of(plan, "x", "submitted", measure([], plan.cluster.nominal, HORIZON))
    body = document.to_json()
    del body["metrics"]
    return [f"{one.where}: {one.detail}" for one in validate(body, grid=plan.grid)]


def past_rows(plan: Plan) -> dict[str, dict[str, list[list[int]]]]:
    """Return the rows before now of every reservation, by id and path."""
    found: dict[str, dict[str, list[list[int]]]] = {}
    for one in plan.reservations():
        rows = {
            path: split(held, plan.now)[0].tolist()
            for atom in one.atoms
            for path, held in atom.occurrences()
        }
        found[one.id] = {path: held for path, held in rows.items() if held}
    return found


def _atom(least: int, more: int, lease: int, length: int) -> str:
    most = least + more
    work = most * max(lease, length)
    return f"atom(<1 cpu>, {least}, {most}, {lease}, {work})"


_ATOMS = st.builds(
    _atom, st.integers(1, 3), st.integers(0, 2), st.integers(1, 3), st.integers(1, 4)
)
_TOGETHERS = st.builds(
    lambda few, many, lease: (
        f"together(atom(<1 cpu>, {few}, {few}, {lease}, {few * lease}), "
        f"atom(<1 cpu>, {many}, {many}, {lease}, {many * lease}))"
    ),
    st.integers(1, 2),
    st.integers(1, 3),
    st.integers(1, 4),
)
_BODIES = st.one_of(
    _TOGETHERS,
    st.tuples(_ATOMS, _TOGETHERS).map(lambda two: f"order({two[0]}, {two[1]})"),
    _TOGETHERS.map(lambda one: f"every(8, {one}, times=2)"),
    _ATOMS,
    st.tuples(_ATOMS, _ATOMS).map(lambda two: f"order({two[0]}, {two[1]})"),
    st.tuples(_ATOMS, _ATOMS).map(lambda two: f"all({two[0]}, {two[1]})"),
    st.tuples(_ATOMS, _ATOMS).map(lambda two: f"any({two[0]}, {two[1]})"),
    _ATOMS.map(lambda one: f"every(8, {one}, times=2)"),
    _ATOMS.map(lambda one: f"every(8, {one}, times=2, same_offset=false)"),
)
_SOURCES = st.builds(
    lambda body, start, length: f"window({body}, {start}, {min(HORIZON, start + length)})",
    _BODIES,
    st.integers(0, 12),
    st.integers(6, HORIZON),
)


@st.composite
def plans(draw: st.DrawFn, promise: PromiseLevel | None = None) -> Plan:
    """Plans of up to eight small requests, loaded one after the other."""
    cluster = small_cluster()
    cluster = cluster if promise is None else replace(cluster, promise=promise)
    plan = Plan(cluster, cluster.grid())
    for index, source in enumerate(draw(st.lists(_SOURCES, min_size=2, max_size=8))):
        line = a_request(f"r{index}", source).weight(draw(st.sampled_from([1, 2, 5])))
        request = line.if_possible(cluster)
        if request is not None:
            ask(plan, request)
    return plan


_LOSSES = st.lists(
    st.builds(
        lambda count, start, length: (count, start, min(HORIZON, start + length)),
        st.integers(1, MACHINES),
        st.integers(0, HORIZON - 2),
        st.integers(1, 16),
    ),
    max_size=2,
)
#: What happens, in order: machines come and go, or time passes.
EVENTS = st.lists(
    st.one_of(
        _LOSSES.map(lambda losses: ("lose", tuple(losses))),
        st.integers(1, 5).map(lambda steps: ("advance", steps)),
    ),
    min_size=1,
    max_size=5,
)


def happen(plan: Plan, event: tuple[str, object]) -> Adaptation:
    """Let an event happen, and the adapter answer."""
    kind, what = event
    if kind == "lose":
        assert isinstance(what, tuple)
        return lose(plan, *what)
    assert isinstance(what, int)
    commit(plan, Advance(min(HORIZON - 1, plan.now + what)))
    return adapt_now(plan)
