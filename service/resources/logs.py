"""The logs of an application's components."""

from __future__ import annotations

from typing import Annotated, Final

from dispatch.backends.run_records import LOG_BYTES, STREAMS
from dispatch.backends.slurm.control.settings import SlurmSettings, read_settings
from dispatch.backends.slurm.job_logs import logs_of
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
    run: Annotated[str, doc("Id of the run; on a Slurm the number of its job.")]
    component: str
    index: Count
    machine: str
    state: Annotated[str, doc("Of the run; empty on a Slurm.")]
    code: Annotated[int | None, doc("Exit code of the run; null on a Slurm.")]
    stream: Annotated[str, one_of(STREAMS)]
    start: Annotated[Count, doc("Offset of `text` in the stream, bytes.")]
    end: Annotated[Count, doc("Offset of the end of `text`: send it as `after`.")]
    size: Annotated[Count, doc("Number of stored bytes.")]
    text: Annotated[str, doc("As UTF-8; invalid bytes become U+FFFD.")]


class LogList(Answer):
    logs: Annotated[list[LogView], doc("By run, oldest first; empty streams are omitted.")]
    detail: Annotated[str, doc("Reason why there are no logs, if none are kept on this server.")]


calls = Calls()


@calls.get("/v1/applications/{id}/logs", "The logs.", fails=(Code.MALFORMED, "not_found"))
def get_logs(runtime: Runtime, id_: str, query: LogQuery) -> LogList:
    """What the components of an application wrote: the newest mebibyte of each stream."""
    own_application(runtime, id_)
    if runtime.config.slurm is not None:
        return _slurm_logs(read_settings(runtime.config.slurm), id_, query)
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
    detail = "components run in memory only, and write nothing"
    return LogList(logs=logs, detail="" if runtime.config.executors else detail)


def _slurm_logs(settings: SlurmSettings, execution: str, query: LogQuery) -> LogList:
    """Return what the jobs of an application wrote to the folder of logs."""
    logs: list[LogView] = []
    left = _MOST_LOGS
    for log in logs_of(settings, execution):
        chosen = (query.component, query.run, query.stream)
        found = (log.component, log.job, log.stream)
        if any(one not in (None, other) for one, other in zip(chosen, found, strict=True)):
            continue
        start, piece = log.read(query.after, min(query.limit, left))
        body = _whole_characters(piece, start + len(piece) < log.size)
        left -= len(body)
        logs.append(
            LogView(
                run=log.job,
                component=log.component,
                index=log.index,
                machine=log.machine,
                state="",
                code=None,
                stream=log.stream,
                start=start,
                end=start + len(body),
                size=log.size,
                text=body.decode(errors="replace"),
            )
        )
    no_folder = "components are jobs of a Slurm whose settings have no folder for logs"
    return LogList(logs=logs, detail="" if settings.logs else no_folder)


def _whole_characters(body: bytes, more: bool) -> bytes:
    """Return bytes without an incomplete character at the end, if more bytes follow."""
    for back in range(1, min(4, len(body)) + 1 if more else 0):
        if body[-back] & 0xC0 == 0xC0:  # the first byte of a multi-byte character
            return body[:-back] if back < len(body) else body
        if body[-back] < 0x80:
            break
    return body
