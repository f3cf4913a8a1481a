"""`agenda demo`: a real server on loopback, the example day posted to it, the result shown."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from service.cli.client.server import Server, ServerReply
from service.cli.client.server_process import free_port, run_server
from service.cli.plans.plan_tables import METRIC_COLUMNS, metric_rows, refusal_rows
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import WRITABLE
from service.cli.terminal.output import print_table
from service.cli.terminal.progress import running
from service.temporary_folders import hold_folder, remove_left_folders

_ANSWER_WITHIN_S: Final = 600.0
_DOWN_WITHIN_S: Final = 40.0
_BUSY: Final = 503

#: How temporary folders are called, and how long one that was made earlier is kept at least.
_PREFIX: Final = "agenda-demo-"
_KEPT_S: Final = 86_400.0


@click.command()
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for database, picture and log.  [default: a new temporary one, which the next "
    "demo removes once it is a day old]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the server; 0 takes a free one.",
)
@click.option(
    "--picture",
    type=WRITABLE,
    help="Draw the skyline to this file, .svg or .png.  [default: demo.svg in the folder]",
)
@click.option(
    "--stay/--no-stay",
    default=True,
    envvar="STAY",
    show_envvar=True,
    help="Serve until ^C, or end when the day is shown (STAY=0).",
)
@click.option("--write-example", type=click.Path(file_okay=False, path_type=Path),
              help="Only write the example cluster and workload to this folder.")  # fmt: skip
@reports_errors
def demo(
    directory: Path | None,
    port: int,
    picture: Path | None,
    stay: bool,
    write_example: Path | None,
) -> int:
    """Start a server on loopback, submit a day of requests and show what it accepted."""
    from service.example_day import write_example_day
    from service.pictures.paths import check_picture_path

    if write_example is not None:
        for path in write_example_day(write_example):
            click.echo(path)
        return DONE
    if picture is not None:
        check_picture_path(picture)
    folder = _folder(directory)
    cluster, workload = write_example_day(folder)
    lines = [json.loads(line) for line in workload.read_text(encoding="utf-8").splitlines()]
    with _serving(folder, cluster, port or free_port()) as server:
        _show(server, lines, picture or folder / "demo.svg")
        click.echo(f"\nserver    {server.url}/docs")
        click.echo(f"database  {folder / 'agenda.db'}")
        if stay:
            click.echo("\n^C ends the server; what it promised stays in the database", err=True)
            _wait_for_interrupt()
    return DONE


def _folder(directory: Path | None) -> Path:
    if directory is None:
        remove_left_folders(_PREFIX, _KEPT_S)
        return hold_folder(_PREFIX)
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / "agenda.db").exists():
        raise CliError(
            f"{directory} holds a Plan already; serve it with "
            f"`agenda serve --database sqlite:///{directory / 'agenda.db'}`, or name another"
        )
    return directory


@contextmanager
def _serving(folder: Path, cluster: Path, port: int) -> Iterator[Server]:
    """Run `agenda serve` on a database in `folder`, up when the block begins, down after it."""
    command = [
        sys.executable, "-m", "service.cli.main", "serve", "--cluster", str(cluster),
        "--database", f"sqlite:///{folder.resolve() / 'agenda.db'}", "--port", str(port),
    ]  # fmt: skip
    with run_server(command, port, folder / "server.log") as process:
        try:
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            process.stop(_DOWN_WITHIN_S)


@dataclass(frozen=True, slots=True)
class _Posted:
    """What was said to each request, and the seconds each answer took."""

    replies: list[ServerReply]
    seconds: list[float]


def _show(server: Server, lines: Sequence[dict[str, Any]], picture: Path) -> None:
    """Post the day, then print what the server holds and draw it."""
    from service.cli.client.plan.export import served_plan
    from service.pictures.skyline import write_skyline

    posted = _post_day(server, lines)
    document = served_plan(server)
    write_skyline(document, [picture])
    print_table(METRIC_COLUMNS[:-1], [row[:-1] for row in metric_rows([document])])
    counts, _ = refusal_rows(document)
    if counts:
        click.echo()
        print_table(("refused", "code"), counts)
    times = sorted(posted.seconds)
    middle, slow = times[len(times) // 2], times[len(times) * 99 // 100]
    click.echo(
        f"\n{len(times)} requests asked one by one over HTTP, each answer on disk: "
        f"{len(times) / sum(times):,.0f} a second, median {middle * 1000:.1f} ms, "
        f"99 % within {slow * 1000:.1f} ms"
    )
    click.echo(f"picture   {picture}")


def _post_day(server: Server, lines: Sequence[dict[str, Any]]) -> _Posted:
    """Post each request as a client would; the server's clock is when it is submitted."""
    posted = _Posted([], [])
    with running("asking for reservations") as run:
        for number, line in enumerate(lines, start=1):
            body = {name: value for name, value in line.items() if name != "submitted"}
            began = time.perf_counter()
            reply = _post_until_answered(server, body)
            posted.seconds.append(time.perf_counter() - began)
            posted.replies.append(reply)
            run.progress(number, len(lines))
            if run.stop():
                break
    return posted


def _post_until_answered(server: Server, body: dict[str, Any]) -> ServerReply:
    """Post one request until it is answered: a server that still compiles says 503."""
    deadline = time.monotonic() + _ANSWER_WITHIN_S
    while True:
        reply = server.call("POST", "/v1/reservations", body)
        if reply.status != _BUSY or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    if reply.status not in (200, 201, 409, 422):
        raise CliError(f"{body['id']}: {reply.problem()}")
    return reply


def _wait_for_interrupt() -> None:
    try:
        signal.pause()
    except KeyboardInterrupt:
        return
