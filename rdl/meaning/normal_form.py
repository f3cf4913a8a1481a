"""The normal form of a request (Rayon 3.1): nested operators flattened, equal atoms unified.

Every rule keeps the set of allocations that satisfy the request. It is for reading: Plans keep the
request as written, whose paths name its atoms.
"""

from __future__ import annotations

from dataclasses import replace

from rdl.expressions import (
    Absolute,
    AfterSubmission,
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Graph,
    Instant,
    Offset,
    Order,
    Together,
    Void,
    Window,
)
from rdl.operators import MAX_COUNT


def normal_form(expression: Expression) -> Expression:
    """Return the normal form of a well-formed request, without names."""
    match expression:
        case AllOf(children=children):
            return _all([normal_form(child) for child in children])
        case AnyOf(options=options, prefer=prefer):
            worths = prefer or (1.0,) * len(options)
            return _any([normal_form(option) for option in options], worths)
        case Order(children=children, gap=gap):
            flat: list[Expression] = []
            for child in map(normal_form, children):
                nested = isinstance(child, Order) and child.gap == gap
                flat.extend(child.children if nested and isinstance(child, Order) else [child])
            return flat[0] if len(flat) == 1 else Order(tuple(flat), gap)
        case Graph(children=children):
            if len(children) == 1:
                return normal_form(children[0])
            named = replace(expression, name=None, span=None)
            return replace(named, children=tuple(map(normal_form, children)))
        case Together(children=children):
            return _together(expression, [normal_form(child) for child in children])
        case Window(of=of):
            return _window(replace(expression, of=normal_form(of), name=None, span=None))
        case Every(of=of):
            return replace(expression, of=normal_form(of), name=None, span=None)
        case _:
            return replace(expression, name=None, span=None)


def _all(children: list[Expression]) -> Expression:
    flat: list[Expression] = []
    for child in children:
        flat.extend(child.children if isinstance(child, AllOf) else [child])
    kept = [child for child in flat if not isinstance(child, Void)] or flat[:1]
    counts: dict[Expression, int] = {}
    for child in kept:
        counts[child] = counts.get(child, 0) + 1
    unified = [one for child, count in counts.items() for one in _unified(child, count)]
    return unified[0] if len(unified) == 1 else AllOf(tuple(unified))


def _unified(child: Expression, count: int) -> list[Expression]:
    """Return several equal gangs as one atom whose bundles come in gangs.

    Only gangs that hold all their bundles for one lease: then both forms allow the same. A spread
    and `within` hold for one atom, so atoms that have one stay as they are.
    """
    if count == 1 or not isinstance(child, Atom) or child.spread or child.within is not None:
        return [child] * count
    height, most = child.minimum, child.maximum * count
    is_gang = height == child.maximum and child.work_ms == height * child.lease_ms
    if not is_gang or most > MAX_COUNT:
        return [child] * count
    # What it says by default as a gang it would not say as a malleable atom.
    whole = child.work_ms * count
    merged = replace(
        child, maximum=most, multiple=height, work_ms=whole,
        handover=child.hands_over, credit=child.is_credited,
    )  # fmt: skip
    return [merged.canonical()]


def _together(together: Together, members: list[Expression]) -> Expression:
    """Return gangs that run together with those that differ only in their number as one.

    A spread and `within` hold for one atom, so atoms that have one stay as they are.
    """
    place = together.within, together.values
    unified: dict[Expression, Atom] = {}
    kept: list[Expression] = []
    for one in members:
        if not isinstance(one, Atom) or one.spread or one.within is not None:
            kept.append(one)
            continue
        key = replace(one, minimum=1, maximum=1, work_ms=one.lease_ms, multiple=1)
        known = unified.get(key)
        count = one.minimum + (0 if known is None else known.minimum)
        if count > MAX_COUNT:
            return Together(tuple(members), *place)
        if known is None:
            kept.append(key)
        unified[key] = replace(key, minimum=count, maximum=count, work_ms=count * one.lease_ms)
    whole = tuple(unified.get(one, one) for one in kept)
    if len(whole) == 1 and isinstance(whole[0], Atom) and together.within is not None:
        return replace(whole[0], within=together.within, values=together.values)
    return whole[0] if len(whole) == 1 else Together(whole, *place)


def _any(options: list[Expression], worths: tuple[float, ...]) -> Expression:
    best: dict[Expression, float] = {}
    for option, worth in zip(options, worths, strict=True):
        inner = [(option, worth)]
        if isinstance(option, AnyOf):
            own = option.prefer or (1.0,) * len(option.options)
            inner = [(one, worth * part) for one, part in zip(option.options, own, strict=True)]
        for one, value in inner:
            best[one] = max(best.get(one, 0.0), value)
    prefer = tuple(best.values())
    if len(best) == 1 and prefer[0] == 1:
        return next(iter(best))
    return AnyOf(tuple(best), None if set(prefer) == {1.0} else prefer)


def _window(window: Window) -> Expression:
    """Return a window in a window as one where bounds of one kind say which is the narrower."""
    inner = window.of
    if not isinstance(inner, Window) or window.zone != inner.zone:
        return window
    if not (_alike(window.end, inner.end) and _alike(window.start, inner.start)):
        return window
    start, end = inner.start, min(window.end, inner.end, key=_place)
    if window.start is not None:
        start = window.start if start is None else max(window.start, start, key=_place)
    return replace(inner, start=start, end=end)


def _alike(one: Instant | None, other: Instant | None) -> bool:
    kinds = (Offset, AfterSubmission, Absolute)
    for instant in (one, other):
        if instant is not None and not isinstance(instant, kinds):
            return False
    return one is None or other is None or type(one) is type(other)


def _place(instant: Instant) -> float:
    if isinstance(instant, Absolute):
        return instant.at.timestamp()
    return float(instant.ms)
