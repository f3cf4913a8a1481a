"""How many machines a workload needs: `agenda size`, and `agenda compare --machines`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from service.cli.kit.commands import ALL_FORMS, Answer, Table, server_command
from service.cli.kit.errors import DONE, ERROR, REFUSED, STOPPED, as_cli_error
from service.cli.kit.options import (
    READABLE,
    WRITABLE,
    duration,
    planning_agent,
    seed_option,
)
from service.cli.kit.progress import make_ready, running
from service.sentences import counted

if TYPE_CHECKING:
    from planner.cluster.cluster import Cluster
    from planner.files.workload_file import WorkloadLine
    from planner.workload.sizing import Counted, Sizing, TriedSize


def _table(names: str) -> Table:
    return Table(
        names,
        "",
        {"requests_share": "% of requests", "work": "core-hours", "work_share": "% of work"},
        groups=lambda one: ", ".join(f"{count} {name}" for name, count in one["groups"].items()),
        work=lambda one: f"{one['work_core_hours']:,.1f}",
        requests_share=lambda one: f"{100 * one['requests_share']:.1f}",
        work_share=lambda one: f"{100 * one['work_share']:.1f}",
    )


_SIZES: Final = _table("machines groups accepted requests requests_share work work_share")

#: The same by agent.
_COMPARED: Final = _table("agent machines groups accepted requests requests_share work work_share")


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


def machine_counts(
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
        raise click.BadParameter(f"{value!r}: write numbers of machines of at least 1: 8,12,16")
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
        help="Target share, such as 99%.  [default: 99%]",
    ),
    click.option(
        "--of",
        "counted",
        type=click.Choice(("work", "requests")),
        default="work",
        show_default=True,
        help="Whether the share counts core-hours or requests.",
    ),
    click.option(
        "--group",
        metavar="NAME",
        help="Change this machine group only.  [default: all, by one factor]",
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

    Plans the whole workload on more and on fewer machines, and prints each size with its
    acceptance. Exits with 3 if no size accepts the target. The first ^C keeps the least size found
    so far.
    """
    from planner.agents import agent_named
    from planner.workload.sizing import size_cluster
    from service.cli.plan import limits_of

    target, picture = options["target"] or 0.99, options["picture"]
    if picture is not None:
        from service.pictures.style import check_picture_path

        check_picture_path(picture)
    described, lines = _read(cluster, workload, options["group"])
    agent = agent_named(options["agent"])
    make_ready()
    with running(f"sizing with {options['agent']}") as run:

        def report(one: TriedSize) -> None:
            run.say(f"{_machines(one.total)} can accept {one.share(options['counted']):.1%}")

        sizing = size_cluster(
            described,
            lines,
            agent,
            target,
            counted=options["counted"],
            group=options["group"],
            limits=limits_of(run, time_limit, seed),
            report=report,
        )
    return _answer(sizing, target, options["counted"], picture)


def compare_sizes(
    files: tuple[Path, Path],
    counts: tuple[int, ...],
    group: str | None,
    limits: Mapping[str, tuple[int | None, int]],
    html: Path | None,
) -> Answer:
    """Return the acceptance of each agent on each number of machines, as one table.

    If an agent fails, the reason is printed to standard error and the others continue.

    Parameters
    ----------
    files
        Cluster and workload.
    group
        The machine group that changes; None scales all by one factor.
    limits
        By agent: its time limit for each size in milliseconds (None: no limit), and its seed.
    html
        File that the table is also written to, as a page; None: no file.
    """
    from planner.agents import agent_named
    from planner.workload.sizing import try_sizes
    from service.cli.plan import limits_of

    described, lines = _read(*files, group)
    make_ready()
    rows: list[dict[str, Any]] = []
    broken: list[str] = []
    is_stopped = False
    with running("comparing numbers of machines") as run:
        for name, (time_limit, seed) in limits.items():

            def report(one: TriedSize, name: str = name) -> None:
                run.say(f"{name}: {one.total:,} machines accept {one.share('work'):.1%}")

            agent = agent_named(name)
            try:
                tried = try_sizes(
                    described,
                    lines,
                    agent,
                    counts,
                    group=group,
                    limits=limits_of(run, time_limit, seed),
                    report=report,
                )
            except Exception as error:  # noqa: BLE001 - the others' answers must not be lost
                broken.append(f"{name}: the agent failed: {type(error).__name__}: {error}")
                continue
            is_stopped = is_stopped or len(tried) < len(set(counts))
            rows += ({"agent": name, **one.to_json()} for one in tried)

    for line in broken:
        click.echo(line, err=True)

    def write_page() -> None:
        if html is not None:
            from service.pictures.report import page_html, table_html

            header = [column.label or column.name for column in _COMPARED.columns]
            table = table_html(header, [_COMPARED.row(one) for one in rows])
            page = page_html(f"{files[1].name} on {files[0].name}", [("By machines", table)])
            with as_cli_error(str(html)):
                html.write_text(page, encoding="utf-8")

    return Answer(
        {"sizes": rows},
        lambda: _COMPARED.print(rows),
        lambda: _COMPARED.print_csv(rows),
        STOPPED if is_stopped else DONE if rows else ERROR,
        write_page,
    )


