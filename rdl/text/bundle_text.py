"""Bundles as RDL text: ``<2 GiB memory, 1 cpu>``."""

from __future__ import annotations

import re
from decimal import Decimal

from rdl.errors import MALFORMED, Problem, quote
from rdl.operators import MAX_RESOURCES, UNITS, ArgumentError, check_bundle, check_resource
from rdl.read_error import ReadError
from rdl.resources import Resources, amount_of, canonical_resource

_COMMENT = re.compile(r"#[^\n]*")
_AMOUNT = re.compile(
    r"\s*(\d{1,20}(?:\.\d{1,20})?)\s*(?:([A-Za-z]{1,20})\s+)?([A-Za-z][\w.\-/]{0,99})\s*", re.ASCII
)


def parse_bundle(text: str, offset: int) -> Resources | list[Problem]:
    """Return the bundle, or its problems.

    Parameters
    ----------
    text
        From ``<`` to ``>``.
    offset
        Of `text` in the whole source, for spans.
    """
    # Comments are blanked, not removed, so that offsets stay correct.
    inner = _COMMENT.sub(lambda comment: " " * len(comment[0]), text[1:-1])
    pieces = inner.split(",", MAX_RESOURCES + 1)
    if len(pieces) > MAX_RESOURCES:
        message = f"more than {MAX_RESOURCES} resources in one bundle"
        return [Problem(MALFORMED, message, (offset, offset + 1), fix="write fewer")]
    amounts: dict[str, int] = {}
    problems: list[Problem] = []
    position = offset + 1
    for piece in pieces:
        try:
            name, amount = _amount(piece)
            if name in amounts:
                raise ArgumentError(f"{name} is given twice in one bundle", "add the amounts up")
            amounts[name] = amount
        except ReadError as error:
            start = position + len(piece) - len(piece.lstrip())
            span = (start, max(start + 1, position + len(piece.rstrip())))
            problems.append(Problem(MALFORMED, error.message, span, fix=error.fix))
        position += len(piece) + 1
    if problems:
        return problems
    try:
        return check_bundle(Resources.of(amounts))
    except ReadError as error:
        span = (offset, offset + len(text))
        return [Problem(MALFORMED, error.message, span, fix=error.fix)]


def _amount(piece: str) -> tuple[str, int]:
    """Amount = number [ unit ] resource ."""
    match = _AMOUNT.fullmatch(piece)
    if match is None or (match[2] is None and match[3] in UNITS):
        shown = quote(piece.strip())
        if not piece.strip():
            raise ArgumentError("an amount is missing", "write such as 1 cpu or 2 GiB memory")
        if match is not None:
            raise ArgumentError(
                f"{shown} names no resource", f"write {piece.strip()} {_of(match[3])}"
            )
        raise ArgumentError(
            f"{shown} is not an amount of a resource", "write such as 1 cpu or 2 GiB memory"
        )
    number, unit, word = match.groups()
    name = canonical_resource(check_resource(word))
    return name, amount_of(name, Decimal(number), unit or "")


def _of(unit: str) -> str:
    return "cpu" if unit == "m" else "memory"
