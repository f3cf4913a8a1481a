"""`agenda size`: how many machines a workload needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from service.cli.kit.commands import ALL_FORMS, Answer, Table, server_command
from service.cli.kit.errors import DONE, REFUSED, STOPPED
from service.cli.kit.options import (
    READABLE,
    WRITABLE,
    duration,
    planning_agent,
    seed_option,
)
from service.cli.kit.progress import make_ready, running

if TYPE_CHECKING:
    from planner.workload.sizing import Counted, Sizing, TriedSize

_SIZES: Final = Table(
    "machines groups accepted requests requests_share work work_share",
    "",
    {"requests_share": "% of requests", "work": "core-hours", "work_share": "% of work"},
    groups=lambda one: ", ".join(f"{count} {name}" for name, count in one["groups"].items()),
    work=lambda one: f"{one['work_core_hours']:,.1f}",
    requests_share=lambda one: f"{100 * one['requests_share']:.1f}",
    work_share=lambda one: f"{100 * one['work_share']:.1f}",
)


def _share(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Return a share of ``99%`` or ``0.99``."""
    if value is None:
        return None
    text = value.strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise click.BadParameter(f"{value!r}: write a share above 0, at most 100%: 99% or 0.99")
    return share


def _counts(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> tuple[int, ...] | None:
    """Return numbers of machines of ``8,12,16``."""
    if value is None:
        return None
    try:
        counts = tuple(int(one) for one in value.split(","))
    except ValueError:
        counts = (0,)
    if min(counts) < 1:
        raise click.BadParameter(f"{value!r}: write numbers of machines from 1 on: 8,12,16")
    return counts


@server_command(
    None,
    "size",
    click.argument("cluster", type=READABLE),
    click.argument("workload", type=READABLE),
    click.option(
        "--target",
        callback=_share,
        metavar="SHARE",
        help="Share to accept, such as 99%.  [default: 99%]",
    ),
    click.option(
        "--of",
        "counted",
        type=click.Choice(("work", "requests")),
        default="work",
        show_default=True,
        help="What the share is of: core-hours, or requests, each with its deadline.",
    ),
    click.option(
        "--group",
        metavar="NAME",
        help="Change this machine group only.  [default: all, by one factor]",
    ),
    click.option(
        "--machines",
        callback=_counts,
        metavar="N,...",
        help="Try these numbers of machines instead of searching for the least.",
    ),
    planning_agent("Agent that plans the workload (agenda plan --help)."),
    click.option("--time-limit", type=duration, help="Stop the agent after this long, each time."),
    seed_option("the agent's random choices"),
    click.option(
        "--picture", type=WRITABLE, help="Draw the shares by machines to this file, .svg or .png."
    ),
    forms=ALL_FORMS,
    offline=True,
)
def size(
    cluster: Path, workload: Path, time_limit: int | None, seed: int, **options: Any
) -> Answer:
    """Find how many machines WORKLOAD needs, of the kinds that CLUSTER describes.

    Plans the whole workload on more and on fewer machines, and prints each size with what it
    accepts. Exits with 3 if no size accepts the target. The first ^C keeps the least size found so
    far.
    """
    from planner.agents import agent_named
    from planner.files import read_cluster
    from planner.files.errors import FileProblems
    from planner.workload.sizing import size_cluster, try_sizes
    from service.cli.plan import limits_of
    from service.cli.workload_input import lines_in, read_raw, report_lines, with_calendar

    target, counts, picture = options["target"], options["machines"], options["picture"]
    if target is not None and counts is not None:
        raise click.UsageError("give either --target or --machines")
    if picture is not None:
        from service.pictures.paths import check_picture_path

        check_picture_path(picture)
    raw = read_raw(workload)
    described = with_calendar(read_cluster(cluster), raw)
    group = options["group"]
    names = [one.name for one in described.machines]
    if group is not None and group not in names:
        raise click.BadParameter(f"{group!r} is none of {', '.join(names)}", param_hint="--group")
    bad = FileProblems()
    lines = list(lines_in(workload, raw, described.origin, bad.append))
    report_lines(workload, bad)
    agent = agent_named(options["agent"])
    make_ready()
    with running(f"sizing with {options['agent']}") as run:

        def report(one: TriedSize) -> None:
            run.say(f"{one.total:,} machines accept {one.share(options['counted']):.1%}")

        limits = limits_of(run, time_limit, seed)
        if counts is not None:
            tried = try_sizes(
                described, lines, agent, counts, group=group, limits=limits, report=report
            )
            return _answer(tried, picture)
        sizing = size_cluster(
            described,
            lines,
            agent,
            target or 0.99,
            counted=options["counted"],
            group=group,
            limits=limits,
            report=report,
        )
    return _answer(sizing.tried, picture, sizing, target or 0.99, options["counted"])


def _answer(
    tried: tuple[TriedSize, ...],
    picture: Path | None,
    sizing: Sizing | None = None,
    target: float | None = None,
    counted: Counted = "work",
) -> Answer:
    rows = [one.to_json() for one in tried]
    found = None if sizing is None or sizing.found is None else sizing.found.to_json()
    body: dict[str, Any] = {"tried": rows}
    if sizing is not None:
        body |= {"target": target, "of": counted, "found": found, "complete": sizing.is_complete}

    def after() -> None:
        if picture is not None and tried:
            _draw(tried, target, counted, picture)

    def text() -> None:
        _SIZES.print(rows)
        if sizing is not None:
            click.echo(f"\n{_sentence(sizing, float(target or 0), counted)}")

    if sizing is None or found is not None:
        code = DONE
    else:
        code = REFUSED if sizing.is_complete else STOPPED
    return Answer(body, text, lambda: _SIZES.print_csv(rows), code, after)


def _sentence(sizing: Sizing, target: float, counted: str) -> str:
    if sizing.found is None:
        end = "" if sizing.is_complete else "; the search was stopped"
        return f"no size tried accepts {target:.4g} of the {counted}{end}"
    groups = ", ".join(f"{count} {name}" for name, count in sizing.found.machines.items())
    fewest = "the fewest found" if sizing.is_complete else "the fewest so far; stopped"
    share = sizing.found.share("work" if counted == "work" else "requests")
    return (
        f"{sizing.found.total:,} machines ({groups}) accept {100 * share:.1f} % of the {counted}, "
        f"{100 * target:g} % were asked for: {fewest}"
    )


def _draw(
    tried: tuple[TriedSize, ...], target: float | None, counted: Counted, picture: Path
) -> None:
    from service.pictures.experiments import ExperimentPanel, PanelSeries, write_panels

    x = [float(one.total) for one in tried]
    series = [
        PanelSeries(name, x, [100 * one.share(name) for one in tried])
        for name in (counted, "requests" if counted == "work" else "work")
    ]
    claimed = None if target is None else 100 * target
    panel = ExperimentPanel("accepted", "machines", "% accepted", series, claimed=claimed)
    write_panels("What so many machines accept", [panel], picture)