def _read(cluster: Path, workload: Path, group: str | None) -> tuple[Cluster, list[WorkloadLine]]:
    """Return the cluster and the requests that are planned on different numbers of machines."""
    from planner.files import read_cluster
    from planner.files.errors import FileProblems
    from service.cli.workload_input import (
        lines_in,
        read_raw,
        report_lending,
        report_lines,
        with_calendar,
    )

    raw = read_raw(workload)
    described = with_calendar(read_cluster(cluster), raw)
    names = [one.name for one in described.machines]
    if group is not None and group not in names:
        raise click.BadParameter(f"{group!r} is none of {', '.join(names)}", param_hint="--group")
    bad = FileProblems()
    lines = list(lines_in(workload, raw, described.origin, bad.append))
    report_lines(workload, bad)
    report_lending(described)
    return described, lines


def _answer(sizing: Sizing, target: float, of: Counted, picture: Path | None) -> Answer:
    rows = [one.to_json() for one in sizing.tried]
    found = None if sizing.found is None else sizing.found.to_json()
    body = {
        "tried": rows,
        "target": target,
        "of": of,
        "found": found,
        "complete": sizing.is_complete,
    }

    def after() -> None:
        if picture is not None and sizing.tried:
            _draw(sizing.tried, target, of, picture)

    def text() -> None:
        _SIZES.print(rows)
        click.echo(f"\n{_sentence(sizing, target, of)}")

    code = DONE if found is not None else REFUSED if sizing.is_complete else STOPPED
    return Answer(body, text, lambda: _SIZES.print_csv(rows), code, after)


def _machines(count: int) -> str:
    return counted(count, "machine")


def _sentence(sizing: Sizing, target: float, of: str) -> str:
    if sizing.found is None:
        end = "" if sizing.is_complete else "; the search was stopped early"
        said = f"no size tried accepts {100 * target:g} % of the {of}{end}"
        if not sizing.tried:
            return said
        most = sizing.tried[-1]
        causes = ", ".join(f"{count:,} {code}" for code, count in most.refused.items())
        return f"{said}; {_machines(most.total)} would refuse {causes}"
    groups = ", ".join(f"{count} {name}" for name, count in sizing.found.machines.items())
    fewest = "the fewest found" if sizing.is_complete else "the fewest so far; stopped"
    share = sizing.found.share("work" if of == "work" else "requests")
    return (
        f"{_machines(sizing.found.total)} ({groups}) can accept {100 * share:.1f} % of the {of}, "
        f"{100 * target:g} % were requested: {fewest}"
    )


def _draw(tried: tuple[TriedSize, ...], target: float, of: Counted, picture: Path) -> None:
    from service.pictures.experiments import ExperimentPanel, PanelSeries, write_panels

    x = [float(one.total) for one in tried]
    series = [
        PanelSeries(name, x, [100 * one.share(name) for one in tried])
        for name in (of, "requests" if of == "work" else "work")
    ]
    panel = ExperimentPanel("accepted", "machines", "% accepted", series, claimed=100 * target)
    write_panels("Acceptance by number of machines", [panel], picture)
