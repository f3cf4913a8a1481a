"""`agenda demo`: run a real server on loopback, submit and play a day, show the result."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Final

import click

from agenda.connection import DEFAULT_URL
from service.cli.demo_stage import DemoStage
from service.cli.demo_work import Work, begin_work, end_work, play_nights, work_on
from service.cli.kit.errors import DONE, CliError, reports_errors
from service.cli.kit.options import WRITABLE
from service.cli.kit.output import print_table, print_title
from service.cli.kit.progress import running
from service.cli.kit.server import Server, ServerReply
from service.cli.plan_tables import METRIC_COLUMNS, metric_rows, refusal_rows
from service.cli.server_process import free_port, is_free
from service.host.processes import hold_folder, remove_left_folders

#: An example of the user's own request: ten cores for an hour, any time before evening.
_REQUEST: Final = (
    "window(atom(<1 cpu, 2 GiB memory>, min=1, max=10, lease=10m, work=10h), +0, +8h)\n"
)


def next_commands(folder: Path, server: str | None) -> str:
    """Return the next commands to try, with what each shows.

    Parameters
    ----------
    folder
        The demo's folder; an example request is written into it.
    server
        URL of the server; None if it has ended.
    """
    agenda = _agenda()
    if server is None:
        cluster, workload = (
            quote(str(folder / "cluster.toml")),
            quote(str(folder / "workload.jsonl")),
        )
        plan = quote(str(folder / "plan.json"))
        lines = [
            ("the same again, and the server stays", f"{agenda} demo"),
            ("the same day planned from files", f"{agenda} plan {cluster} {workload} --out {plan}"),
            ("that plan, checked independently", f"{agenda} validate {plan}"),
        ]
    else:
        request = folder / "mine.rdl"
        request.write_text(_REQUEST, encoding="utf-8")
        at = "" if server == DEFAULT_URL else f" --server {server}"
        lines = [
            ("submit a request of your own",
             f"{agenda} submit {quote(str(request))} --id mine --queue batch{at}"),
            ("why it has these times and machines", f"{agenda} reservations show mine{at}"),
            ("what the second night's pipeline wrote", f"{agenda} logs nightly --run 1{at}"),
            ("what the loss of four machines would affect",
             f"{agenda} outages add standard --count 4 --end +2h --dry-run{at}"),
        ]  # fmt: skip
    return "next, in another shell:\n" + "\n".join(
        f"  # {said}\n  {command}" for said, command in lines
    )


def _agenda() -> str:
    """Return the command that starts this `agenda` in this shell."""
    here = Path(sys.argv[0])
    if here.name != "agenda":
        return f"{quote(sys.executable)} -m service.cli.main"
    found = shutil.which("agenda")
    if found is not None and Path(found).resolve() == here.resolve():
        return "agenda"
    near = here.absolute()
    return quote(
        str(near.relative_to(Path.cwd())) if near.is_relative_to(Path.cwd()) else str(near)
    )


_ANSWER_WITHIN_S: Final = 600.0
_BUSY: Final = 503


@dataclass(frozen=True, slots=True)
class DayAnswers:
    """The answer to each request, and the seconds each answer took."""

    replies: list[ServerReply]
    seconds: list[float]

    def counts(self) -> str:
        """Return how many requests were promised and refused, as text."""
        promised = sum(reply.ok for reply in self.replies)
        return f"{promised} promised, {len(self.replies) - promised} refused"

    def pace(self) -> str:
        """Return how fast the server answered, as text."""
        times = sorted(self.seconds)
        middle, slow = times[len(times) // 2], times[len(times) * 99 // 100]
        return (
            f"{len(times)} requests asked one by one over HTTP, each answer on disk: "
            f"{len(times) / sum(times):,.0f} a second, median {middle * 1000:.1f} ms, "
            f"99 % within {slow * 1000:.1f} ms"
        )


def post_day(server: Server, lines: Sequence[dict[str, Any]]) -> DayAnswers:
    """Post each request as a client would; the server's clock gives its submission time.

    Raises
    ------
    click.Abort
        After ^C: the scenes would wait forever for requests that were not submitted.
    """
    posted = DayAnswers([], [])
    with running("asking for reservations") as run:
        for number, line in enumerate(lines, start=1):
            body = {name: value for name, value in line.items() if name != "submitted"}
            began = time.perf_counter()
            reply = _post_until_answered(server, body)
            posted.seconds.append(time.perf_counter() - began)
            posted.replies.append(reply)
            run.progress(number, len(lines))
            if run.stop():
                raise click.Abort
    return posted


def _post_until_answered(server: Server, body: dict[str, Any]) -> ServerReply:
    """Post one request until it is answered; a server that still compiles answers 503."""
    deadline = time.monotonic() + _ANSWER_WITHIN_S
    while True:
        reply = server.call("POST", "/v1/reservations", body)
        if reply.status != _BUSY or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    if reply.status not in (200, 201, 409, 422):
        raise CliError(f"{body['id']}: {reply.problem()}", reply.exit_code)
    return reply


#: What may happen to a reservation when machines fail or return, as text for the user.
_LOSS_FATES: Final = {
    "relocated": "keep their times on other machines",
    "moved": "move in time",
    "degraded": "get less than was promised",
    "restored": "have all again",
    "regained": "have more again",
    "failed": "are lost",
}

#: The most changes that are read.
_MOST: Final = 1000

#: Speeds of the demo's clock while a scene waits, and afterwards.
_SLOW: Final = 30.0
_FAST: Final = 900.0


def lose_a_rack(stage: DemoStage) -> None:
    """Lose the rack that runs the work, show how promises and work move, and bring it back."""
    work = begin_work(stage, "primes-again")
    stage.clock.go(_SLOW)
    before, rack = stage.version(), work.rack
    outages = [
        stage.lose(group, names, f"{rack.name} has no power")
        for group, names in rack.groups.items()
    ]
    found = stage.seen("the outcome of promises", lambda: _fates(stage, before))
    stage.tell(f"{rack.name} ({len(rack.machines)} machines) is lost: of the promises of the day "
               f"{_loss_said(found)}")  # fmt: skip
    elsewhere = stage.seen("the work elsewhere", lambda: _elsewhere(stage, work))
    stage.tell(f"{work.id} begins again, on {elsewhere}")
    before = stage.version()
    for outage in outages:
        stage.repair(outage)
    stage.tell(f"{rack.name} is repaired, and its machines can be promised again")
    stage.clock.go(_FAST)
    end_work(stage, work)
    if found := _fates(stage, before):
        stage.tell(f"with the machines that are back, {_loss_said(found)}")


def _elsewhere(stage: DemoStage, work: Work) -> str | None:
    """Return a machine of another rack on which the work runs or has run."""
    runs = stage.get(f"/v1/applications/{work.id}/runs")["runs"]
    machines = {run["machine"] for run in runs}
    return next(iter(sorted(machines.difference(work.rack.machines))), None)


def _fates(stage: DemoStage, before: int) -> Counter[str]:
    """Count the outcomes of reservations since a version of the Plan."""
    changes = stage.get("/v1/audit", limit=_MOST)["changes"]
    newer = [one for one in changes if (one["version"] or 0) > before]
    fates = ("relocated" if one["kind"] == "relocate" else one["detail"] for one in newer)
    return Counter(fate for fate in fates if fate in _LOSS_FATES)


def _loss_said(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[fate]} {said}" for fate, said in _LOSS_FATES.items() if counts[fate])


#: Speed of the demo's clock, seconds per second: a quarter of an hour. After the scenes it runs in
#: real time, so that the page still shows a day in progress hours later.
_SPEED: Final = 900.0
_AFTERWARDS: Final = 1.0

#: The busy hour of the day from which the clock runs in real time, and the speed until then.
_HOUR: Final = 9.05
_ON: Final = 3600.0

#: A gang of twenty whole machines, for twice as long as they are free before its deadline.
_WISH: Final = (
    "window(atom(<32 cpu, 64 GiB memory>, min=20, max=20, lease=2h, work=40h), +4h, +10h)"
)

#: How many offers are tried, each for the previous refusal.
_TIMES: Final = 3

_OFFERS: Final = {
    "deadline": "with a later deadline",
    "start": "with an earlier start",
    "option": "of its other options",
}

#: How many changes the search tries: it takes some seconds, and equal Plans give equal results.
_TRIALS: Final = 150

#: The outcomes of a request, as text for the user.
_FATES: Final = {
    "gained": "that were refused are promised",
    "restored": "have all again that was promised",
    "moved": "move",
}


def play_scenes(stage: DemoStage) -> None:
    """Play all scenes; afterwards the day continues in real time."""
    stage.clock.go(_SPEED)
    stage.tell(f"from now on the day passes {_SPEED:g} times as fast as yours")
    work = begin_work(stage, "primes")
    take_an_offer(stage)
    end_work(stage, work)
    lose_a_rack(stage)
    improve_the_plan(stage)
    play_nights(stage)
    stage.clock.go(_ON)
    stage.clock.wait_until(_HOUR)
    stage.clock.go(_AFTERWARDS)
    work_on(stage)


def take_an_offer(stage: DemoStage) -> None:
    """Submit a request that is too large, print the reason of the refusal, and take an offer."""
    body = {"id": "campaign", "tenant": "you", "queue": "batch", "rdl": _WISH}
    stage.tell("you request 20 whole machines for 2 h, between 4 and 10 hours from now")
    reply = stage.server.call("POST", "/v1/reservations", body)
    if reply.ok:
        stage.tell("campaign is promised")
        return
    for _ in range(_TIMES):  # time passes: other requests may take the capacity of an offer
        stage.tell(f"refused: {reply.body['detail']}")
        offers = reply.body.get("refusal", {}).get("offers", [])
        if not offers:
            return
        stage.tell(f"offered instead, {_said(offers[0])}: {offers[0]['request']['rdl']}")
        reply = stage.server.call("POST", "/v1/reservations", offers[0]["request"])
        if reply.status < 400:  # mypy assumes that "ok" still has its value from above
            break
    taken = reply.good()
    stage.tell(f"taken: campaign holds its machines from {_hour(taken['begin_at'])} "
               f"to {_hour(taken['finish_at'])}")  # fmt: skip


def _said(offer: dict[str, Any]) -> str:
    """Return what an offer changes, in a few words."""
    change = offer["change"]
    if change["kind"] == "size":
        return f"for {change['offered']:.0%} of the work"
    return _OFFERS.get(change["kind"], f"with another {change['kind']}")


def _hour(instant: str) -> str:
    return instant[11:16]


def improve_the_plan(stage: DemoStage) -> None:
    """Search for a Plan that also accepts refused requests, and apply it."""
    stage.clock.go(1.0)
    asked = {"admit_refused": True, "work": _TRIALS, "solver": "none", "frozen_until": "+10m"}
    stage.tell(f"a better Plan is looked for, in {_TRIALS} trials; no one may lose anything by it")
    id_ = stage.post("/v1/optimizations", asked)["id"]
    job: dict[str, Any] = stage.seen("a better Plan", lambda: _ended(stage, id_))
    found = job["result"]
    counts = {} if found is None else found["diff"]["counts"]
    if not any(counts.values()):
        stage.tell("none was found")
        return
    path = f"/v1/optimizations/{id_}/apply?partial=true"
    done = stage.server.call("POST", path).good()
    told = ", ".join(f"{counts[kind]} {said}" for kind, said in _FATES.items() if counts.get(kind))
    stage.tell(f"found and applied, version {done['version']} of the Plan: {told}")


def _ended(stage: DemoStage, id_: str) -> dict[str, Any] | None:
    job: dict[str, Any] = stage.get(f"/v1/optimizations/{id_}")
    return job if job["state"] not in ("waiting", "queued", "running") else None


#: Prefix of temporary folders, and how long an earlier one is kept at least.
_PREFIX: Final = "agenda-demo-"
_KEPT_S: Final = 86_400.0

#: The default port of clients.
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
              help="Only write the files of the example to this folder.")  # fmt: skip
@reports_errors
def demo(
    directory: Path | None,
    port: int | None,
    picture: Path | None,
    stay: bool,
    write_example: Path | None,
) -> int:
    """Serve a cluster on loopback, submit a day of requests, and play a part of that day.

    Time goes some hundred times as fast. Work runs as processes of this host, a refused request
    takes an offer, a rack is lost and repaired, a better Plan is found and applied, and a pipeline
    runs for three nights.
    """
    from service.example_day import write_example_day, write_nightly
    from service.pictures.style import check_picture_path

    if write_example is not None:
        for path in (*write_example_day(write_example), write_nightly(write_example)):
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
    """Serve, submit the day, play the scenes, and show the result and what to try next."""
    from service.cli.demo_stage import DayClock, DemoStage, serving
    from service.pictures.skyline import load_drawing

    clock = DayClock(folder)
    click.echo(f"cluster   {folder / 'cluster.toml'}")
    click.echo(f"day       {folder / 'workload.jsonl'}: {len(lines)} requests")
    with serving(folder, port) as server:
        stage = DemoStage(server, clock, folder)
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
    """Print the reservations and metrics of the server's Plan, and draw its skyline."""
    from service.cli.plan_files import served_plan
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


#: Metrics that are meaningful for a Plan that was not made in one run.
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
