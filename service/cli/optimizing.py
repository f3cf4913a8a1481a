"""`agenda optimize` and `agenda optimizations`: a better Plan from a file, or of a server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from service.cli.kit.commands import (
    ALL_FORMS,
    Answer,
    Listing,
    Table,
    flag,
    given,
    id_of,
    server_command,
)
from service.cli.kit.errors import DONE, ERROR, REFUSED, CliError
from service.cli.kit.options import (
    READABLE,
    WRITABLE,
    WorkerChoice,
    dask_option,
    duration,
    from_now,
    offset,
    option_group,
    seed_option,
)
from service.cli.kit.output import (
    CSV,
    JSON,
    TABLE,
    print_csv,
    print_json,
    print_table,
    print_title,
    printable,
)
from service.cli.kit.progress import CommandProgress, make_ready, running
from service.cli.kit.server import Server, entry_path
from service.cli.plan_files import difference_rows, print_differences
from service.cli.plan_tables import short_why
from service.sentences import counted

if TYPE_CHECKING:
    from planner.agent import Limits
    from planner.files import PlanDocument
    from planner.optimization.objective import Objective
    from planner.optimization.result import Optimized, OptimizeProgress, OptimizeScope
    from planner.plan.plan import Plan

_WEIGHTS: Final = ("reject", "churn", "falls", "cost")

#: What the parts of a score are; each is better the smaller.
_SCORE: Final = (
    "the smaller the better; rejected: value refused; churn: work moved, steps of the\n"
    "whole cluster; falls: decreases of allocations, in bundles; cost: work x price"
)

#: Most of those left out that are reported one by one.
_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class SearchGoal:
    """The movable reservations, the objective, and the limit of trials."""

    pins: tuple[str, ...]
    admit_refused: bool
    weights: str | None
    lexicographic: bool
    work: int | None
    seed: int

    def objective(self) -> Objective:
        """Return the objective.

        Raises
        ------
        CliError
            For weights that cannot be.
        """
        from planner.optimization.objective import Objective, Weights

        try:
            return Objective(Weights(**self.parts()), self.lexicographic)
        except ValueError as error:
            raise CliError(f"--weights: {error}") from error

    def parts(self) -> dict[str, float]:
        """Return the weights that are given, by part of the score."""
        return read_weights(self.weights, lexicographic=self.lexicographic)


_GOAL: Final = option_group(
    "goal",
    SearchGoal,
    click.option(
        "--pin",
        "pins",
        multiple=True,
        metavar="ID",
        help="Do not move this reservation; may be repeated.",
    ),
    flag("--admit-refused", "Also admit requests that were refused."),
    click.option(
        "--weights",
        metavar="NAME=N,...",
        help="Weights of the score: value refused (reject), work moved (churn), decreases "
        "(falls), price (cost).  [default: 1000, 1, 0.5, 0.5]",
    ),
    flag(
        "--lexicographic",
        "Compare plans by value refused; on a tie by work moved, then decreases, then price.",
    ),
    click.option(
        "--work",
        type=click.IntRange(min=0),
        metavar="N",
        help="Stop after N trials; the same N gives the same plan.",
    ),
    seed_option("the search's random choices"),
)


def read_weights(given: str | None, *, lexicographic: bool) -> dict[str, float]:
    """Return the weights of ``churn=10,cost=0``.

    Raises
    ------
    click.UsageError
        For weights of an order that needs none.
    CliError
        For anything that is not a weight.
    """
    if lexicographic and given:
        raise click.UsageError("give either --weights or --lexicographic")
    weights: dict[str, float] = {}
    for part in (given or "").split(",") if given else ():
        name, mark, number = part.partition("=")
        if name.strip() not in _WEIGHTS or not mark:
            raise CliError(
                f"--weights: {part!r} is not a weight; write {', '.join(_WEIGHTS)} = NUMBER"
            )
        if name.strip() in weights:
            raise CliError(f"--weights: {name.strip()} is given twice")
        try:
            weights[name.strip()] = float(number)
        except ValueError as error:
            raise CliError(
                f"--weights: {number!r} is not a number; write {name.strip()}=10"
            ) from error
    return weights


def progress_text(elapsed_s: float, value: float, bound: float, gap: float, source: str) -> str:
    """Return one line for a terminal: how good the best plan so far is."""
    return (
        f"{elapsed_s:.0f} s: value {value:,.1f}, at most {bound:,.1f}, gap {gap:.2%}, by {source}"
    )


def print_optimized(answer: Mapping[str, Any], form: str) -> None:
    """Print the result of an optimisation: parts of the score, bound, and moves."""
    if form == JSON:
        print_json(answer)
    elif form == CSV:
        print_csv(*difference_rows(answer["diff"]))
    else:
        old, new = answer["before"], answer["after"]
        print_title(_SCORE)
        print_table(("part", "before", "after"), [[name, old[name], new[name]] for name in old])
        click.echo(
            f"\n{answer['status']}: value {answer['value']:,.6g}, at most {answer['bound']:,.6g}, "
            f"gap {answer['gap']:.2%}, by {answer['source']}, {counted(answer['trials'], 'trial')}"
        )
        if answer.get("machine_loss"):
            click.echo(f"{answer['machine_loss']:.2%} of the value found does not fit on machines")
        _print_left_out(answer.get("left_out", ()))  # results of older servers name no one
        print_differences(answer["diff"])


def _print_left_out(left: Sequence[Mapping[str, str]]) -> None:
    """Say how many waited and have no place, by code, and of the first ones why."""
    if not left:
        return
    counts = Counter(one["code"] for one in left).most_common()
    click.echo(f"{len(left):,} left out: {', '.join(f'{n:,} {code}' for code, n in counts)}\n")
    for one in left[:_TOLD]:
        click.echo(printable(f"{one['id']}: {one['code']}"))
        click.echo(printable(f"  {short_why(one['detail'])}"))
    if len(left) > _TOLD:
        click.echo(f"... and {len(left) - _TOLD:,} more; -o json lists all")
    click.echo()


@dataclass(frozen=True, slots=True)
class SolverChoice:
    """The agent that proves a bound; None: the optimiser's own choice, unless there is none."""

    solver: str | None
    no_solver: bool

    @property
    def name(self) -> str | None:
        """The name that the optimiser takes, "" for none.

        Raises
        ------
        click.UsageError
            If a solver is both asked for and refused.
        """
        if self.solver and self.no_solver:
            raise click.UsageError("give either --solver or --no-solver")
        return "" if self.no_solver else self.solver


