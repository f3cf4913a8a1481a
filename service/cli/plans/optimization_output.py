"""What both ways of optimising share: how weights are typed, and how a better Plan is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import click

from service.cli.forms.table_text import printable
from service.cli.plans.difference_tables import difference_rows, print_differences
from service.cli.plans.plan_tables import short_why
from service.cli.terminal.errors import CliError
from service.cli.terminal.options import seed_option
from service.cli.terminal.output import CSV, JSON, print_csv, print_json, print_table, print_title

_WEIGHTS: Final = ("reject", "churn", "falls", "cost")

#: What the parts of a score are; each is better the smaller.
_SCORE: Final = (
    "the smaller the better; rejected: value refused; churn: work moved, steps of the\n"
    "whole cluster; falls: falls of allocations, bundles; cost: work x price"
)

#: Most of those left out that are told one by one.
_TOLD: Final = 20

F = TypeVar("F", bound=Callable[..., Any])


def goal_options(function: F) -> F:
    """Add what may move, what is minimised, and how long it is sought if not by time."""
    options = (
        click.option(
            "--pin",
            "pins",
            multiple=True,
            metavar="ID",
            help="Do not move this reservation; may be repeated.",
        ),
        click.option(
            "--admit-refused", is_flag=True, help="Also admit requests that were refused."
        ),
        click.option(
            "--weights",
            metavar="NAME=N,...",
            help="How much parts of the score count: value refused (reject), work moved (churn), "
            "drops (falls), price (cost).  [default: 1000, 1, 0.5, 0.5]",
        ),
        click.option(
            "--lexicographic",
            is_flag=True,
            help="Compare plans by value refused; on a tie by work moved, then drops, then price.",
        ),
        click.option(
            "--work",
            type=click.IntRange(min=0),
            metavar="N",
            help="Stop after N trials; the same N gives the same plan.",
        ),
        seed_option("the search's random choices"),
    )
    decorated: Any = function
    for option in reversed(options):
        decorated = option(decorated)
    return cast("F", decorated)


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
    """Print what an optimisation found: parts of the score, bound, and who moves."""
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
            f"gap {answer['gap']:.2%}, by {answer['source']}, {answer['trials']:,} trials"
        )
        if answer.get("machine_loss"):
            click.echo(f"machines do not hold {answer['machine_loss']:.2%} of the value found")
        _print_left_out(answer.get("left_out", ()))  # results of older servers name nobody
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
