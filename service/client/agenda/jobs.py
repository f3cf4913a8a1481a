"""Job: a pipeline of a server, its runs, and the output of its stages."""

from __future__ import annotations

import json
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final, TypeAlias

from agenda.connection import entry_path
from agenda.errors import SettingError, StateConflictError, WaitTimeoutError
from agenda.records import RequestFields

PIPELINES: Final = "/v1/pipelines"
APPLICATIONS: Final = "/v1/applications"

#: States of applications that have ended.
OVER: Final = frozenset({"completed", "failed", "killed", "rejected"})

#: States of runs that have ended.
OVER_RUNS: Final = frozenset({"succeeded", "failed", "skipped"})

#: Pause between two looks at what is written, seconds.
LOOK_S: Final = 1.0

#: Pauses between looks at the state of a run, seconds; the last one is repeated.
PAUSES_S: Final = (0.5, 1.0, 1.0, 2.0, 2.0, 5.0)

#: What a log says of the run that wrote it.
_SOURCE: Final = ("component", "index", "task", "machine", "run", "stream")

#: Sends a call (method, path, body, query) and returns the body of its answer, or raises.
Call: TypeAlias = Callable[[str, str, object, Mapping[str, object] | None], Any]


class JobFields(RequestFields, total=False):
    """The fields of a job file in addition to `rdl` and `stages`, as docs/dispatch.md has them."""

    overlap: str
    margin: str | float


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A part of a component run's output to a stream.

    Attributes
    ----------
    task
        The task that the run had, of a stage that has tasks.
    skipped
        Bytes before it that the server has not kept.
    """

    application: str
    component: str
    index: int
    task: int | None
    machine: str
    run: str
    stream: str
    text: str
    skipped: int


def read_job(job: Mapping[str, Any] | str | os.PathLike[str]) -> Mapping[str, Any]:
    """Return a job, or the content of the job file at a path: TOML, or JSON.

    Raises
    ------
    SettingError
        If the file cannot be read.
    """
    if isinstance(job, Mapping):
        return job
    path = Path(job)
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise SettingError(f"{path}: {error}") from error
    if not isinstance(found, Mapping):
        raise SettingError(f"{path}: expected a table with `rdl` and `stages`")
    return found


class Job:
    """A pipeline: a reservation whose stages run.

    Parameters
    ----------
    call
        Sends a call to its server.
    id_
        Of the pipeline.
    raw
        The newest answer about it; it is asked for when absent.
    pause
        Waits some seconds before it looks for more logs.
    """

    def __init__(
        self,
        call: Call,
        id_: str,
        raw: Mapping[str, Any] | None = None,
        *,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._call = call
        self._pause = pause
        self.id = id_
        self._path = entry_path(PIPELINES, id_)
        self.raw: Mapping[str, Any] = raw or self.refresh()

    def refresh(self) -> Mapping[str, Any]:
        """Read the pipeline again; `raw` has the answer, too."""
        self.raw = self._call("GET", self._path, None, None)
        return self.raw

    def run(self, number: int | None = None) -> Mapping[str, Any]:
        """Return a run as ``GET /v1/pipelines/{id}/runs`` has it, by default the newest.

        Before it begins its state is ``waiting``, and it has stages only if it is the first.

        Raises
        ------
        SettingError
            If there is no such run, and no further one will begin.
        """
        query = {"limit": 1} if number is None else {"before": number + 1, "limit": 1}
        listed = self._call("GET", f"{self._path}/runs", None, query)["runs"]
        if listed and number in (None, listed[0]["run"]):
            found: Mapping[str, Any] = listed[0]
            return found
        now, wanted = self.refresh(), number or 0
        if wanted < now["runs"]:  # it began between the two calls
            return self.run(number)
        if now["next_at"] is None and now["reservation"]["state"] != "degraded":
            raise SettingError(f"{self.id} has no run {wanted}; it has had {now['runs']}")
        return {"run": wanted, "state": "waiting", "stages": [] if now["runs"] else now["stages"]}

    def state(self, number: int | None = None) -> str:
        """Return the state of a run: waiting, running, succeeded, failed or skipped."""
        state: str = self.run(number)["state"]
        return state

    def stages(self, number: int | None = None) -> dict[str, str]:
        """Return the state of each stage of a run by its name."""
        return {one["name"]: one["state"] for one in self.run(number)["stages"]}

    def wait(self, number: int | None = None, *, timeout_s: float | None = None) -> str:
        """Wait until a run has ended, by default the newest or the first; return its state.

        Raises
        ------
        SettingError
            If it will not begin.
        WaitTimeoutError
            If it takes longer than `timeout_s`.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        for pause_s in chain(PAUSES_S, repeat(PAUSES_S[-1])):
            state = self.state(number)
            if state in OVER_RUNS:
                return state
            if end is not None and time.monotonic() > end:
                break
            time.sleep(pause_s if end is None else max(0, min(pause_s, end - time.monotonic())))
        raise WaitTimeoutError(f"{self.id} has not ended within {timeout_s:g} s")

    def logs(
        self, stage: str | None = None, number: int | None = None, *, follow: bool = False
    ) -> Iterator[LogPiece]:
        """Yield the output of a stage of a run, or of all stages; with `follow` until they end."""
        ids = self.applications(stage, number)
        return log_pieces(self._call, ids, {}, follow=follow, pause=self._pause)

    def applications(self, stage: str | None = None, number: int | None = None) -> Sequence[str]:
        """Return the ids of the applications of a run's stages, or of one of them.

        Raises
        ------
        SettingError
            If there is no such run or stage, or it has not begun.
        """
        run = self.run(number)
        if run["state"] == "waiting":
            raise SettingError(f"{self.id}: run {run['run']} has not begun")
        known = {one["name"]: one["application"] for one in run["stages"]}
        if stage is not None and stage not in known:
            near = get_close_matches(stage, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SettingError(f"{self.id} has no stage {stage!r}{hint}")
        return list(known.values()) if stage is None else [known[stage]]

    def again(self, number: int | None = None, *, everything: bool = False) -> Mapping[str, Any]:
        """Run what has not succeeded of a run again, or everything; return the run."""
        run = self.run()["run"] if number is None else number
        body = {"run": run, **({"all": True} if everything else {})}
        found: Mapping[str, Any] = self._call("POST", f"{self._path}/again", body, None)
        return found

    def cancel(self) -> None:
        """Cancel its reservation, start no further run, and stop running stages.

        Also where its reservation has ended, and only late stages run.
        """
        try:
            self._call("DELETE", entry_path("/v1/reservations", self.id), None, None)
        except StateConflictError as error:
            if error.code != "wrong_state":
                raise
        before: int | None = None
        while before != 0:
            query = None if before is None else {"before": before}
            page = self._call("GET", f"{self._path}/runs", None, query)
            for stage in chain.from_iterable(run["stages"] for run in page["runs"]):
                if stage["state"] not in OVER:
                    path = entry_path(APPLICATIONS, stage["application"])
                    self._call("DELETE", path, None, None)
            before = page["next"] or 0


def log_pieces(
    call: Call,
    applications: Iterable[str],
    query: Mapping[str, object],
    *,
    follow: bool,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[LogPiece]:
    """Yield the output of applications, each part once.

    Parameters
    ----------
    query
        Chooses a run, a component or a stream, as of ``GET /v1/applications/{id}/logs``.
    follow
        Whether to continue until all of them have ended.
    pause
        Waits some seconds before the next look.
    """
    ids = list(applications)
    ends: dict[tuple[str, str], int] = {}
    while True:
        # The state is read first: what is written before the end is then seen after it.
        is_over = not follow or all(
            call("GET", entry_path(APPLICATIONS, one), None, None)["state"] in OVER for one in ids
        )
        is_new = False
        for id_ in ids:
            for piece in _new_pieces(call, id_, query, ends):
                is_new = True
                yield piece
        if is_over and not is_new:
            return
        if not is_new:
            pause(LOOK_S)


def _new_pieces(
    call: Call, id_: str, query: Mapping[str, object], ends: dict[tuple[str, str], int]
) -> Iterator[LogPiece]:
    """Yield the output of an application after `ends`, by run and stream, and advance those."""
    path = f"{entry_path(APPLICATIONS, id_)}/logs"
    found = call("GET", path, None, {**query, "limit": 0})
    if found["detail"] and not found["logs"]:
        raise SettingError(f"{id_}: {found['detail']}")
    for log in found["logs"]:
        key = (log["run"], log["stream"])
        while ends.get(key, 0) < log["size"]:
            after = ends.get(key, 0)
            more = {"run": log["run"], "stream": log["stream"], "after": after}
            pieces = call("GET", path, None, more)["logs"]
            if not pieces:  # its run is no longer kept
                break
            piece = pieces[0]
            ends[key] = piece["end"] if piece["text"] else log["size"]
            source = {name: log.get(name) for name in _SOURCE}  # older servers name no task
            skipped = max(piece["start"] - after, 0)
            yield LogPiece(application=id_, **source, text=piece["text"], skipped=skipped)
