"""JSON values as YAML 1.2 in blocks; texts that YAML could read as something else are quoted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z_/][\w ./@+-]*(?<! )\Z", re.ASCII)

#: Characters that end a line in YAML, and not in JSON; and those that it does not allow.
_BREAKS: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

#: Words that readers of YAML 1.1 or 1.2 take for something else than text.
_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def yaml_text(value: object) -> str:
    """Return a JSON value as a YAML document."""
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: object, indent: str) -> list[str]:
    match value:
        case Mapping() if value:
            return [
                line for name, one in value.items() for line in _entry(_scalar(name), one, indent)
            ]
        case str():
            return [indent + _scalar(value)]
        case Sequence() if value:
            return [line for one in value for line in _item(one, indent)]
        case _:
            return [indent + _scalar(value)]


def _entry(name: str, value: object, indent: str) -> list[str]:
    if _is_block(value):
        return [f"{indent}{name}:", *_lines(value, indent + "  ")]
    return [f"{indent}{name}: {_scalar(value)}"]


def _item(value: object, indent: str) -> list[str]:
    """Return an item of a list: its first line stands behind the dash."""
    first, *rest = _lines(value, indent + "  ")
    return [f"{indent}- {first.removeprefix(indent + '  ')}", *rest]


def _is_block(value: object) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str) and bool(value)


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):  # readers of YAML 1.1 take 1e-05 for text
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    return _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
