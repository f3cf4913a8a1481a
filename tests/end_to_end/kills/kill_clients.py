"""Clients that change reservations in every way while servers are killed, and what they know.

Each client has reservations of its own and remembers what it was notified of each. A call whose
answer is lost leaves open the outcome of it, until a retry or a read tells. Whatever else a client
is shown is a fault of the server, and is noted.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tests.end_to_end.server_process import Client

#: Most reservations that a client holds; it gives some up then.
_MOST_HELD: Final = 30

#: Seconds between two calls of a client.
_PAUSE_S: Final = 0.04

#: How often a server that runs is asked: the connection to the one before it breaks first.
_TRIES: Final = 3

#: What says that it is not known whether it was done.
_UNAVAILABLE: Final = 503


@dataclass(slots=True)
class Known:
    """What a client knows of a reservation.

    Attributes
    ----------
    atoms
        What it holds; None if an answer that changed it was lost.
    states
        Which it may be in; `absent` where it is not known to be there.
    near
        It begins soon, so that it ends by the clock.
    """

    atoms: Any
    states: set[str] = field(default_factory=lambda: {"accepted"})
    near: bool = False


@dataclass(slots=True)
class Gate:
    """Lets clients call, or waits until none of them does."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    open: bool = True
    inside: int = 0

    def __enter__(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.open)
            self.inside += 1
            self.changed.notify_all()

    def __exit__(self, *_failure: object) -> None:
        with self.changed:
            self.inside -= 1
            self.changed.notify_all()

    def close(self) -> None:
        """Return when no client calls, and let none call."""
        with self.changed:
            self.open = False
            self.changed.wait_for(lambda: self.inside == 0)

    def reopen(self) -> None:
        """Let clients call again."""
        with self.changed:
            self.open = True
            self.changed.notify_all()

    def wait_for_a_call(self, timeout_s: float) -> None:
        """Return when a client is in the middle of a call."""
        with self.changed:
            self.changed.wait_for(lambda: self.inside > 0, timeout_s)


