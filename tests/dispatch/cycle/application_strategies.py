"""Applications drawn at random, for laws of the dispatcher."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.dispatch.cycle.world import an_application


@st.composite
def applications(draw: st.DrawFn, number: int, *, pooled: bool = False):  # type: ignore[no-untyped-def]
    """Up to six components, best effort or under one of four reservations."""
    return an_application(
        f"e{number}",
        draw(st.integers(1, 3)),
        draw(st.integers(0, 4)),
        cpu=1 if pooled else draw(st.integers(1, 2)),
        elastic_cpu=1 if pooled else draw(st.integers(1, 3)),
        labels=() if pooled else draw(st.sampled_from([(), (), ("gpu",)])),
        reservation=draw(st.sampled_from([None, "r0", "r1", "r2", "r3"])),
        size_ms=draw(st.sampled_from([None, 7_000, 30_000])),
        restart=draw(st.booleans()),
        grow=draw(st.sampled_from([0, 0, 2, 5])),
    )
