"""What one run of a request asks, from its expression alone: its work, what it holds at once."""

from __future__ import annotations

from dataclasses import dataclass

from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Graph,
    Order,
    Void,
    Window,
)

#: Resources by name, and amounts; of work, times ms.
Amounts = dict[str, int]


@dataclass(slots=True)
class RunDemand:
    """Work of a run and what is held at once, by resource."""

    work: Amounts
    at_once: Amounts


def demand_of(here: Expression) -> tuple[RunDemand, RunDemand]:
    """Return the least and the most that one run asks."""
    match here:
        case Atom():
            work = {name: amount * here.work_ms for name, amount in here.bundle.items_}
            held = {name: amount * here.minimum for name, amount in here.bundle.items_}
            most = {name: amount * here.maximum for name, amount in here.bundle.items_}
            return RunDemand(work, held), RunDemand(work, most)
        case Void():
            return RunDemand({}, {}), RunDemand({}, {})
        case Window(of=of) | Every(of=of):
            return demand_of(of)
        case AnyOf(options=options):
            parts = [demand_of(option) for option in options]
            least = RunDemand(
                _least([low.work for low, _ in parts]), _least([low.at_once for low, _ in parts])
            )
            return least, RunDemand(
                _most([high.work for _, high in parts]), _most([high.at_once for _, high in parts])
            )
        case AllOf(children=children) | Order(children=children) | Graph(children=children):
            parts = [demand_of(child) for child in children]
            lows, highs = [low for low, _ in parts], [high for _, high in parts]
            together = _most if _one_by_one(here) else _sum
            return (
                RunDemand(_sum([one.work for one in lows]), _most([one.at_once for one in lows])),
                RunDemand(
                    _sum([one.work for one in highs]), together([one.at_once for one in highs])
                ),
            )


def _one_by_one(here: Expression) -> bool:
    """Say whether no two children can run at once."""
    if isinstance(here, Order):
        return True
    if not isinstance(here, Graph):
        return False
    follows = {(edge.before, edge.after) for edge in here.edges}
    count = len(here.children)
    return all((one, one + 1) in follows for one in range(count - 1))


def _least(all_amounts: list[Amounts]) -> Amounts:
    names = sorted(set().union(*all_amounts))
    return {name: min(amounts.get(name, 0) for amounts in all_amounts) for name in names}


def _most(all_amounts: list[Amounts]) -> Amounts:
    names = sorted(set().union(*all_amounts))
    return {name: max(amounts.get(name, 0) for amounts in all_amounts) for name in names}


def _sum(all_amounts: list[Amounts]) -> Amounts:
    names = sorted(set().union(*all_amounts))
    return {name: sum(amounts.get(name, 0) for amounts in all_amounts) for name in names}
