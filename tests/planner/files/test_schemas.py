"""The published schemas, and the checker that words problems, against a full implementation."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from planner.files.schema import load_schema, schema_problems
from tests.planner.files.plan_example import PLAN


def test_the_schemas_are_valid_json_schemas() -> None:
    """Each is accepted by a full implementation's meta-schema."""
    validator = jsonschema.Draft202012Validator
    meta = validator(validator.META_SCHEMA)
    for name in ("cluster", "workload", "plan", "classes"):
        assert [one.message for one in meta.iter_errors(load_schema(name))] == []


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from("ab1"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=5,
)


@st.composite
def _mutated_plans(draw: st.DrawFn) -> Any:
    """A good plan with one value somewhere replaced or removed."""
    document = json.loads(json.dumps(PLAN))
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return document
        key = draw(st.sampled_from(keys))
        deeper = place[key]
        if not isinstance(deeper, dict | list) or draw(st.booleans()):
            if isinstance(place, dict) and draw(st.booleans()):
                del place[key]
            else:
                place[key] = draw(_VALUES)
            return document
        place = deeper


@given(_mutated_plans())
def test_the_checker_agrees_with_a_full_implementation(document: Any) -> None:
    """Ours finds a problem exactly where JSON Schema does."""
    theirs = jsonschema.Draft202012Validator(load_schema("plan")).is_valid(document)
    assert (not schema_problems(document, "plan")) == theirs
