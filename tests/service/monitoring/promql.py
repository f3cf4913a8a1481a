"""What a query of Prometheus names: metrics and labels, by a tokenizer of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"[^"]*")|(?P<word>[A-Za-z_:][A-Za-z0-9_:]*)|(?P<range>\[[0-9a-z:]+\])"""
    r"""|(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<mark>=~|!~|!=|==|>=|<=|[-+*/%^(){},=<>]))"""
)

#: Words that take a list of labels in brackets, and those that stand between operands.
_LISTS: Final = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_BETWEEN: Final = frozenset({"and", "or", "unless", "bool", "offset"})

FUNCTIONS: Final = frozenset(
    {"sum", "max", "min", "avg", "count", "topk", "rate", "increase", "histogram_quantile", "abs"}
)


class QueryError(ValueError):
    """A text that is no query."""


@dataclass(slots=True)
class Named:
    """What a query names: labels by metric, and labels that it groups by."""

    metrics: dict[str, dict[str, str]] = field(default_factory=dict)
    grouped: set[str] = field(default_factory=set)


def tokens_of(query: str) -> list[str]:
    """Return the tokens of a query; brackets are in pairs.

    Raises
    ------
    QueryError
        For a character that belongs to none.
    """
    found, at = [], 0
    while query[at:].strip():
        match = _TOKEN.match(query, at)
        if match is None:
            raise QueryError(f"{query[at:]!r} is no token")
        found.append(match[0].strip())
        at = match.end()
    for left, right in ("()", "{}"):
        if found.count(left) != found.count(right):
            raise QueryError(f"{left} and {right} are not in pairs: {query}")
    return found


def named_in(query: str) -> Named:
    """Return what a query names.

    Raises
    ------
    QueryError
        For what is no query, or a function that is not known.
    """
    tokens, named, at = [*tokens_of(query), ""], Named(), 0
    while tokens[at]:
        word, after = tokens[at], tokens[at + 1]
        at += 1
        if not re.match(r"[A-Za-z_:]", word) or word in _BETWEEN:
            continue
        if word in _LISTS:
            end = tokens.index(")", at)
            named.grouped |= set(tokens[at + 1 : end]) - {","}
            at = end + 1
        elif after == "(" or (word in FUNCTIONS and after in _LISTS):
            if word not in FUNCTIONS:
                raise QueryError(f"{word} is no function")
        else:
            labels = named.metrics.setdefault(word, {})
            if after == "{":
                end = tokens.index("}", at)
                labels.update(_matchers(tokens[at + 1 : end]))
                at = end + 1
    return named


def _matchers(tokens: list[str]) -> dict[str, str]:
    """Return the labels between braces, with the value each is compared with."""
    found: dict[str, str] = {}
    for at in range(0, len(tokens), 4):
        part = tokens[at : at + 4]
        if len(part) < 3 or part[1] not in ("=", "=~", "!=", "!~") or part[3:] not in ([], [","]):
            raise QueryError(f"{' '.join(part)} is no matcher")
        found[part[0]] = part[2].strip('"')
    return found
