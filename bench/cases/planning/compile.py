"""`compile`: RDL text to WorkGraph, in atoms a second, and how that grows with the request.

Every atom has numbers of its own, so that nothing is remembered from the one before. The reference
alongside it is `json.loads` of the same request as JSON: what a machine takes to read the bytes.
Times are processor time of the one thread that does the work: others on the machine do not count.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

from rdl.codecs.json_codec import to_json
from rdl.compile.compiler import compile_source
from rdl.compile.context import CompileContext, MachineShape
from rdl.limits import SourceLimits
from rdl.resources import Resources
from rdl.text.parser import parse
from rdl.time_grid import TimeGrid

NAME = "compile"

_CONTEXT = CompileContext(
    TimeGrid(step_ms=1000, horizon=10**8),
    limits=SourceLimits(max_source=10_000_000),
    machines=(MachineShape("standard", Resources.of({"cpu": 32_000, "memory": 131_072})),),
)


def run(small: bool) -> dict[str, object]:
    """Compile chains, sets, choices, graphs and recurrences; time each, best of several."""
    atoms, rounds = (2_000, 2) if small else (20_000, 5)
    figures: dict[str, object] = {}
    for name, write in _SHAPES.items():
        text = write(atoms)
        whole = _best(partial(compile_source, text, _CONTEXT), rounds)
        parsed = _best(partial(parse, text, _CONTEXT.limits), rounds)
        figures[f"{name}_atoms_per_s"] = round(atoms / whole)
        figures[f"{name}_share_of_parser"] = round(parsed / whole, 2)
    chain = _chain(atoms)
    raw = json.dumps(to_json(parse(chain, _CONTEXT.limits)))
    figures["json_loads_atoms_per_s"] = round(atoms / _best(partial(json.loads, raw), rounds))
    order = _chain(1_000)
    figures["order_1000_ms"] = round(
        1000 * _best(partial(compile_source, order, _CONTEXT), 2 * rounds), 2
    )
    figures.update(_growth(atoms, rounds))
    return {
        "params": {"atoms": atoms, "rounds": rounds, "shapes": list(_SHAPES)},
        "figures": figures,
    }


def _growth(atoms: int, rounds: int) -> dict[str, object]:
    """Return microseconds an atom at several sizes, and the largest over the smallest."""
    sizes = [atoms // 16, atoms // 4, atoms]
    cost = []
    for size in sizes:
        text = _graph(size)
        cost.append(1e6 * _best(partial(compile_source, text, _CONTEXT), rounds) / size)
    table = {str(size): round(us, 1) for size, us in zip(sizes, cost, strict=True)}
    return {"graph_us_per_atom": table, "graph_growth": round(cost[-1] / cost[0], 2)}


def _best(work: Callable[[], object], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def _atom(i: int) -> str:
    g = 1 + i % 7
    lease = 1 + i % 60
    return f"atom(b, {g}, {g + i % 50}, {lease}, {g * lease + i})"


def _chain(atoms: int) -> str:
    return f"{_BUNDLE} order({', '.join(map(_atom, range(atoms)))})"


def _set(atoms: int) -> str:
    windows = (f"window({_atom(i)}, {i}, {i + 9_000_000})" for i in range(atoms))
    return f"{_BUNDLE} all({', '.join(windows)})"


def _choices(atoms: int) -> str:
    pairs = (f"any({_atom(i)}, {_atom(i + 1)}, prefer=[1, 0.5])" for i in range(0, atoms, 2))
    return f"{_BUNDLE} order({', '.join(pairs)})"


def _graph(atoms: int) -> str:
    """Layers of ten, every vertex after two of the layer before it."""
    parts = ", ".join(f"v{i}: {_atom(i)}" for i in range(atoms))
    arrows = ", ".join(
        f"v{i - 10 - (i + k) % 3} -> v{i}" for i in range(13, atoms) for k in range(2)
    )
    return f"{_BUNDLE} graph({parts}; {arrows})"


def _recurring(atoms: int) -> str:
    """Stages of ten atoms, once in each of five periods."""
    stages = (
        f"every(1d, all({', '.join(_atom(i + k) for k in range(10))}), times=5)"
        for i in range(0, atoms, 10)
    )
    return f"{_BUNDLE} all({', '.join(stages)})"


_BUNDLE = "b = <2 GiB memory, 1 cpu>;"
_SHAPES: dict[str, Callable[[int], str]] = {
    "order": _chain,
    "all_of_windows": _set,
    "any": _choices,
    "graph": _graph,
    "every": _recurring,
}