@server_command(
    None,
    "optimize",
    click.argument("plan", type=READABLE),
    click.option("--out", type=WRITABLE, help="Write the better Plan to this file."),
    click.option(
        "--time-limit",
        type=duration,
        default="60s",
        show_default=True,
        help="Stop after this long and keep the best plan found.",
    ),
    click.option(
        "--frozen-until",
        type=offset,
        default="0",
        show_default=True,
        help="Nothing before this time, counted from the origin, moves.",
    ),
    _GOAL,
    option_group(
        "solver",
        SolverChoice,
        click.option(
            "--solver",
            type=click.Choice(("exact", "hybrid", "milp")),
            help="Agent that proves a bound on the value.  [default: exact for up to 2,000 "
            "requests]",
        ),
        flag("--no-solver", "Search without a solver: no bound is proven."),
    ),
    dask_option("the optimisation"),
    forms=ALL_FORMS,
    offline=True,
)
def optimize(
    plan: Path,
    out: Path | None,
    time_limit: int,
    frozen_until: int,
    goal: SearchGoal,
    solver: SolverChoice,
    dask: str | None,
) -> Answer | int:
    """Make a better Plan from PLAN; no accepted reservation loses anything.

    Moves accepted reservations, with --admit-refused also admits refused requests, and prints the
    changes. ^C stops and keeps the best plan found. Exits with 3 if the pins cannot all be kept.
    """
    from planner.agent import Limits
    from planner.files import read_plan, write_plan
    from planner.workload.diff import plan_diff
    from planner.workload.reload import plan_of_document

    chosen, objective = solver.name, goal.objective()
    document = read_plan(plan)
    held = plan_of_document(document, str(plan))
    scope = _scope(held, frozen_until, goal)
    time_s = None if goal.work is not None else time_limit / 1000
    limits = Limits(time_s=time_s, work=goal.work, seed=goal.seed)
    if dask is None:
        make_ready()
    found = _optimize(held, (objective, scope, limits), chosen, WorkerChoice(dask=dask))
    if found.conflict is not None:
        return _conflict(found)
    better = _better(held, document, found)
    if better is None:
        click.echo("the changes do not fit the Plan; it is unchanged", err=True)
        return ERROR
    difference = plan_diff(document, better).to_json()
    answer = {**found.to_json(), "goal": objective.to_json(), "diff": difference}
    return Answer(
        answer,
        lambda: print_optimized(answer, TABLE),
        lambda: print_optimized(answer, CSV),
        after=lambda: None if out is None else write_plan(better, out),
    )


def _scope(held: Plan, frozen_until_ms: int, goal: SearchGoal) -> OptimizeScope:
    from planner.optimization.result import OptimizeScope

    frozen = held.grid.ceil(frozen_until_ms)
    if frozen >= held.grid.horizon:
        raise CliError("--frozen-until: nothing could move; give a time before the horizon")
    return OptimizeScope(frozen, goal.pins, goal.admit_refused)


