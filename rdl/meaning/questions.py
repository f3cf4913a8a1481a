"""Find ambiguous numbers: ``500m`` may be a time, or half a core."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rdl.durations import parse_duration
from rdl.errors import Problem
from rdl.operators import UNITS
from rdl.text.tokenizer import BUNDLE, END, QUANTITY, Tokenizer
from rdl.time_grid import duration_text

#: Code of a question, which is not an error.
QUESTION: Final = "question"

#: From this many minutes on they may be thousandths; up to this many thousandths may be minutes.
_MANY_MINUTES: Final = 100
_FEW_THOUSANDTHS: Final = 60

_THOUSANDTHS = re.compile(r"(\d{1,15})m", re.ASCII)
_CORES = re.compile(
    r"(?<![\w.])(\d{1,15})\s*m\s+(cpus?|cores?|vcores?)\b", re.ASCII | re.IGNORECASE
)
#: An amount without a unit, and its resource.
_PARTS = re.compile(r"(?<![\w.])(\d{1,15}(?:\.\d{1,9})?)\s+([A-Za-z_][\w./-]*)", re.ASCII)
_MEMORY: Final = frozenset({"memory", "mem", "ram"})
_CPU_KEYS: Final = frozenset({"cpu", "cpus", "core", "cores", "vcore", "vcores"})


def questions(source: object) -> tuple[Problem, ...]:
    """Return questions on ambiguous numbers, each with both unambiguous forms.

    Parameters
    ----------
    source
        A valid text, or a valid JSON value.
    """
    if isinstance(source, str):
        return tuple(_of_text(source))
    found: list[Problem] = []
    _of_json(source, "", found)
    return tuple(found)


def _of_text(source: str) -> list[Problem]:
    tokens = Tokenizer(source)
    found: list[Problem] = []
    while tokens.kind != END:
        start, end = tokens.span
        if tokens.kind == QUANTITY and (said := _time(tokens.text)) is not None:
            found.append(Problem(QUESTION, said[0], (start, end), fix=said[1]))
        elif tokens.kind == BUNDLE:
            for match in _CORES.finditer(tokens.text):
                said = _amount(match[1])
                if said is not None:
                    span = (start + match.start(), start + match.end())
                    found.append(Problem(QUESTION, said[0], span, fix=said[1]))
            for match in _PARTS.finditer(tokens.text):
                said = _whole(match[1], match[2])
                if said is not None:
                    span = (start + match.start(), start + match.end())
                    found.append(Problem(QUESTION, said[0], span, fix=said[1]))
        tokens.advance()
    return found


def _of_json(value: object, pointer: str, found: list[Problem]) -> None:
    if isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            _of_json(entry, f"{pointer}/{index}", found)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            where = f"{pointer}/{key}"
            if isinstance(entry, str):
                said = _of_member(str(key), entry)
                if said is not None:
                    found.append(Problem(QUESTION, said[0], pointer=where, fix=said[1]))
            elif pointer.endswith("/bundle") and isinstance(entry, int | float):
                said = _whole(f"{entry}", str(key))
                if said is not None:
                    found.append(Problem(QUESTION, said[0], pointer=where, fix=said[1]))
            else:
                _of_json(entry, where, found)


_UNIT_WORDS: Final = frozenset(unit.lower() for unit in UNITS)
_TIMES: Final = frozenset({"lease", "work", "each", "period", "gap", "start", "end"})


def _of_member(key: str, text: str) -> tuple[str, str] | None:
    if key in _TIMES:
        return _time(text)
    if key.lower() in _MEMORY and text.isdecimal():
        return _whole(text, key)
    match = _THOUSANDTHS.fullmatch(text) if key.lower() in _CPU_KEYS else None
    return None if match is None else _amount(match[1])


def _time(text: str) -> tuple[str, str] | None:
    """Return a question and its answers for minutes that may be meant as thousandths."""
    match = _THOUSANDTHS.fullmatch(text)
    if match is None or int(match[1]) < _MANY_MINUTES:
        return None
    clear = duration_text(parse_duration(text)) if int(match[1]) < 10**9 else "hours"
    message = f"{text} means {match[1]} minutes here"
    return message, f"write {clear} if that is meant; a part of a core is <{text} cpu>"


def _whole(number: str, resource: str) -> tuple[str, str] | None:
    """Return a question for memory without a unit, and for fractions of whole units."""
    name = resource.lower()
    if name in _MEMORY:
        message = f"{number} memory means {number} MiB"
        return message, f"write {number} MiB memory if that is meant, or {number} GiB memory"
    if "." not in number or name in _CPU_KEYS or name in _UNIT_WORDS or not float(number) % 1:
        return None
    least = int(float(number))
    message = f"{resource} is counted in whole units: {number} becomes {least + 1}"
    return message, f"write {least + 1} if that is meant"


def _amount(digits: str) -> tuple[str, str] | None:
    """Return a question and its answers for thousandths of a core that may be minutes."""
    if not 0 < int(digits) <= _FEW_THOUSANDTHS:
        return None
    cores = f"{int(digits) / 1000:g}"
    message = f"{digits}m cpu means {cores} of a core"
    return (
        message,
        f"write {cores} cpu if that is meant; minutes are a time, such as lease={digits}m",
    )
