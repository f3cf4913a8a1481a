"""Fuzz what reads requests: ``python -m tests.rdl.fuzz_rdl --inputs 1000000 --seed 1``.

Every input goes through the parser or the JSON codec; what they accept is formatted, read back,
written as JSON, read back and compiled. Each may answer with an RdlError and nothing else, with a
message of bounded length. The inputs depend on the seed alone. Exit code 1 and the inputs
themselves if anything else happened.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from rdl.codecs.json_codec import from_json, to_json
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext, MachineShape
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.expressions import Expression
from rdl.limits import SourceLimits
from rdl.resources import Resources
from rdl.text.formatter import format_expression, format_pretty
from rdl.text.parser import parse
from rdl.time_grid import TimeGrid
from tests.rdl.fuzz_sources import bent_json, bent_text, grown_text, noise

NAME = "fuzz_rdl"

_LONGEST_MESSAGE: Final = 100_000
_MOST_CRASHES: Final = 10
#: A stranger may ask for as much as the limits allow; here they are small so that inputs are fast.
_LIMITS: Final = SourceLimits(max_atoms=500, max_occurrences=200)
_CONTEXTS: Final = (
    CompileContext(
        TimeGrid(60_000, 2880, datetime(2026, 1, 5, tzinfo=UTC)),
        90_000,
        (
            MachineShape("plain", Resources.of({"cpu": 32_000, "memory": 131_072}), count=20),
            MachineShape(
                "fast",
                Resources.of({"cpu": 8000, "gpu": 4}),
                frozenset({"ssd"}),
                count=3,
                domains=(("rack", "r1"),),
            ),
        ),
        limits=_LIMITS,
    ),
    CompileContext(TimeGrid(1000, 100_000), exact_work=True, limits=_LIMITS),
)


@dataclass(slots=True)
class FuzzCounts:
    """The outcome of the inputs.

    Attributes
    ----------
    accepted, refused
        By the parser or codec.
    compiled
        Of the accepted, those that became a WorkGraph.
    slowest_ms, slowest
        The most processor time that one input took, and which one.
    crashes
        (input, traceback) of whatever ended in something else than an answer.
    """

    accepted: int = 0
    refused: int = 0
    compiled: int = 0
    slowest_ms: float = 0.0
    slowest: str = ""
    crashes: list[tuple[str, str]] = field(default_factory=list)


def fuzz(inputs: int, seed: int) -> FuzzCounts:
    """Return the outcome of this many inputs; stops early after ten crashes."""
    random = Random(seed)
    tally = FuzzCounts()
    corpus = [grown_text(random) for _ in range(200)]
    for number in range(inputs):
        if number % 5 == 0:
            corpus[number // 5 % len(corpus)] = grown_text(random)
        source = _next_input(random, corpus)
        context = _CONTEXTS[number % len(_CONTEXTS)]
        try:
            took_ms = _timed(source, context, tally)
            if took_ms > tally.slowest_ms:
                # Again: a busy machine makes any input look slow now and then.
                took_ms = min(took_ms, _timed(source, context, FuzzCounts()))
        except Exception:  # noqa: BLE001 - any other exception is the find
            tally.crashes.append((_shown(source), traceback.format_exc(limit=-6)))
            if len(tally.crashes) == _MOST_CRASHES:
                break
            continue
        if took_ms > tally.slowest_ms:
            tally.slowest_ms, tally.slowest = took_ms, _shown(source)
    return tally


def run(small: bool) -> Mapping[str, object]:
    """Fuzz for a moment (small) or for a hundred thousand inputs."""
    inputs, seed = (2_000 if small else 100_000), 1
    began = time.perf_counter()
    tally = fuzz(inputs, seed)
    return {"params": {"inputs": inputs, "seed": seed}, "figures": _figures(tally, began, inputs)}


def main(arguments: list[str] | None = None) -> int:
    """Fuzz as the command line says; 0 without a crash."""
    parser = argparse.ArgumentParser(prog="python -m tests.rdl.fuzz_rdl", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    tally = fuzz(options.inputs, options.seed)
    print(json.dumps(_figures(tally, began, options.inputs)))
    print(f"slowest: {tally.slowest}", file=sys.stderr)
    for source, trace in tally.crashes:
        print(f"\ninput: {source}\n{trace}", file=sys.stderr)
    return 1 if tally.crashes else 0


def _figures(tally: FuzzCounts, began: float, inputs: int) -> dict[str, object]:
    seconds = time.perf_counter() - began
    return {
        "accepted": tally.accepted,
        "refused": tally.refused,
        "compiled": tally.compiled,
        "crashes": len(tally.crashes),
        "slowest_ms": round(tally.slowest_ms, 1),
        "seconds": round(seconds, 1),
        "inputs_per_s": round(inputs / seconds),
    }


def _next_input(random: Random, corpus: list[str]) -> Any:
    """Return a text or a JSON value: as grown, bent, or noise."""
    kind = random.random()
    if kind < 0.15:
        return random.choice(corpus)
    if kind < 0.65:
        return bent_text(random, random.choice(corpus))
    if kind < 0.7:
        return noise(random)
    try:
        value = to_json(parse(random.choice(corpus), _LIMITS))
    except RdlError:
        return bent_text(random, random.choice(corpus))
    bent = bent_json(random, value)
    return bent if kind < 0.9 else bent_text(random, json.dumps(bent))


def _timed(source: Any, context: CompileContext, tally: FuzzCounts) -> float:
    """Treat one input, and return the processor time it accepted ms."""
    began = time.process_time()
    _one(source, context, tally)
    return (time.process_time() - began) * 1000


def _one(source: Any, context: CompileContext, tally: FuzzCounts) -> None:
    """Read one input, check the round trips of what was accepted, and compile it."""
    try:
        expression = read_source(source, _LIMITS)
    except RdlError as error:
        tally.refused += 1
        _check_refusal(error)
        return
    tally.accepted += 1
    _check_round_trips(expression)
    try:
        compile_expression(expression, context, source if isinstance(source, str) else None)
    except RdlError as error:
        _check_refusal(error)
        return
    tally.compiled += 1


def _check_refusal(error: RdlError) -> None:
    if not error.problems:
        raise AssertionError("a refusal without a problem")
    if len(str(error)) > _LONGEST_MESSAGE:
        raise AssertionError(f"a message of {len(str(error))} characters")


def _check_round_trips(expression: Expression) -> None:
    text = format_expression(expression)
    if parse(text, _LIMITS) != expression:
        raise AssertionError(f"the canonical text reads back as something else: {text}")
    if parse(format_pretty(expression), _LIMITS) != expression:
        raise AssertionError(f"the indented text reads back as something else: {text}")
    if from_json(to_json(expression), _LIMITS) != expression:
        raise AssertionError(f"the JSON reads back as something else: {text}")


def _shown(source: Any) -> str:
    return repr(source)[:2000]


if __name__ == "__main__":
    sys.exit(main())
