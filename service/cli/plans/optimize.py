"""`agenda optimize`: a better Plan from a Plan file, in which no promise is lowered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from service.cli.plans.optimization_output import (
    goal_options,
    print_optimized,
    progress_text,
    read_weights,
)
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE, ERROR, REFUSED
from service.cli.terminal.options import READABLE, WRITABLE, duration, offset
from service.cli.terminal.output import JSON, format_option, print_json
from service.cli.terminal.pool_options import dask_option, task_pool
from service.cli.terminal.progress import make_ready, running

if TYPE_CHECKING:
    from planner.agent import Limits
    from planner.files import PlanDocument
    from planner.optimization.objective import Objective
    from planner.optimization.result import Optimized, OptimizeProgress, OptimizeScope
    from planner.plan.plan import Plan


@click.command()
@click.argument("plan", type=READABLE)
@click.option("--out", type=WRITABLE, help="Write the better Plan to this file.")
@click.option("--time-limit", type=duration, default="60s", show_default=True,
              help="Stop after this long and keep the best plan found.")  # fmt: skip
@click.option("--frozen-until", type=offset, default="0", show_default=True,
              help="Nothing before this time, counted from the origin, moves.")  # fmt: skip
@goal_options
@click.option(
    "--solver",
    type=click.Choice(("exact", "hybrid", "milp")),
    help="Agent that proves a bound on the value.  [default: exact for up to 2,000 requests]",
)
@click.option("--no-solver", is_flag=True, help="Search without a solver: no bound is proven.")
@dask_option("the optimisation")
@format_option()
@reports_errors
def optimize(
    plan: Path,
    out: Path | None,
    time_limit: int,
    frozen_until: int,
    pins: tuple[str, ...],
    admit_refused: bool,
    weights: str | None,
    lexicographic: bool,
    work: int | None,
    seed: int,
    solver: str | None,
    no_solver: bool,
    dask: str | None,
    form: str,
) -> int:
    """Make a better Plan from PLAN; no accepted reservation loses anything.

    Moves accepted reservations, with --admit-refused also admits refused requests, and prints what
    changed. ^C stops and keeps the best plan found. Exits with 3 if the pins cannot all be kept.
    """
    from planner.agent import Limits
    from planner.files import read_plan
    from planner.workload.reload import plan_of_document

    if solver and no_solver:
        raise click.UsageError("give either --solver or --no-solver")
    goal = _goal(weights, lexicographic)
    document = read_plan(plan)
    held = plan_of_document(document, str(plan))
    scope = _scope(held, frozen_until, pins, admit_refused)
    limits = Limits(time_s=None if work is not None else time_limit / 1000, work=work, seed=seed)
    if dask is None:
        make_ready()
    found = _optimize(held, (goal, scope, limits), "" if no_solver else solver, dask)
    if found.conflict is not None:
        _print_conflict(found, form)
        return REFUSED
    better = _better(held, document, found)
    if better is None:
        click.echo("the changes do not fit the Plan; it is unchanged", err=True)
        return ERROR
    try:
        if out is not None:
            from planner.files import write_plan

            write_plan(better, out)
    finally:  # minutes of work are printed even if the file cannot be written
        _print(document, better, found, goal, form)
    return DONE


def _goal(weights: str | None, lexicographic: bool) -> Objective:
    from planner.optimization.objective import Objective, Weights

    try:
        return Objective(
            Weights(**read_weights(weights, lexicographic=lexicographic)), lexicographic
        )
    except ValueError as error:
        raise CliError(f"--weights: {error}") from error


def _scope(
    held: Plan, frozen_until_ms: int, pins: tuple[str, ...], admit_refused: bool
) -> OptimizeScope:
    from planner.optimization.result import OptimizeScope

    frozen = held.grid.ceil(frozen_until_ms)
    if frozen >= held.grid.horizon:
        raise CliError("--frozen-until: nothing could move; give a time before the horizon")
    return OptimizeScope(frozen, pins, admit_refused)


def _optimize(
    held: Plan,
    asked: tuple[Objective, OptimizeScope, Limits],
    solver: str | None,
    dask: str | None,
) -> Optimized:
    """Optimise, showing how far it is; `solver` "" is none, None the optimiser's own choice."""
    from planner.optimization.result import OptimizeOptions
    from service.tasks.plan_task import improve_on

    goal, scope, limits = asked
    with task_pool(None, dask) as pool, running("optimizing") as run:

        def tell(now: OptimizeProgress) -> None:
            run.say(progress_text(now.elapsed_s, now.value, now.bound, now.gap, now.source))

        options = OptimizeOptions(replace(limits, stop=run.stop), solver, tell)
        try:
            return improve_on(pool, held, goal, scope, options)
        except KeyError as error:
            raise CliError(f"--pin: {_unknown_words(held, error.args[0])}") from error


def _unknown_words(held: Plan, id_: str) -> str:
    from rdl.errors import nearest

    if held.refusal(id_) is not None:
        return f"{id_!r} was refused and holds nothing to pin"
    near = nearest(id_, held.table.ids())
    return f"no reservation {id_!r} holds anything" + (f"; did you mean {near}?" if near else "")


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


def _print_conflict(found: Optimized, form: str) -> None:
    assert found.conflict is not None
    if form == JSON:
        print_json(found.to_json())
        return
    click.echo(f"these pins cannot all be kept: {', '.join(found.conflict.pins)}")
    click.echo(f"  {found.conflict.detail}")


def _print(
    before: PlanDocument, after: PlanDocument, found: Optimized, goal: Objective, form: str
) -> None:
    from planner.workload.diff import plan_diff

    difference = plan_diff(before, after).to_json()
    print_optimized({**found.to_json(), "goal": goal.to_json(), "diff": difference}, form)
