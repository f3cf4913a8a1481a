"""Tokenizer: every token of the language, its kind and its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.text.tokenizer import (
    BUNDLE,
    END,
    INSTANT,
    KEY,
    OTHER,
    PUNCTUATION,
    QUANTITY,
    STRING,
    WORD,
    Tokenizer,
)


def _tokens(source: str) -> list[tuple[int, str]]:
    tokens = Tokenizer(source)
    found = []
    while tokens.kind != END:
        found.append((tokens.kind, tokens.text))
        tokens.advance()
    return found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("240", [(QUANTITY, "240")]),
        ("1.5s", [(QUANTITY, "1.5s")]),
        ("1h30m", [(QUANTITY, "1h30m")]),
        ("5m..1h", [(QUANTITY, "5m"), (PUNCTUATION, ".."), (QUANTITY, "1h")]),
        ("0..0", [(QUANTITY, "0"), (PUNCTUATION, ".."), (QUANTITY, "0")]),
        ("+2h", [(PUNCTUATION, "+"), (QUANTITY, "2h")]),
        ("2026-01-05T09:00:00+01:00", [(INSTANT, "2026-01-05T09:00:00+01:00")]),
        ("2026-01-05T09:00:00.5Z,", [(INSTANT, "2026-01-05T09:00:00.5Z"), (PUNCTUATION, ",")]),
        ("min=1", [(KEY, "min"), (PUNCTUATION, "="), (QUANTITY, "1")]),
        ("min # least\n = 1", [(KEY, "min"), (PUNCTUATION, "="), (QUANTITY, "1")]),
        ("a->b", [(WORD, "a"), (PUNCTUATION, "->"), (WORD, "b")]),
        ("a-b -> c", [(WORD, "a-b"), (PUNCTUATION, "->"), (WORD, "c")]),
        ("a: x", [(WORD, "a"), (PUNCTUATION, ":"), (WORD, "x")]),
        ("nvidia.com/gpu", [(WORD, "nvidia.com/gpu")]),
        ("<2 GiB memory, 1 cpu>", [(BUNDLE, "<2 GiB memory, 1 cpu>")]),
        ("<1 cpu # one (1)>\n>", [(BUNDLE, "<1 cpu # one (1)>\n>")]),
        ("<1 cpu, 3)", [(OTHER, "<"), (QUANTITY, "1"), (WORD, "cpu")]),
        (r'"a \"b\" c" d', [(STRING, r'"a \"b\" c"'), (WORD, "d")]),
        ('"open', [(OTHER, '"'), (WORD, "open")]),
        ("# only a comment", []),
        ("-5", [(OTHER, "-"), (QUANTITY, "5")]),
        ("é", [(OTHER, "é")]),
    ],
)
def test_each_token_has_its_kind(source: str, expected: list[tuple[int, str]]) -> None:
    """Blanks and comments separate, nothing else is skipped."""
    assert _tokens(source)[: len(expected)] == expected


def test_spans_point_into_the_source() -> None:
    """A span is the token alone, without the blanks and comments before it."""
    tokens = Tokenizer("  # two\n  any (")
    first = tokens.span
    tokens.advance()

    assert (first, tokens.span, tokens.start) == ((10, 13), (14, 15), 14)


@given(st.text(alphabet=' \n#<>"\\()[],;:=+->.09aZ_é/T', max_size=60))
def test_tokens_cover_every_character_that_is_not_blank(source: str) -> None:
    """Between two tokens stand only blanks and comments; no character is lost or read twice."""
    tokens = Tokenizer(source)
    position = 0
    while tokens.kind != END:
        start, end = tokens.span
        between = source[position:start]
        rest = "".join(line.partition("#")[0] for line in between.split("\n"))
        assert rest.strip() == ""
        assert source[start:end] == tokens.text != ""
        position = end
        tokens.advance()
