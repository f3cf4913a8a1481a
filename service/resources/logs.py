"""The logs of an application's components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, Final

from dispatch.backends.run_records import LOG_BYTES, STREAMS
from dispatch.backends.slurm.control.settings import SlurmSettings, read_settings
from dispatch.backends.slurm.job_logs import logs_of
from planner.placement import Code
from service.http.kinds import Id, Word, choice, integer
from service.http.kit import Answer, Calls, Count, Input, OpenAnswer, doc, one_of
from service.resources.applications import own_application
from service.runtime import Runtime
from service.store import ApplicationRow
from service.store.runs import RunRows

#: The most bytes of logs in an answer; the client requests the rest.
_MOST_LOGS: Final = 4 * LOG_BYTES


class LogQuery(Input):
    component: Annotated[Word | None, doc("Only of this component.")] = None
    run: Annotated[Id | None, doc("Only of this run.")] = None
    stream: Annotated[str | None, choice(STREAMS), doc("Only this stream.")] = None
    after: Annotated[int, integer(0, 2**53), doc("Skip this many bytes of each stream.")] = 0
    limit: Annotated[int, integer(0, LOG_BYTES), doc("Maximum number of bytes of each stream.")] = (
        65_536
    )


class LogView(OpenAnswer, kw_only=True):
    run: Annotated[str, doc("Id of the run; on a Slurm the number of its job, or its pod.")]
    component: str
    index: Count
    task: Annotated[int | None, doc("The task that it ran, of an application that has tasks.")]
    machine: str
    state: Annotated[str, doc("Of the run; empty on Slurm and Kubernetes.")]
    code: Annotated[int | None, doc("Exit code of the run; null on Slurm and Kubernetes.")]
    stream: Annotated[str, one_of(STREAMS)]
    start: Annotated[
        Count,
        doc("Offset of `text` in the stream, bytes; 0 after its node rotated it."),
    ]
    end: Annotated[Count, doc("Offset of the end of `text`: send it as `after`.")]
    size: Annotated[Count, doc("Number of stored bytes; on Kubernetes of those read.")]
    text: Annotated[str, doc("As UTF-8; invalid bytes become U+FFFD.")]


class LogList(Answer):
    logs: Annotated[list[LogView], doc("By run, oldest first; empty streams are omitted.")]
    detail: Annotated[str, doc("Reason why there are no logs, if none are kept on this server.")]


calls = Calls()


@calls.get("/v1/applications/{id}/logs", "The logs.", fails=(Code.MALFORMED, "not_found"))
def get_logs(runtime: Runtime, id_: str, query: LogQuery) -> LogList:
    """The output of components: the newest mebibyte of each stream, or what its node keeps."""
    row = own_application(runtime, id_)
    streams: Iterable[_Stream]
    if runtime.config.slurm is not None:
        settings = read_settings(runtime.config.slurm)
        streams = _streams_of_jobs(settings, id_, query)
        has_logs = bool(settings.logs)
        why = "components are Slurm jobs, and the settings of Slurm name no folder for logs"
    elif runtime.config.kubernetes is not None:
        streams, why = _streams_of_pods(runtime.config.kubernetes, row, query)
        has_logs = not why
    else:
        streams = _streams_of_runs(runtime.dispatcher.runs, id_, query)
        has_logs = runtime.config.executors
        why = "components run in memory only, and write nothing"
    left = _MOST_LOGS
    logs: list[LogView] = []
    for one in streams:
        if query.stream not in (None, one.stream):
            continue
        start, piece = one.read(query.after, min(query.limit, left))
        body = _whole_characters(piece, start + len(piece) < one.size)
        left -= len(body)
        logs.append(
            LogView(
                run=one.run,
                component=one.component,
                index=one.index,
                task=one.task,
                machine=one.machine,
                state=one.state,
                code=one.code,
                stream=one.stream,
                start=start,
                end=start + len(body),
                size=one.size,
                text=body.decode(errors="replace"),
            )
        )
    return LogList(logs=logs, detail="" if has_logs else why)


@dataclass(frozen=True, slots=True)
class _Stream:
    """What one run, one job of a Slurm or one pod wrote to one stream.

    Attributes
    ----------
    read
        Returns where a piece from an offset on begins, and at most so many bytes of it.
    """

    run: str
    component: str
    index: int
    machine: str
    stream: str
    size: int
    read: Callable[[int, int], tuple[int, bytes]]
    state: str = ""
    code: int | None = None
    task: int | None = None


def _streams_of_runs(store: RunRows, execution: str, query: LogQuery) -> Iterator[_Stream]:
    """Yield the stored streams of runs on executors, by run."""
    runs = store.of_execution(execution, component=query.component, id=query.run)
    extents = store.log_extents(run.id for run in runs)
    for run, stream in product(runs, STREAMS):
        extent = extents.get((run.id, stream))
        if extent is not None:
            yield _Stream(
                run.id, run.component, run.number, run.machine, stream, extent.end,
                partial(store.log, run.id, stream), run.state.value, run.code,
                run.task,
            )  # fmt: skip


def _streams_of_jobs(settings: SlurmSettings, execution: str, query: LogQuery) -> Iterator[_Stream]:
    """Yield the files that the jobs of an application wrote to the folder of logs, by job."""
    for log in logs_of(settings, execution):
        if query.component in (None, log.component) and query.run in (None, log.job):
            yield _Stream(
                log.job, log.component, log.index, log.machine, log.stream, log.size, log.read
            )


def _streams_of_pods(
    source: str, row: ApplicationRow, query: LogQuery
) -> tuple[list[_Stream], str]:
    """Return what pods wrote, both streams as one, and why some is missing; empty if none is."""
    from dispatch.backends.kubernetes.api import KubernetesApi, KubernetesError
    from dispatch.backends.kubernetes.components import logs_of

    found: list[_Stream] = []
    most = query.after + query.limit + 4  # and the rest of a character
    try:
        api = KubernetesApi(source)
        for log in logs_of(api, row.tenant, row.id):
            if query.component in (None, log.key[1]) and query.run in (None, log.pod):
                body = log.read(api, most)
                found.append(
                    _Stream(
                        log.pod, log.key[1], log.key[2], log.machine, STREAMS[0], len(body),
                        partial(_piece_of, body),
                    )
                )  # fmt: skip
    except KubernetesError as error:
        return found, f"Kubernetes does not show all of them: {error}"
    return found, ""


def _piece_of(body: bytes, after: int, limit: int) -> tuple[int, bytes]:
    start = after if after <= len(body) else 0  # its node has begun another file
    return start, body[start : start + limit]


def _whole_characters(body: bytes, more: bool) -> bytes:
    """Return bytes without an incomplete character at the end, if more bytes follow."""
    for back in range(1, min(4, len(body)) + 1 if more else 0):
        if body[-back] & 0xC0 == 0xC0:  # the first byte of a multi-byte character
            return body[:-back] if back < len(body) else body
        if body[-back] < 0x80:
            break
    return body
