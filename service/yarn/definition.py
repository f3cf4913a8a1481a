"""YarnDefinition and ids: YARN's reservation definitions and ids in a canonical form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from rdl.codecs.yarn import from_yarn
from rdl.errors import RdlError
from service.yarn.faults import YarnFault, fault_line, number_fault

_T = TypeVar("_T")

_REQUESTS: Final = "reservation-requests"
_INTERPRETER: Final = "reservation-request-interpreter"
_STAGE: Final = "reservation-request"
_NUMBERS: Final = ("duration", "num-containers", "min-concurrency")

_NO_DEFINITION: Final = "Input ReservationDefinition should not be null"
_NO_STAGES: Final = "The ReservationDefinition should contain at least one ReservationRequest"

_PREFIX: Final = "reservation_"
_LONG: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_LONGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class YarnDefinition:
    """The request of a client.

    Attributes
    ----------
    document
        The definition, with numbers as numbers, 0 for absent ones, and stages as a list.
    """

    document: Mapping[str, Any]

    @property
    def arrival_ms(self) -> int:
        """Earliest start, Unix ms."""
        return int(self.document["arrival"])

    @property
    def deadline_ms(self) -> int:
        """Latest end, Unix ms."""
        return int(self.document["deadline"])

    @property
    def period_ms(self) -> int:
        """Period of the recurrence, ms; 0: none."""
        return int(self.document["recurrence-expression"])

    def encode(self) -> bytes:
        """Return the document as JSON; equal definitions give equal bytes."""
        return msgspec.json.encode(self.document)

    def to_wire(self) -> dict[str, Any]:
        """Return the form of YARN's list: numbers as strings, a single stage not in a list."""
        told = {name: _text(value) for name, value in self.document.items()}
        asked = self.document[_REQUESTS]
        told[_REQUESTS] = {
            _INTERPRETER: str(asked[_INTERPRETER]),
            _STAGE: one_or_many([_texts(stage) for stage in asked[_STAGE]]),
        }
        return told


def decode(definition: bytes) -> YarnDefinition:
    """Return the definition that `YarnDefinition.encode` wrote."""
    return YarnDefinition(msgspec.json.decode(definition))


def one_or_many(values: Sequence[_T]) -> _T | list[_T]:
    """Return a single value as itself, several as a list, as YARN's server writes lists."""
    return values[0] if len(values) == 1 else list(values)


def read_definition(value: object, now_ms: int) -> YarnDefinition:
    """Read a definition and check it by YARN's rules.

    Parameters
    ----------
    now_ms
        Now, Unix ms.

    Raises
    ------
    YarnFault
        400 with the reason.
    """
    require_stages(value)
    assert isinstance(value, dict)
    try:
        from_yarn(value)
    except RdlError as error:
        told = "; ".join(fault_line(one.pointer, one.message, one.fix) for one in error.problems)
        raise YarnFault(f"The ReservationDefinition cannot be read: {told}") from error
    definition = _definition_of(value)
    if definition.deadline_ms <= now_ms:
        raise YarnFault(
            f"The specified deadline: {definition.deadline_ms} is the past. "
            "Please try again with deadline in the future."
        )
    return definition


def require_stages(value: object) -> None:
    """Refuse a value that is not a definition or has no stages, with YARN's messages.

    Raises
    ------
    YarnFault
        400.
    """
    if value is None or value == "":
        raise YarnFault(_NO_DEFINITION)
    if not isinstance(value, Mapping):
        raise YarnFault("The ReservationDefinition cannot be read: it is no object")
    asked = value.get(_REQUESTS)
    if not (asked.get(_STAGE) if isinstance(asked, Mapping) else asked):
        raise YarnFault(_NO_STAGES)


def _definition_of(value: Mapping[str, Any]) -> YarnDefinition:
    """Return the canonical form of a definition that `from_yarn` has read."""
    asked = value[_REQUESTS]
    stages = asked[_STAGE]
    document: dict[str, Any] = {"arrival": _number(value, "arrival")}
    document["deadline"] = _number(value, "deadline")
    if "reservation-name" in value:
        document["reservation-name"] = value["reservation-name"]
    document["recurrence-expression"] = _number(value, "recurrence-expression")
    document["priority"] = _number(value, "priority")
    listed = [stages] if isinstance(stages, Mapping) else stages
    document[_REQUESTS] = {
        _INTERPRETER: _number(asked, _INTERPRETER),
        _STAGE: [_stage_of(stage) for stage in listed],
    }
    return YarnDefinition(document)


def _stage_of(stage: Mapping[str, Any]) -> dict[str, Any]:
    capability = stage["capability"]
    amounts = {name: _number(capability, name) for name in ("memory", "vCores")}
    return {"capability": amounts, **{name: _number(stage, name) for name in _NUMBERS}}


def _number(value: Mapping[str, Any], name: str) -> int:
    return int(value.get(name, 0))


def _texts(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _text(one) for name, one in value.items()}


def _text(value: Any) -> Any:
    return _texts(value) if isinstance(value, Mapping) else str(value)


def id_text(start_ms: int, counter: int) -> str:
    """Return an id in YARN's format."""
    return f"{_PREFIX}{start_ms}_{counter:04d}"


def read_id(text: object) -> str:
    """Return an id in YARN's canonical format.

    Raises
    ------
    YarnFault
        404 for another prefix or number of parts, as YARN's server answers; 400 for a part that is
        not a number.
    """
    shown = text if isinstance(text, str) else str(text)
    # Like Java's split, ignore empty parts at the end.
    parts = shown.rstrip("_").split("_")
    if not shown.startswith(_PREFIX) or len(parts) != 3:
        raise YarnFault(f"The specified reservation id is invalid: {shown[:200]}", 404)
    return id_text(_counter_of(parts[1]), _counter_of(parts[2]))


def _counter_of(text: str) -> int:
    if not _LONG.fullmatch(text) or int(text) > _LONGEST:
        raise number_fault(text[:200])
    return int(text)