def _optimize(
    held: Plan,
    asked: tuple[Objective, OptimizeScope, Limits],
    solver: str | None,
    where: WorkerChoice,
) -> Optimized:
    """Optimise, showing how far it is; `solver` "" is none, None the optimiser's own choice."""
    from planner.optimization.result import OptimizeOptions
    from service.jobs.tasks import improve_on

    goal, scope, limits = asked
    with where.open() as workers, running("optimizing") as run:

        def tell(now: OptimizeProgress) -> None:
            run.say(progress_text(now.elapsed_s, now.value, now.bound, now.gap, now.source))

        options = OptimizeOptions(replace(limits, stop=run.stop), solver, tell)
        try:
            return improve_on(workers, held, goal, scope, options)
        except KeyError as error:
            raise CliError(f"--pin: {_unknown_words(held, error.args[0])}") from error


def _unknown_words(held: Plan, id_: str) -> str:
    from rdl.errors import nearest

    if held.refusal(id_) is not None:
        return f"{id_!r} was refused and has no allocation to pin"
    near = nearest(id_, held.table.ids())
    return f"there is no current reservation {id_!r}" + (f"; did you mean {near}?" if near else "")


def _better(held: Plan, document: PlanDocument, found: Optimized) -> PlanDocument | None:
    """Apply the changes to the Plan that was read, and write it down; None on a conflict."""
    from planner.workload.plan import document_of
    from planner.workload.reload import metrics_of

    if found.changes:
        prepared = held.prepare(found.changes, found.based_on, joint=True)
        if prepared.record is None:
            return None
        held.apply(prepared.record, prepared.takings)
    plain = metrics_of(held)
    # What cannot move is part of the Plan's value, and not of what was looked for.
    metrics = plain.with_bound(plain.value + found.gap_value, found.status)
    written = document_of(held, "optimize", document.order, metrics)
    known = {one["id"]: one for one in document.refusals}
    refusals = tuple(known.get(one["id"], one) for one in written.refusals)
    return replace(written, refusals=refusals)


def _conflict(found: Optimized) -> Answer:
    assert found.conflict is not None
    text = f"these pins cannot all be kept: {', '.join(found.conflict.pins)}"
    detail = found.conflict.detail

    def say() -> None:
        click.echo(f"{text}\n  {detail}")

    return Answer(found.to_json(), say, say, REFUSED)


_PATH: Final = "/v1/optimizations"
_AT_WORK: Final = ("running", "stopping")


def _progress(name: str) -> Any:
    """Return a function that reads a figure of an optimisation from its result, or else its
    progress."""
    return lambda one: {**one["progress"], **one}.get(name)


_FIGURES: Final = {name: _progress(name) for name in ("value", "bound", "gap", "source")}
_LISTED: Final = Table(
    "id state created_at value bound* gap source* reason*", "created_at", **_FIGURES
)

#: Most changes left out that are reported one by one.
_MOST_LEFT: Final = 20

#: Seconds between two looks at one that runs.
_LOOK_S: Final = 0.5

_PARTIAL: Final = flag("--partial", "If not all changes fit any more, apply those that do.")
_ID: Final = id_of("optimization")


@click.group()
def optimizations() -> None:
    """Look for a better Plan of a server, apply the result or drop it."""


@server_command(
    optimizations,
    "start",
    click.option("--time-limit", default="60s", show_default=True,
                 help="Stop after this long and keep the best plan found; at most 1h."),
    click.option("--frozen-until", callback=from_now, metavar="TIME",
                 help="Nothing before this time moves.  [default: 5m after the time limit]"),
    _GOAL,
    click.option("--solver", type=click.Choice(("exact", "hybrid", "milp", "none")),
                 help="Agent that proves a bound on the value.  [default: exact for up to 2,000 "
                 "requests]"),
    click.option("--apply", "apply_result", is_flag=True,
                 help="Apply the result when it is found."),
    _PARTIAL,
    click.option("--detach", is_flag=True, help="Print the id without waiting for the result."),
    forms=ALL_FORMS,
    shows_itself=True,
)  # fmt: skip
def start(
    server: Server,
    form: str,
    goal: SearchGoal,
    apply_result: bool,
    partial: bool,
    detach: bool,
    **options: Any,
) -> int:
    """Search for a better Plan and show it; nothing changes until it is applied.

    The first ^C stops the search and shows the best plan found; the second leaves it running on the
    server.
    """
    if apply_result and detach:
        raise click.UsageError("--apply waits for the result; omit --detach")
    if partial and not apply_result:
        raise click.UsageError("--partial needs --apply")
    body = {
        **given(**options, **asdict(goal)),
        "weights": goal.parts() or None,
        "pins": list(goal.pins),
    }
    body = {name: value for name, value in body.items() if value is not None}
    begun = server.call("POST", _PATH, body).good()
    if detach:
        return _answer(begun).show(form, server)
    ended = _wait_for(server, begun)
    _answer(ended).show(form, server)
    if ended["result"] is None or ended["result"]["conflict"] is not None:
        return ERROR
    return _apply(server, ended["id"], partial=partial) if apply_result else DONE