class KillClient(threading.Thread):
    """One client of a server that is killed again and again.

    Attributes
    ----------
    known
        By id, what it knows of its reservations.
    answered
        By key, a request and the answer to it.
    faults
        What it was shown that cannot be.
    calls, lost
        How many it made, and of how many the answer was lost.
    learned
        What reservations turned out to be of which a call had been lost.
    """

    def __init__(self, port: int, number: int, seed: int, gate: Gate) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.known: dict[str, Known] = {}
        self.answered: dict[str, tuple[dict[str, Any], Any]] = {}
        self.faults: list[str] = []
        self.calls = self.lost = 0
        self.learned: Counter[str] = Counter()
        self.ended = threading.Event()
        self._open: dict[str, dict[str, Any]] = {}
        self._held: list[str] = []
        self._random = random.Random(f"{seed}-{number}")
        self._gate = gate
        self._port = port
        self._client = Client(port)
        self._turn = 0

    def run(self) -> None:
        """Call until told to end."""
        while not self.ended.wait(_PAUSE_S * self._random.random() * 2):
            with self._gate:
                self._choose()()

    def resolve(self) -> None:
        """Ask again, on a server that no one kills, for every answer that was lost."""
        for _ in range(_TRIES):
            for key in list(self._open):
                self._ask_again(key)
        if self._open:
            self.faults.append(f"no answer to {sorted(self._open)} from a server that runs")

    def keys_again(self, count: int) -> None:
        """Hold the answers to some keys of before against what they receive now."""
        for key in self._random.sample(sorted(self.answered), min(count, len(self.answered))):
            self._ask_again(key)

    def _choose(self) -> Any:
        many = len(self._held) > _MOST_HELD
        if not self._held:
            return self._post
        calls = (self._post, self._cancel, self._close, self._update, self._read, self._retry)
        weights = (0 if many else 45, 12, 10, 12, 13, 8)
        return self._random.choices(calls, weights)[0]

    def _call(self, method: str, path: str, body: object = None, key: str = "") -> Any:
        """Return (status, body), or None if the answer was lost."""
        headers = {"Idempotency-Key": key} if key else {}
        if method == "PUT":
            headers["If-Match"] = "*"
        try:
            answer = self._connected(method, path, body, headers)
        except (OSError, http.client.HTTPException, ValueError):
            self._client = Client(self._port)
            answer = (_UNAVAILABLE, None)
        self.calls += 1
        if answer[0] == _UNAVAILABLE:
            self.lost += 1
            time.sleep(0.05)
            return None
        return answer

    def _connected(self, *call: Any) -> Any:
        """Call as soon as someone listens; what was never sent is not lost."""
        while True:
            try:
                return self._client.call(*call)
            except ConnectionRefusedError:
                self._client = Client(self._port)
                time.sleep(0.1)

    def _body(self) -> tuple[dict[str, Any], bool]:
        near = self._random.random() < 0.1
        start = 0 if near else self._random.randrange(120, 1200)
        shape = "1, 1, 60, 60" if near else "1, 4, 600, 2400"
        rdl = f"window(atom(<1 cpu, 1 GiB memory>, {shape}), +{start}m, +{start + 90}m)"
        return {"rdl": rdl, "tenant": f"t{self.number}"}, near

    def _post(self) -> None:
        body, near = self._body()
        self._turn += 1
        name = f"{self.number}-{self._turn}"
        if self._random.random() < 0.3:
            body["id"] = f"own-{name}"
            answer = self._call("POST", "/v1/reservations", body)
            if answer is None:
                self.known[body["id"]] = Known(None, {"absent", *_states(near)}, near)
            else:
                self._note_post(answer, near)
            return
        self._open[f"key-{name}"] = body
        self._ask_again(f"key-{name}")

    def _ask_again(self, key: str) -> None:
        """Send a request under its key, the first time or again."""
        body = self._open.get(key) or self.answered[key][0]
        answer = self._call("POST", "/v1/reservations", body, key)
        if answer is None:
            return
        before = self.answered.get(key)
        if before is None:
            del self._open[key]
            self._note_post(answer, "+0m" in body["rdl"])
        elif before[1] != answer:
            self.faults.append(f"{key} was answered {before[1]}, then {answer}")
        # A refusal is decided again where its offers are no longer known; a promise never is.
        if answer[0] == 201:
            self.answered[key] = (body, answer)

    def _note_post(self, answer: Any, near: bool) -> None:
        status, made = answer
        if status == 201:
            self.known[made["id"]] = Known(made["atoms"], _states(near), near)
            if not near:
                self._held.append(made["id"])
        elif status != 409:
            self.faults.append(f"a post was answered {answer}")

    def _cancel(self) -> None:
        self._end("DELETE", "", "cancelled")

    def _close(self) -> None:
        self._end("POST", "/close", "completed")

    def _end(self, method: str, call: str, state: str) -> None:
        id_ = self._held.pop(self._random.randrange(len(self._held)))
        answer = self._call(method, f"/v1/reservations/{id_}{call}")
        if answer is None:
            self.known[id_].states.add(state)
        elif answer[0] == 200:
            self.known[id_] = Known(answer[1]["atoms"], {state})
        else:
            self.faults.append(f"{method}{call} of {id_} was answered {answer}")

    def _update(self) -> None:
        id_ = self._random.choice(self._held)
        body = {"rdl": self._body()[0]["rdl"].replace("+0m", "+200m").replace("+90m", "+290m")}
        answer = self._call("PUT", f"/v1/reservations/{id_}", body)
        if answer is None:
            self.known[id_].atoms = None
        elif answer[0] == 200:
            self.known[id_].atoms = answer[1]["atoms"]
        elif answer[0] != 409:
            self.faults.append(f"PUT of {id_} was answered {answer}")

    def _read(self) -> None:
        id_ = self._random.choice(sorted(self.known))
        answer = self._call("GET", f"/v1/reservations/{id_}")
        if answer is not None:
            self.hold(id_, answer[1] if answer[0] == 200 else None)

    def _retry(self) -> None:
        keys = sorted(self._open) or sorted(self.answered)
        if keys:
            self._ask_again(self._random.choice(keys))

    def hold(self, id_: str, shown: dict[str, Any] | None) -> None:
        """Hold what is shown of a reservation against what is known, and learn what was open."""
        known = self.known[id_]
        state = "absent" if shown is None else shown["state"]
        if state not in known.states:
            self.faults.append(f"{id_} is {state}, not one of {sorted(known.states)}: {shown}")
        elif shown is not None and known.atoms not in (None, shown["atoms"]):
            told = shown["atoms"]
            if not (known.near or len(known.states) > 1):
                self.faults.append(f"{id_} holds {told}, not {known.atoms}")
        if known.near or state not in known.states:
            return
        if len(known.states) > 1:
            self.learned[f"{state} of {'/'.join(sorted(known.states))}"] += 1
        known.states = {state}
        known.atoms = None if shown is None else shown["atoms"]


def _states(near: bool) -> set[str]:
    return {"accepted", "active", "completed"} if near else {"accepted"}
