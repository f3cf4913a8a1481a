"""The logs of an application's components."""

from __future__ import annotations

from typing import Annotated, Final

from dispatch.backends.run_records import LOG_BYTES, STREAMS
from planner.placement import Code
from service.http.kinds import Id, Word, choice, integer
from service.http.kit import Answer, Calls, Count, Input, OpenAnswer, doc, one_of
from service.resources.applications import own_application
from service.runtime import Runtime

#: The most bytes of logs in an answer; the client requests the rest.
_MOST_LOGS: Final = 4 * LOG_BYTES


class LogQuery(Input):
    component: Annotated[Word | None, doc("Only of this component.")] = None
    run: Annotated[Id | None, doc("Only of this run.")] = None
    stream: Annotated[str | None, choice(STREAMS), doc("Only this stream.")] = None
    after: Annotated[
        int, integer(0, 2**53), doc("Only what follows so many bytes of each stream.")
    ] = 0
    limit: Annotated[int, integer(0, LOG_BYTES), doc("Most bytes of each stream.")] = 65_536


class LogView(OpenAnswer, kw_only=True):
    run: str
    component: str
    index: Count
    machine: str
    state: str
    code: Annotated[int | None, doc("Exit code of the run.")]
    stream: Annotated[str, one_of(STREAMS)]
    start: Annotated[Count, doc("Offset of `text` in the stream, bytes.")]
    end: Annotated[Count, doc("Offset of the end of `text`: send it as `after`.")]
    size: Annotated[Count, doc("Number of stored bytes.")]
    text: Annotated[str, doc("As UTF-8; invalid bytes become U+FFFD.")]


class LogList(Answer):
    logs: Annotated[list[LogView], doc("By run, oldest first; empty streams are omitted.")]
    detail: Annotated[
        str, doc("Reason why there are no logs, if the application does not run on executors.")
    ]


calls = Calls()


@calls.get("/v1/applications/{id}/logs", "The logs.", fails=(Code.MALFORMED, "not_found"))
def get_logs(runtime: Runtime, id_: str, query: LogQuery) -> LogList:
    """What the components of an application wrote: the newest mebibyte of each stream."""
    own_application(runtime, id_)
    store = runtime.dispatcher.runs
    chosen = [
        run
        for run in store.of_execution(id_)
        if query.component in (None, run.component) and query.run in (None, run.id)
    ]
    extents = store.log_extents(run.id for run in chosen)
    logs: list[LogView] = []
    left = _MOST_LOGS
    for run in chosen:
        for stream in STREAMS if query.stream is None else (query.stream,):
            extent = extents.get((run.id, stream))
            if extent is None:
                continue
            piece = store.log(run.id, stream, query.after, min(query.limit, left))
            body = _whole_characters(piece.body, piece.start + len(piece.body) < extent.end)
            left -= len(body)
            logs.append(
                LogView(
                    run=run.id,
                    component=run.component,
                    index=run.number,
                    machine=run.machine,
                    state=run.state.value,
                    code=run.code,
                    stream=stream,
                    start=piece.start,
                    end=piece.start + len(body),
                    size=extent.end,
                    text=body.decode(errors="replace"),
                )
            )
    return LogList(logs=logs, detail="" if runtime.config.executors else _no_logs(runtime))


def _whole_characters(body: bytes, more: bool) -> bytes:
    """Return bytes without an incomplete character at the end, if more bytes follow."""
    for back in range(1, min(4, len(body)) + 1 if more else 0):
        if body[-back] & 0xC0 == 0xC0:  # the first byte of a multi-byte character
            return body[:-back] if back < len(body) else body
        if body[-back] < 0x80:
            break
    return body


def _no_logs(runtime: Runtime) -> str:
    if runtime.config.slurm is not None:
        return "components are jobs of a Slurm, which writes their output where its files say"
    return "components run in memory only, and write nothing"
