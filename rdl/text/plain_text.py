"""A fast path for the most common request, an atom in a window.

Nearly all requests that programs write are ``window(atom(<...>, g, h, lease, work), start, end)``.
One pattern finds the parts, several times as fast as the parser. It reports no errors: the parser
reads everything that does not match or has an invalid part, and reports its problems.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rdl.durations import MAX_WORK_MS, TimeTextError, parse_duration, parse_rfc3339
from rdl.expressions import Absolute, AfterSubmission, Atom, Moment, Offset, Window
from rdl.limits import SourceLimits
from rdl.operators import MAX_COUNT
from rdl.resources import Resources
from rdl.text.bundle_text import parse_bundle

_TIME: Final = r"(\+ *)?([0-9][0-9A-Za-z:.+\-]*)"
_DURATION: Final = r"([0-9][0-9a-z.]*)"
_COUNT: Final = r"([0-9]{1,9})"

_PLAIN: Final = re.compile(
    rf"window\( *(atom\( *(<[^<>();#]*>) *, *{_COUNT} *, *{_COUNT} *, *{_DURATION} *, *{_DURATION}"
    rf" *\)) *, *{_TIME} *, *{_TIME} *\)"
)

#: Longest text to try: longer ones are rare, and may have bundles of any length.
_MOST_CHARACTERS: Final = 1_000

#: Nesting depth of the operators.
_DEPTH: Final = 2


def plain_window(text: str, limits: SourceLimits) -> Window | None:
    """Return the same as the parser for an atom in a window; None if the parser must read it."""
    if len(text) > min(_MOST_CHARACTERS, limits.max_source) or limits.max_depth < _DEPTH:
        return None
    found = _PLAIN.fullmatch(text)
    if found is None:
        return None
    _, bundle_text, least, most, lease, work, *times = found.groups()
    bundle, minimum, maximum = _bundle(bundle_text), int(least), int(most)
    if bundle is None or not 1 <= minimum <= MAX_COUNT or not 1 <= maximum <= MAX_COUNT:
        return None
    try:
        lease_ms, work_ms = parse_duration(lease), parse_duration(work, MAX_WORK_MS)
        start, end = _instant(times[0], times[1]), _instant(times[2], times[3])
    except TimeTextError:
        return None
    if work_ms == 0:  # a best-effort session
        return None
    atom = Atom(bundle, minimum, maximum, lease_ms, work_ms, span=found.span(1))
    return Window(start, end, atom, span=(0, len(text)))


@lru_cache(maxsize=1024)
def _bundle(text: str) -> Resources | None:
    bundle = parse_bundle(text, 0)
    return None if isinstance(bundle, list) else bundle


def _instant(plus: str | None, text: str) -> Moment:
    if plus is not None:
        return AfterSubmission(parse_duration(text))
    return Absolute(parse_rfc3339(text)) if "-" in text else Offset(parse_duration(text))
