"""Problem documents of a server (RFC 9457, docs/api.md) as lines for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

_SHOWN_ERRORS: Final = 10


def problem_text(
    body: Mapping[str, Any], parameter: Callable[[str], str] = lambda name: name
) -> str:
    """Return a problem document as lines for a person.

    Parameters
    ----------
    parameter
        How a parameter of the query is called.
    """
    title, detail = body.get("title") or "refused", body.get("detail") or body.get("code")
    errors = body.get("errors") or []
    if len(errors) == 1 and errors[0].get("message") == detail:  # said once is enough
        return f"{title}: {_entry_text(errors[0], parameter)}"
    lines = [f"{title}: {detail}"]
    lines += [f"  {_entry_text(entry, parameter)}" for entry in errors[:_SHOWN_ERRORS]]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(f"  and {len(errors) - _SHOWN_ERRORS} more")
    return "\n".join(lines)


def status_text(status: int) -> str:
    """Return what to say of an answer without a problem document."""
    names = {one.value: one.phrase for one in HTTPStatus}
    phrase = f"{status} {names.get(status, '')}".strip()
    return f"the server answered {phrase} without saying why"


def _entry_text(entry: Mapping[str, Any], parameter: Callable[[str], str]) -> str:
    pointer, message = entry.get("pointer") or "", entry.get("message", "")
    if pointer.startswith("?"):
        name = pointer[1:]
        pointer, message = parameter(name), message.removeprefix(f"{name}: ")
    where = f"{pointer}: " if pointer else ""
    fix = f"; {entry['fix']}" if entry.get("fix") else ""
    return f"{where}{message}{fix}"
