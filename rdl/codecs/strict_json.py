"""Strict JSON: no duplicate keys, no NaN, no lone surrogates, no infinite numbers.

Python's reader accepts all of these. A duplicate key hides its first value (such as a job of a
graph), and a text with a lone surrogate cannot be written to a file again.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from rdl.errors import quote
from rdl.read_error import ReadError

#: An escape of a surrogate: a fast test, before every text is checked.
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")


class JsonTextError(ReadError):
    """A text that is not JSON, or not strict JSON.

    Attributes
    ----------
    at
        (offset, line from 1, column from 1) where the reader stopped, or None.
    """

    def __init__(
        self, message: str, fix: str | None = None, at: tuple[int, int, int] | None = None
    ) -> None:
        self.at = at
        super().__init__(message, fix)


def read_json(raw: str | bytes) -> Any:
    """Return the value of a JSON text; bytes are UTF-8, or UTF-16 or UTF-32 as JSON has it.

    Raises
    ------
    JsonTextError
        For anything that is not strict JSON.
    """
    try:
        text = raw if isinstance(raw, str) else raw.decode(json.detect_encoding(raw))
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except JsonTextError:
        raise
    except UnicodeDecodeError as error:
        raise JsonTextError(f"not UTF-8 text: {error.reason}", "save it as UTF-8") from error
    except json.JSONDecodeError as error:
        at = error.pos, error.lineno, error.colno
        raise JsonTextError(f"not JSON: {error.msg}", at=at) from error
    except RecursionError as error:
        raise JsonTextError("objects and lists are nested too deeply", "nest less") from error
    except ValueError as error:
        raise JsonTextError("a number has thousands of digits", "write fewer") from error
    if _HALF.search(text):
        _check_whole(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise JsonTextError(f"not JSON: the key {quote(name)} is given twice in one object")
            seen.add(name)
    return read


def _no_constant(name: str) -> NoReturn:
    raise JsonTextError(f"not JSON: {name} is not a number of JSON")


def _check_whole(value: object) -> None:
    """Reject texts with lone surrogates, keys included; without recursion."""
    pending = [value]
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            pending += [*here, *here.values()]
        elif isinstance(here, list):
            pending += here
        elif isinstance(here, str):
            try:
                here.encode()
            except UnicodeEncodeError as error:
                half = quote(here[error.start])
                message = f"not JSON: {quote(here)} has {half}, which is half of a character"
                raise JsonTextError(message) from error
