"""The JSON Schema of RDL as JSON, held against the reader; and the grammar for editors."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rdl.codecs.json_codec import from_json, to_json
from rdl.codecs.json_schema import json_schema
from rdl.errors import RdlError
from rdl.expressions import Expression
from rdl.operators import ARGUMENTS
from rdl.text.tokenizer import END, Tokenizer
from tests.rdl.fuzz_sources import bent_json
from tests.strategies import expressions

DOCS = Path(__file__).parents[3] / "docs"
ATOM = {"atom": {"bundle": {"cpu": 1}, "min": 1, "max": 2, "lease": "5m", "work": "10m"}}


@cache
def _validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(json_schema())
    return Draft202012Validator(json_schema())


def _is_read(value: Any) -> bool:
    try:
        from_json(value)
    except RdlError:
        return False
    return True


@given(expressions())
def test_whatever_is_written_is_valid(expression: Expression) -> None:
    """The JSON form of every expression is valid."""
    assert _validator().is_valid(to_json(expression))


@given(expressions(max_atoms=3), st.integers(0, 2**32))
def test_whatever_is_read_is_valid(expression: Expression, seed: int) -> None:
    """Of bent values too: what the schema refuses the reader refuses."""
    value = bent_json(Random(seed), to_json(expression))
    if _is_read(value):
        assert _validator().is_valid(value)


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"atom": {}},
        {**ATOM, "any": []},
        {**ATOM, "prefer": [1]},
        {"name": "", **ATOM},
        {"atom": {**ATOM["atom"], "mni": 1}},
        {"atom": {**ATOM["atom"], "tasks": 3, "each": "5m"}},
        {"atom": {"bundle": {"cpu": 1}, "tasks": 3}},
        {"atom": {**ATOM["atom"], "min": 0}},
        {"atom": {**ATOM["atom"], "bundle": {}}},
        {"atom": {**ATOM["atom"], "lease": "5 minutes"}},
        {"window": {"start": 0, "of": ATOM}},
        {"deadline": {"end": "6 o'clock", "of": ATOM}},
        {"every": {"period": "1d", "of": ATOM, "times": 1, "until": "+1d"}},
        {"every": {"period": "1d", "of": ATOM, "days": ["monday"]}},
        {"every": {"period": "1d", "of": ATOM, "except": ["1 May"]}},
        {"any": [ATOM], "prefer": [2]},
        {"order": [ATOM, ATOM], "gap": [1]},
        {"graph": {"nodes": {"a": ATOM}, "edges": [["a"]]}},
    ],
)
def test_what_the_schema_can_see_both_refuse(value: Any) -> None:
    """Form, unknown keys, ranges and texts are the schema's business too."""
    assert (_is_read(value), _validator().is_valid(value)) == (False, False)


def test_the_examples_of_the_guide_are_valid() -> None:
    """So is the JSON of docs/rdl.md."""
    page = (DOCS / "rdl.md").read_text(encoding="utf-8")
    for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL):
        assert _validator().is_valid(json.loads(block))


def _grammar() -> dict[str, re.Pattern[str]]:
    """Return the patterns of the grammar for editors, in the order they are tried."""
    grammar = json.loads((DOCS / "editors" / "rdl.tmLanguage.json").read_text(encoding="utf-8"))
    rules = [entry["include"].removeprefix("#") for entry in grammar["patterns"]]
    assert sorted(rules) == sorted(grammar["repository"])
    return {rule: re.compile(grammar["repository"][rule]["match"]) for rule in rules}


def test_the_grammar_for_editors_knows_the_words_of_the_language() -> None:
    """Its operators and arguments are those of the reader."""
    grammar = _grammar()
    operators = re.findall(
        r"\w+", grammar["operator"].pattern.partition("(?:")[2].partition(")")[0]
    )
    arguments = re.findall(
        r"\w+", grammar["argument"].pattern.partition("(?:")[2].partition(")")[0]
    )

    assert operators == list(ARGUMENTS)
    assert set(arguments) == {name for known in ARGUMENTS.values() for name in known}


def test_the_grammar_for_editors_reads_the_examples_as_the_parser_does() -> None:
    """Every token of the examples of docs/rdl.md is one match, and nothing is left over."""
    page = (DOCS / "rdl.md").read_text(encoding="utf-8")
    rules = list(_grammar().values())
    for text in re.findall(r"```rdl\n(.*?)```", page, re.DOTALL):
        tokens = Tokenizer(text)
        at = 0
        while tokens.kind != END:
            while at < tokens.start:
                comment = rules[0].match(text, at)
                at = comment.end() if comment is not None else at + 1
            matches = [match for rule in rules if (match := rule.match(text, at)) is not None]
            assert matches
            assert matches[0].span() == tokens.span
            at = matches[0].end()
            tokens.advance()
