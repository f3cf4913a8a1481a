"""JSON with one meaning: what Python's reader takes and no one can have meant is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdl.codecs.strict_json import JsonTextError, read_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@settings(max_examples=30)
@given(_VALUES, st.booleans(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]))
def test_what_is_written_is_read(value: object, escaped: bool, encoding: str) -> None:
    """Whatever JSON can hold comes back, escaped or not, as text and as bytes."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return
    text = json.dumps(value, ensure_ascii=escaped)
    if "Infinity" in text:
        return
    assert read_json(text) == value
    assert read_json(text.encode(encoding)) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "a": 2}', "not JSON: the key 'a' is given twice in one object"),
        ('[{"x": {"a": 1, "b": 1, "a": 1}}]', "the key 'a' is given twice in one object"),
        ("[NaN]", "NaN is not a number of JSON"),
        ("[-Infinity]", "-Infinity is not a number of JSON"),
        (r'["a\ud800b"]', r"'a\ud800b' has '\ud800', which is half of a character"),
        (r'{"\uDFFF": 1}', "half of a character"),
        ("[" * 100_000, "objects and lists are nested too deeply; nest less"),
        ("9" * 5000, "a number has thousands of digits; write fewer"),
        (b'["\xff"]', "not UTF-8 text"),
        (b'["\xed\xa0\x80"]', "not UTF-8 text"),
        ("", "not JSON: Expecting value"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_has_no_one_meaning_is_refused(text: str | bytes, says: str) -> None:
    """Keys given twice, NaN, half of a character, endless numbers and nesting."""
    with pytest.raises(JsonTextError) as caught:
        read_json(text)
    assert says in str(caught.value)


def test_where_the_reader_stopped_is_reported() -> None:
    """Offset, line and column of what is not JSON."""
    with pytest.raises(JsonTextError) as caught:
        read_json('{"a": 1,\n "b": }')
    assert caught.value.at == (15, 2, 7)


def test_whole_characters_beyond_the_first_plane_are_read() -> None:
    """Two escapes that make one character are no halves."""
    assert read_json(r'["\ud83d\ude00"]') == ["\U0001f600"]
