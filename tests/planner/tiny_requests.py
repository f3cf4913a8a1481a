"""Requests so small that every plan of them can be enumerated, and the cluster that they share."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from planner.request import Request
from rdl.compile.shapes import least_reachable
from rdl.resources import Resources
from tests.builders import a_cluster, a_request

HORIZON = 6
GRID = a_cluster().step("0.001s").horizon("0.006s").machines("plain", 4, cpu=1, memory="1 GiB")
CLUSTER = GRID.build()
CAPACITY = Resources.from_json({"cpu": 4, "memory": "4 GiB"})


def atom(rng: np.random.Generator) -> str:
    """Draw a small atom: g, h, lease, work in bundle-ms, sometimes in multiples."""
    multiple = int(rng.integers(1, 3))
    g = multiple * int(rng.integers(1, 3))
    h = g + multiple * int(rng.integers(0, 2))
    lease = int(rng.integers(1, 4))
    work = least_reachable(g, h, multiple, lease, multiple * int(rng.integers(1, 6)))
    bundle = rng.choice(["<1 cpu>", "<1 cpu, 1 GiB memory>", "<500m cpu, 1 GiB memory>"])
    tail = f", multiple={multiple}" if multiple > 1 else ""
    return f"atom({bundle}, {g}, {h}, 0.00{lease}, 0.0{work:02d}{tail})"


def expression(rng: np.random.Generator, depth: int) -> str:
    """Draw a small tree over all operators."""
    if depth == 0:
        return atom(rng)
    parts = [expression(rng, depth - 1) for _ in range(2)]
    match int(rng.integers(0, 9)):
        case 8:
            lease, n, m = (int(rng.integers(1, 3)) for _ in range(3))
            return (
                f"together(atom(<1 cpu>, {n}, {n}, 0.00{lease}, 0.00{n * lease}), "
                f"atom(<500m cpu, 1 GiB memory>, {m}, {m}, 0.00{lease}, 0.00{m * lease}))"
            )
        case 0:
            return f"all({parts[0]}, {parts[1]})"
        case 1:
            return f"any({parts[0]}, {parts[1]}, prefer=[1, 0.5])"
        case 2:
            return f"order({parts[0]}, {parts[1]})"
        case 3:
            return f"order({parts[0]}, {parts[1]}, gap=0..0)"
        case 4:
            return f"order({parts[0]}, {parts[1]}, gap=0.001..0.002)"
        case 5:
            return f"graph(a: {parts[0]}, b: {parts[1]}; a -> b)"
        case 6:
            return f"every(0.003, {atom(rng)}, times=2)"
        case _:
            return f"window({parts[0]}, 0.001, 0.005)"


def tiny_requests(seed: int) -> list[Request]:
    """Draw up to three requests that compile."""
    rng = np.random.default_rng(seed)
    found: list[Request] = []
    while len(found) < 3:
        text = expression(rng, int(rng.integers(0, 3)))
        drawn = a_request(f"r{len(found)}", text).weight(float(rng.integers(1, 4)))
        with suppress(ValueError):  # what no plan can satisfy is drawn again
            found.append(drawn.on(CLUSTER))
    return found


def rigid(seed: int) -> list[Request]:
    """Draw gangs of one block, alone, in chains with gaps, recurring, or as options."""
    rng = np.random.default_rng(seed)

    def gang() -> str:
        height, length = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        bundle = rng.choice(["<1 cpu>", "<1 cpu, 1 GiB memory>", "<500m cpu, 1 GiB memory>"])
        return f"atom({bundle}, {height}, {height}, 0.00{length}, 0.{height * length:03d})"

    forms = (
        lambda: gang(),
        lambda: f"order({gang()}, {gang()})",
        lambda: f"order({gang()}, {gang()}, gap=0..0.001)",
        lambda: f"order(all({gang()}, {gang()}), {gang()})",
        lambda: f"any({gang()}, {gang()}, prefer=[1, 0.6])",
        lambda: f"every(0.003, {gang()}, times=2)",
        lambda: f"window({gang()}, 0.001, 0.005)",
    )
    found: list[Request] = []
    while len(found) < 3:
        text = forms[int(rng.integers(len(forms)))]()
        drawn = a_request(f"r{len(found)}", text).weight(float(rng.integers(1, 4)))
        with suppress(ValueError):  # what no plan can satisfy is drawn again
            found.append(drawn.on(CLUSTER))
    return found


def nested_blocks(seed: int) -> list[Request]:
    """Draw requests whose groups of blocks nest, with largest gaps and preferences inside."""
    rng = np.random.default_rng(seed)

    def gang() -> str:
        height, length = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        return f"atom(<1 cpu>, {height}, {height}, 0.00{length}, 0.{height * length:03d})"

    forms = (
        lambda: f"order(any({gang()}, {gang()}, prefer=[1, 0.6]), {gang()}, gap=0..0)",
        lambda: f"order(all({gang()}, {gang()}), {gang()}, gap=0..0.001)",
        lambda: f"order({gang()}, all({gang()}, {gang()}), gap=0..0)",
        lambda: f"all(any({gang()}, {gang()}, prefer=[1, 0.5]), {gang()})",
        lambda: f"any(order({gang()}, {gang()}), any({gang()}, {gang()}, prefer=[1, 0.7]))",
        lambda: f"order(every(0.002, {gang()}, times=2), {gang()}, gap=0..0.001)",
    )
    found: list[Request] = []
    while len(found) < 3:
        text = forms[int(rng.integers(len(forms)))]()
        drawn = a_request(f"r{len(found)}", text).weight(float(rng.integers(1, 4)))
        with suppress(ValueError):  # what no plan can satisfy is drawn again
            found.append(drawn.on(CLUSTER))
    return found


def togethers(seed: int) -> list[Request]:
    """Draw requests that hold gangs together: alone, in groups, recurring, or as options."""
    rng = np.random.default_rng(seed)
    bundles = ["<1 cpu>", "<1 cpu, 1 GiB memory>", "<500m cpu, 1 GiB memory>", "<1 GiB memory>"]

    def gang(length: int) -> str:
        count = int(rng.integers(1, 3))
        work = f"0.{count * length:03d}"
        return f"atom({rng.choice(bundles)}, {count}, {count}, 0.00{length}, {work})"

    def together(longest: int = 3) -> str:
        length = int(rng.integers(1, longest + 1))
        return f"together({gang(length)}, {gang(length)})"

    forms = (
        lambda: together(),
        lambda: f"order({together(2)}, {gang(2)}, gap=0..0.001)",
        lambda: f"all({together()}, {together()})",
        lambda: f"any({together()}, {gang(2)}, prefer=[1, 0.6])",
        lambda: f"every(0.003, {together(2)}, times=2)",
        lambda: f"window({together()}, 0.001, 0.005)",
    )
    found: list[Request] = []
    while len(found) < 3:
        text = forms[int(rng.integers(len(forms)))]()
        drawn = a_request(f"r{len(found)}", text).weight(float(rng.integers(1, 4)))
        with suppress(ValueError):  # what no plan can satisfy is drawn again
            found.append(drawn.on(CLUSTER))
    return found


def gangs(count: int) -> list[Request]:
    """Draw gangs of 2 to 4 of the 4 machines with few starts each."""
    rng = np.random.default_rng(count)
    found = []
    for index in range(count):
        height, length = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        start = int(rng.integers(0, 4))
        atom = f"atom(<1 cpu>, {height}, {height}, 0.00{length}, 0.{height * length:03d})"
        text = f"window({atom}, 0.00{start}, 0.00{min(HORIZON, start + length + 2)})"
        found.append(a_request(f"r{index}", text).weight(float(rng.integers(1, 9))).on(CLUSTER))
    return found
