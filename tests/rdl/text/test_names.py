"""Names of expressions and definitions: read, kept, written, and shown instead of paths."""

from __future__ import annotations

import pytest
from hypothesis import given

from rdl.codecs.json_codec import from_json, to_json
from rdl.errors import RdlError
from rdl.expressions import Atom, Expression, children_of
from rdl.names import PartNames, part_name, part_name_of_text
from rdl.text.formatter import format_expression, format_pretty
from rdl.text.parser import parse
from tests.strategies import expressions

A = "atom(<1 cpu>, 1, 1, 60, 60)"


def _names(expression: Expression) -> list[str | None]:
    """Return every name in written order; in a graph those of the graph count."""
    inside = [name for child in children_of(expression) for name in _names(child)]
    return [expression.name, *inside]


@given(expressions())
def test_every_form_keeps_the_names(expression: Expression) -> None:
    """Canonical text, pretty text and JSON name the same parts as the canonical text does."""
    canonical = parse(format_expression(expression))

    assert canonical == expression
    assert format_expression(canonical) == format_expression(expression)
    assert _names(parse(format_pretty(expression))) == _names(canonical)
    assert _names(from_json(to_json(expression))) == _names(canonical)


def test_names_mean_nothing() -> None:
    """Two requests that differ in names alone are equal, and have one hash."""
    plain, named = parse(f"order({A}, {A})"), parse(f"whole: order(first: {A}, {A})")

    assert (plain == named, hash(plain) == hash(named)) == (True, True)


def test_definitions_stand_for_their_expressions_and_name_them() -> None:
    """A definition may use those before it; a name at the place of use wins."""
    text = f"a = {A}; pair = order(a, again: a); all(pair, other: a)"

    assert format_expression(parse(text)) == (f"all(pair: order(a: {A}, again: {A}), other: {A})")


def test_a_definition_alone_is_a_part_of_a_graph() -> None:
    """In a graph a defined word is both the part and its name."""
    text = f"fetch = {A}; train = {A}; graph(fetch, train; fetch -> train)"

    assert format_expression(parse(text)) == f"graph(fetch: {A}, train: {A}; fetch -> train)"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("", "nightly"),
        ("0@3.0.0", "load it@3"),
        ("0@0.0.1", "train@0"),
        ("0@0.0.1.0", "train.0@0"),
        ("0@2.0.2.0", "copy@2 (0@2.0.2.0)"),
        ("0@2.0.2.1", "copy@2 (0@2.0.2.1)"),
        ("0@1.0.3", "1 x <1 cpu> for 1m (fourth of order, run 2)"),
    ],
)
def test_a_part_is_called_by_its_innermost_name(path: str, name: str | None) -> None:
    """Numbers of unnamed children and of occurrences follow; what is not unique has its path."""
    text = (
        f'nightly: every(1d, window(order("load it": {A}, train: any({A}, {A}), '
        f"all(copy: {A}, copy: {A}), {A}), 0, 1h))"
    )

    assert part_name(parse(text), path) == name
    assert part_name_of_text(text, path) == name


def test_the_only_part_of_a_request_is_the_request() -> None:
    """One atom without a name needs no words of its own, and its text is not even read."""
    assert part_name(parse(f"window(all({A}), 0, 9)"), "0.0") is None
    assert part_name_of_text("not RDL, with one atom(", "0") is None


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (
            "all(atom(<1 cpu>, 1, 1, 9, 9), atom(<1 cpu>, 2, 2, 1h, 2h))",
            "1",
            "2 x <1 cpu> for 1h (second of all)",
        ),
        (
            f"order({A}, any({A}, window(atom(<2 gpu>, 1, 4, 1h, 5h), 0, 9h)))",
            "1.1.0",
            "1 to 4 x <2 gpu> for 5h of work (second of any, second of order)",
        ),
        (f"order({A}, any({A}, {A}))", "1", "any of 2 (second of order)"),
        (f"order({A}, void(<1 cpu>, 3))", "1", None),
        (f"all({A}, void(<1 cpu>, 3), {A})", "1", "void of up to 3 x <1 cpu> (second of all)"),
        (f"every(1d, {A})", "0@3", "run 4 of the request"),
        (f"every(1d, all({A}, {A}))", "0@*.1", "1 x <1 cpu> for 1m (second of all)"),
        (f"all({A}, all({A}, all({A}, all({A}))))", "1.1.1.0", "1 x <1 cpu> for 1m (1.1.1.0)"),
        (f"all({', '.join([A] * 23)})", "10", "1 x <1 cpu> for 1m (11th of all)"),
        (f"all({', '.join([A] * 23)})", "21", "1 x <1 cpu> for 1m (22nd of all)"),
    ],
)
def test_a_part_without_a_name_is_called_by_what_it_needs(
    text: str, path: str, words: str | None
) -> None:
    """And by its place, from the inside out; both forms of a request agree."""
    assert part_name(parse(text), path) == words
    assert part_name_of_text(text, path) == words


@given(expressions())
def test_no_two_parts_are_called_the_same(expression: Expression) -> None:
    """Whatever a request looks like, words lead to one part."""
    names = PartNames(expression)
    paths = _atom_paths(expression, "")
    called = [names.at(path) for path in paths]

    assert len(set(called)) == len(paths)


def _atom_paths(expression: Expression, path: str) -> list[str]:
    if isinstance(expression, Atom):
        return [path]
    below = enumerate(children_of(expression))
    return [one for n, child in below for one in _atom_paths(child, f"{path}.{n}".lstrip("."))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a: b: {A}", "an expression has one name; drop one of the names"),
        (f'"a": b: {A}', "an expression has one name; drop one of the names"),
        (f'"a" {A}', "expected ':' before 'atom'"),
        (f"a = {A}; all(b)", "unknown operator 'b'"),
        (f"fetch = {A}; all(fecth)", "no expression is named 'fecth'; did you mean 'fetch'?"),
        (f"a = {A}; a(1)", "'a' is an expression and takes no arguments; write a alone"),
        (f"atom = {A}; atom", "'atom' is an operator, and cannot be defined"),
        (f"a = {A}; a = {A}; a", "'a' is defined twice"),
        ("a = all(a); a", "the definition of 'a' names itself; write what it stands for"),
    ],
)
def test_what_cannot_be_named_says_what_would_be_right(text: str, message: str) -> None:
    """Each mistake has its sentence."""
    with pytest.raises(RdlError) as caught:
        parse(text)

    assert message in str(caught.value)


def test_definitions_cannot_blow_a_request_up() -> None:
    """Fifty doublings are refused at once, whatever they double."""
    for leaf in (A, "all()", f"window(window(window({A}, 0, 9), 0, 9), 0, 9)"):
        doublings = "".join(f"d{k + 1} = all(d{k}, d{k}); " for k in range(50))
        with pytest.raises(RdlError, match="written out, the request has more than"):
            parse(f"d0 = {leaf}; {doublings} d50")
    chain = "".join(f"d{k + 1} = window(d{k}, 0, 9); " for k in range(250))
    with pytest.raises(RdlError, match="written out, operators are nested more than 200 deep"):
        parse(f"d0 = {A}; {chain} d250")
