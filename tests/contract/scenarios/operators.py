"""Chains, siblings, options, graphs, windows in windows, best-effort sessions."""

from __future__ import annotations

from planner.placement import Code
from tests.contract.scenarios.language import FULL, UNIT, atom, one

OPERATORS = (
    one(
        "a chain as long as its window",
        f"window(order({atom(5, 5, 4, 20)}, {atom(2, 2, 3, 6)}), 0, 7)",
        {"0.0": [(0, 4, 5)], "0.1": [(4, 7, 2)]},
    ),
    one(
        "a chain longer than its window",
        f"window(order({atom(5, 5, 4, 20)}, {atom(2, 2, 3, 6)}), 0, 6)",
        Code.UNSATISFIABLE,
    ),
    one(
        "a chain that what stands pulls apart",
        f"window(order({FULL}, {FULL}), 0, 9)",
        {"0.0": [(1, 2, 10)], "0.1": [(7, 8, 10)]},
        (0, 1, 1),
        (2, 7, 1),
        (8, 9, 1),
    ),
    one(
        "holes in the wrong order for the chain",
        f"window(order({atom(10, 10, 2, 20)}, {FULL}), 0, 9)",
        Code.CAPACITY,
        (1, 6, 1),
        (8, 9, 1),
    ),
    one(
        "a chain with a least gap",
        f"window(order({UNIT}, {UNIT}, gap=3), 0, 5)",
        {"0.0": [(0, 1, 1)], "0.1": [(4, 5, 1)]},
    ),
    one(
        "a gap that does not fit", f"window(order({UNIT}, {UNIT}, gap=4), 0, 5)", Code.UNSATISFIABLE
    ),
    one(
        "without a gap, the late stage steps back to the early one",
        f"window(order({atom(10, 10, 2, 20)}, {atom(10, 10, 2, 20)}, gap=0..0), 0, 20)",
        {"0.0": [(5, 7, 10)], "0.1": [(7, 9, 10)]},
        (2, 5, 1),
        (9, 17, 1),
        (19, 20, 1),
    ),
    one(
        "no two holes touch, so no chain without a gap",
        f"window(order({atom(10, 10, 2, 20)}, {atom(10, 10, 2, 20)}, gap=0..0), 0, 20)",
        Code.CAPACITY,
        (2, 5, 1),
        (7, 17, 1),
        (19, 20, 1),
    ),
    one(
        "a largest gap that holes two apart keep",
        f"window(order({FULL}, {FULL}, gap=0..2), 0, 20)",
        {"0.0": [(3, 4, 10)], "0.1": [(6, 7, 10)]},
        (0, 3, 1),
        (4, 6, 1),
        (7, 19, 1),
    ),
    one(
        "siblings that share the window",
        f"window(all({atom(6, 6, 1, 6)}, {atom(6, 6, 1, 6)}), 0, 2)",
    ),
    one(
        "siblings that fit one by one, not together",
        f"window(all({atom(6, 6, 1, 6)}, {atom(6, 6, 1, 6)}), 0, 1)",
        Code.CAPACITY,
    ),
    one(
        "siblings side by side",
        f"window(all({atom(6, 6, 3, 18)}, {atom(4, 4, 3, 12)}), 2, 5)",
        {"0.0": [(2, 5, 6)], "0.1": [(2, 5, 4)]},
    ),
    one(
        "a gang between siblings that bend",
        f"window(all({atom(1, 10, 1, 15)}, {atom(5, 5, 1, 5)}), 0, 2)",
    ),
    one(
        "an option wider than the cluster, and another",
        f"any({atom(11, 11, 1, 11)}, {atom(4, 4, 1, 4)})",
        choices={"": 1},
    ),
    one(
        "an option too long for the window, and another",
        f"window(any({atom(1, 1, 9, 9)}, {atom(2, 2, 3, 6)}), 0, 3)",
        {"0.1": [(0, 3, 2)]},
        choices={"0": 1},
    ),
    one(
        "options none of which fits",
        f"any({atom(11, 11, 1, 11)}, {atom(12, 12, 1, 12)})",
        Code.CAPACITY,
    ),
    one(
        "an option that leaves no free capacity for what precedes",
        f"window(order({atom(1, 1, 5, 5)}, any({atom(1, 1, 8, 8)}, {atom(1, 1, 3, 3)})), 0, 8)",
        {"0.0": [(0, 5, 1)], "0.1.1": [(5, 8, 1)]},
        choices={"0.1": 1},
    ),
    one(
        "an option that fits alone but not alongside its sibling",
        f"window(all(any({atom(8, 8, 1, 8)}, {atom(4, 4, 1, 4)}), {atom(6, 6, 1, 6)}), 0, 1)",
        {"0.0.1": [(0, 1, 4)], "0.1": [(0, 1, 6)]},
        choices={"0.0": 1},
    ),
    one(
        "an option of several atoms",
        f"window(any({FULL}, all({UNIT}, {UNIT})), 0, 1)",
        {"0.1.0": [(0, 1, 1)], "0.1.1": [(0, 1, 1)]},
        (0, 1, 8),
        choices={"0": 1},
    ),
    one(
        "an any inside an any",
        f"window(any({atom(11, 11, 1, 11)}, any({FULL}, {UNIT})), 0, 1)",
        {"0.1.1": [(0, 1, 1)]},
        (0, 1, 9),
        choices={"0": 1, "0.1": 1},
    ),
    one(
        "a diamond as long as its window",
        f"window(graph(a: {UNIT}, b: {UNIT}, c: {UNIT}, d: {UNIT}; "
        "a -> b, a -> c, b -> d, c -> d), 4, 7)",
        {"0.0": [(4, 5, 1)], "0.1": [(5, 6, 1)], "0.2": [(5, 6, 1)], "0.3": [(6, 7, 1)]},
    ),
    one(
        "a graph that no orders and alls can say",
        f"window(graph(a: {UNIT}, b: {FULL}, c: {FULL}, d: {UNIT}; a -> c, b -> c, b -> d), 0, 2)",
        Code.CAPACITY,
        (1, 2, 1),
    ),
    one(
        "the same graph with capacity",
        f"window(graph(a: {UNIT}, b: {atom(9, 9, 1, 9)}, c: {atom(9, 9, 1, 9)}, d: {UNIT}; "
        "a -> c, b -> c, b -> d), 0, 2)",
        {"0.0": [(0, 1, 1)], "0.1": [(0, 1, 9)], "0.2": [(1, 2, 9)], "0.3": [(1, 2, 1)]},
    ),
    one(
        "a graph with a gap on one arrow",
        f"window(graph(a: {UNIT}, b: {UNIT}, c: {UNIT}; a -> c, b -> c gap=2), 0, 4)",
    ),
    one(
        "windows inside windows",
        f"window(window(window({UNIT}, 0, 50), 20, 90), 10, 21)",
        {"0.0.0": [(20, 21, 1)]},
    ),
    one(
        "a window inside a chain",
        f"window(order(window({FULL}, 3, 4), {FULL}), 0, 5)",
        {"0.0.0": [(3, 4, 10)], "0.1": [(4, 5, 10)]},
    ),
    one("a best-effort session", "void(<1 cpu>, 5)", {}),
    one(
        "a best-effort session alongside an atom",
        f"window(all(void(<1 cpu>, 5), {UNIT}), 0, 1)",
        {"0.1": [(0, 1, 1)]},
        (0, 1, 9),
    ),
    one("a best-effort session on a full cluster", "void(<1 cpu>, 5)", {}, (0, 100, 10)),
)
