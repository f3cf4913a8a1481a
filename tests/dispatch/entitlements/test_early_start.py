"""The bias of large components: learnt from starts, planned and followed for, promises kept."""

from __future__ import annotations

from dispatch.accounts.promises import PromiseLedger, shortfall
from dispatch.applications.application import Application, Component
from dispatch.backends.in_memory import InMemoryBackend
from dispatch.cycle.dispatcher import Dispatcher
from dispatch.cycle.options import DispatchOptions, LineOptions
from dispatch.entitlements.start_delay import StartDelays, StartDelayTable, enlarge
from dispatch.loop import DispatchLoop
from rdl.compile.source import read_source
from rdl.expressions import Expression
from rdl.resources import Resources
from rdl.text.formatter import format_expression
from tests.builders import a_cluster, a_plan, a_request
from tests.dispatch.cycle.world import World

_CLUSTER = (
    a_cluster().horizon("2000s").step("10s").machines("node", 4, cpu=8, memory="64 GiB").build()
)
_LARGE = Resources.of({"cpu": 1000, "memory": 16 * 1024})
_SMALL = Resources.of({"cpu": 1000, "memory": 4 * 1024})
_TICK_S = 1

# Nothing of a later reservation is anticipated just because there is capacity.
_PUNCTUAL = DispatchOptions(line=LineOptions(later=False))


def _job(name: str, count: int, each: Resources, reservation: str | None = None) -> Application:
    return Application(name, (Component("m", count, True, each),), reservation=reservation)


def _world(expression: Expression) -> World:
    """A Plan with r1, and a backend that starts what is above 8 GiB 30 s late."""
    request = a_request("r1", format_expression(expression)).on(_CLUSTER)
    world = World(_CLUSTER, a_plan(_CLUSTER).holding(request).build(), _PUNCTUAL)

    def delay_ms(delta) -> int:  # type: ignore[no-untyped-def]
        execution = world.table.get(delta.execution)
        assert execution is not None
        return 30_000 if execution.parts[0].component.resources["memory"] > 8 * 1024 else 0

    world.backend = InMemoryBackend(world.pool.names, start_delay_ms=delay_ms)
    world.loop = DispatchLoop(world.table, Dispatcher(_PUNCTUAL), world.backend, StartDelays())
    return world


def _learnt() -> StartDelayTable:
    """What the loop reports of twelve starts of either size."""
    world = _world(read_source("window(atom(<1 cpu>, 1, 1, 10, 10), 0, 20)"))
    for number in range(12):
        world.submit(_job(f"large{number}", 1, _LARGE), number)
        world.submit(_job(f"small{number}", 1, _SMALL), number)
    for at_s in range(0, 60, 5):
        world.tick(at_s)
    assert world.loop.starts is not None
    return world.loop.starts.table()


def _run(
    expression: Expression, delays: StartDelayTable | None, ended: list[int] | None = None
) -> tuple[PromiseLedger, int]:
    """Follow r1 to its end; return the time below, and component-seconds run under the Plan.

    Times below of entitlements that have ended are added to `ended`.
    """
    world, book, ran = _world(expression), PromiseLedger(), 0
    if delays is not None:
        world.follower.delays = delays
    world.submit(_job("owner", 4, _LARGE, "r1"), 0)
    world.submit(_job("guest", 20, _SMALL), 0)
    for at_s in range(0, 900, _TICK_S):
        world.tick(at_s)
        directive = world.directive
        book.observe(directive.at_ms, shortfall(directive, world.table).reservations)
        if ended is not None:
            ended += book.take_ended(directive)
        owner = world.table.get("owner")
        assert owner is not None
        if directive.planned:
            ran += sum(piece.up for piece in owner.parts[0].held) * _TICK_S
    book.end(900_000)
    return book, ran


_REQUEST = read_source("window(atom(<1 cpu, 16 GiB memory>, 4, 4, 200, 800), 300, 600)")


def test_the_delay_is_learnt_from_what_starts() -> None:
    """Thirty seconds above 8 GiB, none below, from the loop's own reports."""
    table = _learnt()
    assert (table.delay_ms(_LARGE), table.delay_ms(_SMALL)) == (30_000, 0)


def test_time_below_is_reported_once_when_the_entitlement_ends() -> None:
    """Thirty seconds in all, when the Plan has no more of it."""
    ended: list[int] = []
    _run(_REQUEST, None, ended)
    assert ended == [30_000]


def test_a_promise_is_broken_by_the_delay_and_kept_with_the_bias() -> None:
    """Without: below for 30 s and 120 component-seconds short. With: never below, work done."""
    book, ran = _run(_REQUEST, None)
    assert book.longest_below_ms("r1") == 30_000
    assert ran == 800 - 4 * 30
    learnt = _learnt()
    book, ran = _run(enlarge(_REQUEST, learnt), learnt)
    assert book.longest_below_ms("r1") <= _TICK_S * 1000
    assert ran >= 800
    book, ran = _run(_REQUEST, learnt)
    assert book.longest_below_ms("r1") <= _TICK_S * 1000
    assert ran == 800


def test_no_one_is_anticipated_at_the_cost_of_another() -> None:
    """All capacity is promised till 300 s: r1 begins at its time, and r2 is never below."""
    text = "window(atom(<8 cpu, 64 GiB memory>, 4, 4, 300, 1200), 0, 300)"
    plan = a_plan(_CLUSTER).holding(
        a_request("r2", text).on(_CLUSTER),
        a_request("r1", format_expression(_REQUEST)).on(_CLUSTER),
    )
    world = World(_CLUSTER, plan.build())
    world.follower.delays = StartDelayTable({("memory", 14): 30_000})
    begin = int(world.plan.reservation("r1").atoms[0].rows[0, 0]) * 10  # type: ignore[union-attr]
    for at_s in range(0, begin + 20, 5):
        directive = world.follower.follow(at_s * 1000)
        early = {e.reservation for e in directive.entitlements}
        planned = {e.reservation for e in directive.planned}
        assert early - planned == ({"r1"} if max(300, begin - 30) <= at_s < begin else set())
