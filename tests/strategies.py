"""Hypothesis strategies for RDL, shared by the tests of every package.

Each is made once: to make and check a strategy takes hypothesis longer than to draw from it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial

from hypothesis import strategies as st

from rdl.expressions import (
    Absolute,
    AfterSubmission,
    AllOf,
    AnyOf,
    Atom,
    Edge,
    Every,
    Expression,
    Gap,
    Graph,
    Instant,
    Offset,
    Order,
    TimeOfDay,
    Together,
    Void,
    Window,
)
from rdl.resources import Resources

ZONES = ("Europe/Paris", "America/New_York", "Asia/Kolkata", "UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_MS = 3_600_000


@cache
def bundles() -> st.SearchStrategy[Resources]:
    """Bundles of one to three resources."""
    names = st.sampled_from(["cpu", "memory", "gpu", "fpga", "nvidia.com/mig-1g"])
    amounts = st.dictionaries(names, st.integers(1, 2**20), min_size=1, max_size=3)
    return amounts.map(Resources.of)


@cache
def durations_ms(least: int = 0, most: int = 10**14) -> st.SearchStrategy[int]:
    """Whole milliseconds: often whole seconds or minutes, as people write them, else any."""
    whole = st.sampled_from([1000, 60_000, _HOUR_MS]).flatmap(
        lambda unit: st.integers(
            -(-least // unit), max(-(-least // unit), min(100, most // unit))
        ).map(lambda count: count * unit)
    )
    anything = st.integers(least, most)
    return st.one_of(whole, anything).filter(lambda ms: least <= ms <= most)


@cache
def instants() -> st.SearchStrategy[Instant]:
    """Offsets from the origin, times after submission, and dates of this century to the ms."""
    days = st.integers(0, 4_000_000_000_000)
    return st.one_of(
        durations_ms().map(Offset),
        durations_ms().map(AfterSubmission),
        days.map(lambda ms: Absolute(_EPOCH + timedelta(milliseconds=ms))),
    )


@cache
def clock_times() -> st.SearchStrategy[TimeOfDay]:
    """Times of day, mostly full hours and minutes, to the ms."""
    whole = st.integers(0, 24).map(lambda hour: hour * _HOUR_MS)
    return st.one_of(whole, st.integers(0, 24 * _HOUR_MS)).map(TimeOfDay)


@cache
def gaps() -> st.SearchStrategy[Gap]:
    """Gaps with and without a maximum, never an empty range."""
    least = durations_ms(most=10**9)
    return st.one_of(
        least.map(Gap),
        st.tuples(least, durations_ms(most=10**9)).map(lambda ends: Gap(min(ends), max(ends))),
    )


@cache
def names() -> st.SearchStrategy[str]:
    """Names of labels and children: plain words, numbers, spaces, quotes, any script."""
    printable = st.text(min_size=1, max_size=8).filter(str.isprintable)
    return st.one_of(st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True), printable)


@cache
@st.composite
def atoms(draw: st.DrawFn, *, most_work_ms: int = 10**14) -> Atom:
    """Atoms with g <= h, both divisible by `multiple`, and work and lease above zero.

    A hand-over is said only where it is not the default, as in every atom that was read.
    """
    multiple = draw(st.sampled_from([1, 1, 1, 2, 5]))
    minimum = draw(st.integers(1, 50)) * multiple
    maximum = minimum + draw(st.integers(0, 50)) * multiple
    lease = draw(durations_ms(1, min(10**10, most_work_ms)))
    work = draw(durations_ms(1, most_work_ms))
    label = draw(st.none() | names())
    spread = draw(st.sampled_from([0, 0, 1, 7, 10**9]))
    domain = draw(st.none() | names()) if spread else None
    handover, credit = (draw(st.sampled_from([None, minimum == maximum])) for _ in range(2))
    bundle = draw(bundles())
    numbers = (minimum, maximum, lease, work, multiple)
    within = draw(st.none() | names())
    values = draw(st.sampled_from([1, 1, 2, 10**9])) if within else 1
    return Atom(bundle, *numbers, label, spread, domain, handover, credit, within, values)


@cache
def voids() -> st.SearchStrategy[Void]:
    """Best-effort sessions."""
    return st.builds(Void, bundles(), st.integers(1, 10**9))


@cache
def expressions(max_atoms: int = 8) -> st.SearchStrategy[Expression]:
    """Expressions of every operator with at most about `max_atoms` atoms.

    They can all be written and read; whether a plan could satisfy them is left open.
    """
    leaves = st.one_of(atoms(), atoms(), voids())
    return st.recursive(leaves, _operators, max_leaves=max_atoms)


def _operators(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(children, min_size=0, max_size=4).map(tuple)
    return st.one_of(
        st.builds(AllOf, several),
        st.builds(Together, several, st.none() | names()),
        st.builds(Together, several, names(), st.integers(1, 10**9)),
        st.builds(Order, several, st.none() | gaps()),
        several.flatmap(_choice),
        several.flatmap(_graph),
        st.builds(
            Window,
            st.none() | instants() | clock_times(),
            instants() | clock_times(),
            children,
            st.none() | st.sampled_from(ZONES),
        ),
        children.flatmap(_every),
        st.builds(lambda child, name: replace(child, name=name), children, names()),
    )


def _choice(options: tuple[Expression, ...]) -> st.SearchStrategy[AnyOf]:
    worth = st.floats(0, 1, exclude_min=True)
    weights = st.lists(worth, min_size=len(options), max_size=len(options)).map(tuple)
    # An empty list of weights cannot be recorded; nothing is what it means.
    prefer = st.none() | weights if options else st.none()
    return prefer.map(partial(AnyOf, options))


@st.composite
def _graph(draw: st.DrawFn, children: tuple[Expression, ...]) -> Graph:
    count = len(children)
    labels = tuple(draw(st.lists(names(), min_size=count, max_size=count, unique=True)))
    edges = []
    if count > 1:
        forward = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
            lambda pair: pair[0] < pair[1]
        )
        pairs = draw(st.lists(forward, max_size=4, unique=True))
        edges = [Edge(before, after, draw(st.none() | gaps())) for before, after in pairs]
    return Graph(labels, children, tuple(edges))


@st.composite
def _every(draw: st.DrawFn, child: Expression) -> Every:
    times, until = draw(
        st.one_of(
            st.tuples(st.none(), st.none()),
            st.tuples(st.integers(1, 10**6), st.none()),
            st.tuples(st.none(), instants()),
        )
    )
    return Every(
        draw(durations_ms(1)),
        child,
        times,
        until,
        draw(st.none() | instants() | clock_times()),
        draw(st.none() | st.sampled_from(ZONES)),
        draw(st.booleans()),
        draw(st.none() | st.sets(st.integers(0, 6), min_size=1).map(lambda s: tuple(sorted(s)))),
        tuple(draw(st.lists(st.dates(), max_size=4, unique=True).map(sorted))),
        draw(st.none() | names()),
    )
