"""`agenda demo`: a real server on loopback, a day posted to it and played, the result shown."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any, Final

import click

from service.cli.client.server import Server
from service.cli.client.server_process import free_port, is_free
from service.cli.plans.plan_tables import METRIC_COLUMNS, metric_rows, refusal_rows
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import WRITABLE
from service.cli.terminal.output import print_table, print_title
from service.host.temporary_folders import hold_folder, remove_left_folders

#: How temporary folders are called, and how long one that was made earlier is kept at least.
_PREFIX: Final = "agenda-demo-"
_KEPT_S: Final = 86_400.0

#: The port that clients ask where they are told no other.
_USUAL_PORT: Final = 8080


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
    default=None,
    help="Port of the server; 0 takes a free one.  [default: 8080, or a free one where that is "
    "taken]",
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
    port: int | None,
    picture: Path | None,
    stay: bool,
    write_example: Path | None,
) -> int:
    """Serve a cluster on loopback, submit a day of requests, and play a part of that day.

    Time goes some hundred times as fast. Work runs as processes of this machine, a refused request
    takes an offer, a rack is lost and repaired, and a better Plan is found and applied.
    """
    from service.example_day import write_example_day
    from service.pictures.paths import check_picture_path

    if write_example is not None:
        for path in write_example_day(write_example):
            click.echo(path)
        return DONE
    if picture is not None:
        check_picture_path(picture)
    folder = _folder(directory)
    _, workload = write_example_day(folder)
    lines = [json.loads(line) for line in workload.read_text(encoding="utf-8").splitlines()]
    _play(folder, _port(port), lines, picture or folder / "demo.svg", stay=stay)
    return DONE


def _play(
    folder: Path, port: int, lines: list[dict[str, Any]], picture: Path, *, stay: bool
) -> None:
    """Serve, post the day, play the scenes, show the result and what to try next."""
    from service.cli.client.demo.day_clock import DayClock
    from service.cli.client.demo.next_commands import next_commands
    from service.cli.client.demo.posting import post_day
    from service.cli.client.demo.scenes import play_scenes
    from service.cli.client.demo.serving import racks, serving
    from service.cli.client.demo.stage import DemoStage
    from service.pictures.skyline import load_drawing

    clock = DayClock(folder)
    click.echo(f"cluster   {folder / 'cluster.toml'}")
    click.echo(f"day       {folder / 'workload.jsonl'}: {len(lines)} requests")
    with serving(folder, port) as server, racks(server, folder) as found:
        stage = DemoStage(server, found, clock, folder / "server.log")
        click.echo(f"page      {server.url}/ui/  (the day as it passes)\n")
        stage.tell(f"{len(lines)} clients ask for reservations of this day")
        posted = post_day(server, lines)
        stage.tell(posted.counts())
        threading.Thread(target=load_drawing, name="agenda-drawing", daemon=True).start()
        play_scenes(stage)
        _show_result(server, picture)
        click.echo(f"\n{posted.pace()}")
        click.echo(f"picture   {picture}")
        click.echo(f"page      {server.url}/ui/")
        click.echo(f"calls     {server.url}/docs")
        click.echo(f"database  {folder / 'agenda.db'}\n")
        click.echo(next_commands(folder, server.url if stay else None))
        if stay:
            click.echo("\n^C ends the server; what it promised stays in the database", err=True)
            _wait_for_interrupt()


def _show_result(server: Server, picture: Path) -> None:
    """Print what the server holds, and draw it."""
    from service.cli.client.plan.export import served_plan
    from service.pictures.skyline import write_skyline

    document = served_plan(server)
    write_skyline(document, [picture])
    click.echo()
    columns = [METRIC_COLUMNS.index(name) for name in _SHOWN]
    rows = [[row[index] for index in columns] for row in metric_rows([document])]
    print_title("acceptance: accepted value of the value asked, not of the number of requests")
    print_table(_SHOWN, rows)
    counts, _ = refusal_rows(document)
    if counts:
        click.echo()
        print_table(("refused", "code"), counts)


#: Metrics that say something of a Plan that nobody made in one run.
_SHOWN: Final = ("agent", "accepted", "requests", "acceptance", "value", "uniformity")


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


def _port(given: int | None) -> int:
    if given is None and is_free(_USUAL_PORT):
        return _USUAL_PORT
    return given or free_port()


def _wait_for_interrupt() -> None:
    try:
        signal.pause()
    except KeyboardInterrupt:
        return
