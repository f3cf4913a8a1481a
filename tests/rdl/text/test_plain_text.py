"""An atom in a window read in one go is what the parser reads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rdl.errors import RdlError
from rdl.expressions import Atom, Window
from rdl.limits import DEFAULT_LIMITS, SourceLimits
from rdl.text.parser import _Parser, parse, plain_window

_PLAIN = "window(atom(<1 cpu, 2 GiB memory>, 1, 8, 40m, 320m), +30m, +150m)"

_BLANKS = st.sampled_from(["", " ", "  ", "\n", " # note\n"])
_BUNDLES = st.sampled_from(
    [
        "<1 cpu>",
        "<1 cpu, 2 GiB memory>",
        "<500m cpu>",
        "<>",
        "<1 cpu, 1 cpu>",
        "<0 cpu>",
        "< 3 gpu >",
    ]
)
_COUNTS = st.sampled_from(["1", "007", "8", "0", "999999999", "1000000001", "1.5", "5m", "-1"])
_DURATIONS = st.sampled_from(
    ["90", "1.5", "40m", "1h30m", "0s", "30m1h", "5x", "1.2.3", "99999999w", "0.0001", "2e3", "1_0"]
)
_TIMES = st.one_of(
    _DURATIONS,
    _DURATIONS.map(lambda text: f"+{text}"),
    _DURATIONS.map(lambda text: f"+ {text}"),
    st.sampled_from(
        [
            "2026-01-05T09:00:00Z",
            "2026-01-05T09:00:00+01:00",
            "2026-13-05T09:00:00Z",
            "+2026-01-05T09:00:00Z",
            "2026-01-05",
            "2026-01-05T09:00:00",
            "5-3",
        ]
    ),
)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    blank = lambda: draw(_BLANKS)  # noqa: E731
    counts, durations = draw(_COUNTS), draw(_DURATIONS)
    atom = [draw(_BUNDLES), counts, draw(_COUNTS), durations, draw(_DURATIONS)]
    inner = f",{blank()}".join(atom)
    end = draw(st.sampled_from(["", ";", " ", " x", ")"]))
    return (
        f"window({blank()}atom({inner}{blank()}),{blank()}{draw(_TIMES)}{blank()},"
        f"{draw(_TIMES)}{blank()}){end}"
    )


@given(_texts())
@example(_PLAIN)
def test_what_is_read_in_one_go_is_what_the_parser_reads(text: str) -> None:
    """Equal expressions with equal spans, or left to the parser; a mistake is always left to it."""
    plain = plain_window(text, DEFAULT_LIMITS)
    try:
        parsed = _Parser(text, DEFAULT_LIMITS).read()
    except RdlError:
        assert plain is None
        return
    if plain is not None:
        assert plain == parsed
        assert isinstance(parsed, Window)
        assert isinstance(parsed.of, Atom)
        assert (plain.span, plain.of.span) == (parsed.span, parsed.of.span)


@pytest.mark.parametrize(
    "text",
    [
        _PLAIN,
        _PLAIN.replace(" ", ""),
        "window(atom(<1 cpu>, 2, 2, 1h30m, 3h), 2026-01-05T09:00:00Z, 2026-01-05T12:00:00Z)",
        "window(atom(<0.5 cpu>, 1, 4, 90, 360), 0, 3600)",
    ],
)
def test_the_common_shapes_are_read_in_one_go(text: str) -> None:
    """Blanks or none, each kind of time."""
    plain = plain_window(text.replace("<1cpu,2GiBmemory>", "<1 cpu>"), DEFAULT_LIMITS)
    assert plain == parse(text.replace("<1cpu,2GiBmemory>", "<1 cpu>"))
    assert plain is not None


@pytest.mark.parametrize("limits", [{"max_source": 20}, {"max_depth": 1}])
def test_limits_are_the_parsers_to_judge(limits: dict[str, int]) -> None:
    """A text beyond a limit is not read in one go."""
    held = replace(DEFAULT_LIMITS, **limits)
    assert isinstance(held, SourceLimits)
    assert plain_window(_PLAIN, held) is None
    with pytest.raises(RdlError):
        parse(_PLAIN, held)
