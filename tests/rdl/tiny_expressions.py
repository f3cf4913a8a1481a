"""Tiny expressions for enumeration: a few atoms on a handful of steps, every operator."""

from __future__ import annotations

from hypothesis import strategies as st

from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
    Edge,
    Every,
    Expression,
    Gap,
    Graph,
    Offset,
    Order,
    Together,
    Window,
    children_of,
)
from rdl.resources import Resources
from tests.rdl.brute_force import holdings

CPU = Resources.of({"cpu": 1000})
HORIZON = 6

ATOMS = [
    Atom(CPU, g, h, lease, work, multiple)
    for g, h, lease, multiple in [(1, 1, 1, 1), (1, 2, 1, 1), (1, 2, 2, 1), (2, 2, 2, 2)]
    for work in (1, 2, 3, 4, 5)
    if work in holdings(g, h, multiple, lease, HORIZON)
    and len(holdings(g, h, multiple, lease, HORIZON)[work]) <= 50
]
atoms = st.sampled_from(ATOMS)
gaps = st.one_of(
    st.none(),
    st.builds(Gap, st.integers(0, 2), st.none()),
    st.tuples(st.integers(0, 2), st.integers(0, 2)).map(lambda n: Gap(n[0], n[0] + n[1])),
)


def windows(of: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Windows of one step or more, some past the horizon."""
    times = st.tuples(st.integers(0, HORIZON - 1), st.integers(1, HORIZON))
    return st.builds(
        lambda t, e: Window(Offset(t[0]), Offset(t[0] + t[1]), e),
        times,
        of,
    )


def graphs(
    of: st.SearchStrategy[Expression], some: st.SearchStrategy[Gap | None]
) -> st.SearchStrategy[Expression]:
    """Graphs of up to three children, arrows in written order."""

    def build(children: list[Expression], arrows: list[tuple[int, int]], gap: Gap | None) -> Graph:
        count = len(children)
        edges = {(a % count, b % count) for a, b in arrows if a % count < b % count}
        names = tuple("abc"[:count])
        return Graph(names, tuple(children), tuple(Edge(a, b, gap) for a, b in sorted(edges)))

    pairs = st.tuples(st.integers(0, 2), st.integers(0, 2))
    return st.builds(build, st.lists(of, min_size=1, max_size=3), st.lists(pairs, max_size=3), some)


def trees(some_gaps: st.SearchStrategy[Gap | None]) -> st.SearchStrategy[Expression]:
    """Every operator over up to four atoms."""

    def extend(of: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        many = st.lists(of, min_size=1, max_size=3).map(tuple)
        return st.one_of(
            st.builds(AnyOf, many),
            st.builds(AllOf, many),
            st.builds(Order, many, some_gaps),
            graphs(of, some_gaps),
            windows(of),
            st.builds(
                lambda p, e, n, same: Every(p, e, times=n, same_offset=same),
                st.integers(1, 4),
                of,
                st.integers(1, 2),
                st.booleans(),
            ),
        )

    return st.recursive(atoms | atoms | togethers(), extend, max_leaves=4)


@st.composite
def togethers(draw: st.DrawFn) -> Together:
    """Two gangs that hold their bundles over the same steps."""
    lease = draw(st.integers(1, 3))
    counts = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    return Together(tuple(Atom(CPU, n, n, lease, n * lease) for n in counts))


def combinations(expression: Expression) -> int:
    """Bound the pairs that enumeration looks at."""
    if isinstance(expression, Atom):
        numbers = expression.minimum, expression.maximum, expression.multiple, expression.lease_ms
        return len(holdings(*numbers, HORIZON)[expression.work_ms])
    counts = [combinations(child) for child in children_of(expression)]
    if isinstance(expression, AnyOf):
        return sum(counts)
    total = 1
    for count in counts:
        total *= count
    if isinstance(expression, Every):
        return total ** (expression.times or 1)
    return total