@server_command(optimizations, "list", lists=True)
def list_(server: Server) -> Listing:
    """List optimisations, newest first."""
    body = server.call("GET", _PATH).good()
    found = body["optimizations"]
    title = (
        f"{counted(len(found), 'optimisation')}; value and bound: weight x core-hours x preference"
    )
    return Listing(body, found, _LISTED, title, "no optimisations")


@server_command(optimizations, "show", _ID, forms=ALL_FORMS)
def show(id_: str, server: Server) -> Answer:
    """Show the progress of an optimisation, or its result."""
    return _answer(server.call("GET", entry_path(_PATH, id_)).good())


@server_command(optimizations, "stop", _ID, forms=ALL_FORMS)
def stop(id_: str, server: Server) -> Answer:
    """Stop an optimisation and show the best plan it found."""
    stopping = server.call("POST", f"{entry_path(_PATH, id_)}/stop").good()
    return _answer(_wait_for(server, stopping))


@server_command(optimizations, "apply", _ID, _PARTIAL, forms=())
def apply(id_: str, server: Server, partial: bool) -> int:
    """Apply the result of an optimisation to the current Plan.

    Applies all changes or none, unless --partial is given. If the optimisation still runs, it is
    stopped and the best plan it found is applied.
    """
    return _apply(server, id_, partial=partial)


@server_command(optimizations, "undo", _ID, forms=())
def undo(id_: str, server: Server) -> None:
    """Undo an applied optimisation, except for changes that have taken effect.

    Reservations return to their previous allocations, and those that it admitted are cancelled.
    Reservations that have begun or changed since are left unchanged and listed. If the rest does
    not fit any more, nothing changes.
    """
    done = server.call("POST", f"{entry_path(_PATH, id_)}/undo").good()
    click.echo(f"version {done['version']} of the Plan: {_many(done)} undone", err=True)
    _print_left(done["left"], "are unchanged")


@server_command(optimizations, "forget", _ID, forms=())
def forget(id_: str, server: Server) -> None:
    """Delete an optimisation and its result; if it still runs, it is stopped."""
    server.call("DELETE", entry_path(_PATH, id_)).good()
    click.echo(f"{id_} is forgotten")


def _apply(server: Server, id_: str, *, partial: bool) -> int:
    query = "?partial=true" if partial else ""
    done = server.call("POST", f"{entry_path(_PATH, id_)}/apply{query}").good()
    merged = ", merged with later changes" if done["merged"] else ""
    click.echo(f"version {done['version']} of the Plan: {_many(done)} changed{merged}", err=True)
    _print_left(done["left_out"], "left out")
    return DONE


def _many(done: Mapping[str, Any]) -> str:
    return f"{counted(done['changed'], 'reservation')}"


def _print_left(left: Sequence[Mapping[str, Any]], what: str) -> None:
    """Print each change that was not made."""
    if left:
        click.echo(f"{len(left):,} {what}:", err=True)
    for one in left[:_MOST_LEFT]:
        click.echo(f"  {one['id']}: {one['detail']}", err=True)
    if len(left) > _MOST_LEFT:
        click.echo(f"  ... and {len(left) - _MOST_LEFT:,} more", err=True)


def _wait_for(server: Server, begun: Mapping[str, Any]) -> Any:
    """Wait until one is over, showing how far it is; ^C asks it to stop."""
    path, now, stopped = entry_path(_PATH, begun["id"]), begun, False
    with running("optimizing") as run:
        while now["state"] in _AT_WORK:
            if run.stop() and not stopped:
                server.call("POST", f"{path}/stop").good()
                stopped = True
            _show_progress(run, now)
            time.sleep(_LOOK_S)
            now = server.call("GET", path).good()
    return now


def _show_progress(run: CommandProgress, now: Mapping[str, Any]) -> None:
    done = now["progress"]
    if "value" in done:
        names = ("elapsed", "value", "bound", "gap", "source")
        run.say(progress_text(*(done[name] for name in names)))
    else:
        run.show()


def _answer(one: Mapping[str, Any]) -> Answer:
    """Return an optimisation as the answer of a command: its result, or its progress."""
    result = one["result"]
    if result is None or result["conflict"] is not None:
        return Answer(one, lambda: _LISTED.print([one]), lambda: _LISTED.print_csv([one]))

    def print_result() -> None:
        reason = f": {one['reason']}" if one["reason"] else ""
        click.echo(f"{one['id']} {one['state']}{reason}\n")
        print_optimized(result, TABLE)

    return Answer(one, print_result, lambda: print_optimized(result, CSV))
