"""PresentStates: current states of things outside the log: ticks and optimisations."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from service.events.plan_event import JOB, TICK
from service.store import OptimizationRow, Store
from service.store.optimizations import RUNNING
from service.streaming.event_text import event_text

#: Seconds between two checks.
_LOOK_S: Final = 1.0

#: Reported fields of an optimisation's progress.
_TOLD: Final = ("phase", "elapsed", "value", "bound", "gap", "source")


@dataclass(frozen=True, slots=True)
class PresentState:
    """One state: its newest text, and the serial number of the text."""

    serial: int
    kind: str
    text: bytes
    over: bool = False


class PresentStates:
    """Reads the store from time to time; used only by the thread of the hub.

    Attributes
    ----------
    serial
        Serial number of the newest text.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked = -_LOOK_S
        self._raw: dict[str, object] = {}
        self._states: dict[str, PresentState] = {}
        self.serial = 0

    def after(self, serial: int, kinds: frozenset[str]) -> list[bytes]:
        """Return the texts after a serial number; for a new reader (-1) without ended states."""
        self._look()
        return [
            one.text
            for one in self._states.values()
            if one.serial > serial and one.kind in kinds and not (serial < 0 and one.over)
        ]

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        raw = self._store.applications.assignment()
        if raw != self._raw.get(TICK) and len(raw) > len(b"{}"):
            self._raw[TICK] = raw
            self._put(TICK, TICK, _tick_of(raw))
        rows = self._store.optimizations.page()
        for gone in self._states.keys() - {TICK} - {row.id for row in rows}:
            del self._states[gone]
            self._raw.pop(gone, None)
        for row in rows:
            raw_row = (row.state, row.progress)
            if raw_row != self._raw.get(row.id):
                self._raw[row.id] = raw_row
                self._put(row.id, JOB, _job_of(row), over=row.state != RUNNING)

    def _put(self, key: str, kind: str, body: dict[str, Any], *, over: bool = False) -> None:
        self.serial += 1
        self._states[key] = PresentState(self.serial, kind, event_text(kind, body), over)


def _tick_of(raw: bytes) -> dict[str, Any]:
    """Return the event of an assignment: counts without owners."""
    found = msgspec.json.decode(raw)
    return {
        "kind": TICK,
        "at": found["at"],
        "version": found["plan_version"],
        "components": len(found["rows"]),
        "below": len(found["below"]),
    }


def _job_of(row: OptimizationRow) -> dict[str, Any]:
    progress = msgspec.json.decode(row.progress) if row.progress else {}
    told = {name: progress[name] for name in _TOLD if name in progress}
    return {"kind": JOB, "job": row.id, "state": row.state, **told}
