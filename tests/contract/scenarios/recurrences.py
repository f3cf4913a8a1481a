"""What recurs: by a fixed period, by the civil day, without end."""

from __future__ import annotations

from datetime import UTC, datetime

from planner.placement import Code
from tests.contract.scenarios.language import FULL, HOUR, UNIT, Rows, atom, cluster, one


def daily(*hours: int) -> dict[str, Rows]:
    """Return ten cores for one hour in each occurrence of a window inside an `every`."""
    return {f"0@{k}.0": [(hour, hour + 1, 10)] for k, hour in enumerate(hours)}


PARIS = cluster(steps=24 * 7, step_ms=HOUR, origin=datetime(2026, 3, 26, 23, tzinfo=UTC))
EVERY = (
    one(
        "three times, each in its window",
        f"every(10, window({atom(10, 10, 2, 20)}, 0, 2), times=3)",
        {f"0@{k}.0": [(10 * k, 10 * k + 2, 10)] for k in range(3)},
    ),
    one(
        "one offset that suits all periods",
        f"every(10, {atom(10, 10, 5, 50)}, times=3)",
        {f"0@{k}": [(10 * k + 5, 10 * k + 10, 10)] for k in range(3)},
        (12, 15, 1),
    ),
    one(
        "no offset suits both periods",
        f"every(10, {atom(10, 10, 5, 50)}, times=2)",
        Code.CAPACITY,
        (0, 5, 1),
        (15, 20, 1),
    ),
    one(
        "each period its own offset",
        f"every(10, {atom(10, 10, 5, 50)}, times=2, same_offset=false)",
        {"0@0": [(5, 10, 10)], "0@1": [(10, 15, 10)]},
        (0, 5, 1),
        (15, 20, 1),
    ),
    one(
        "periods count from submission",
        f"every(10, {atom(1, 1, 10, 10)}, times=2)",
        {"0@0": [(7, 17, 1)], "0@1": [(17, 27, 1)]},
        submitted=7,
    ),
    one(
        "periods count from the window",
        f"window(every(10, {atom(1, 1, 10, 10)}, times=2), 13, 60)",
        {"0.0@0": [(13, 23, 1)], "0.0@1": [(23, 33, 1)]},
    ),
    one(
        "periods count from the anchor",
        f"every(10, {atom(1, 1, 10, 10)}, times=2, anchor=40)",
        {"0@0": [(40, 50, 1)], "0@1": [(50, 60, 1)]},
    ),
    one(
        "until an instant",
        f"every(10, {atom(1, 1, 10, 10)}, until=35)",
        {f"0@{k}": [(10 * k, 10 * k + 10, 1)] for k in range(3)},
    ),
    one("more often than the horizon holds", f"every(10, {UNIT}, times=11)", Code.BEYOND_HORIZON),
    one(
        "endless",
        f"every(20, {atom(1, 1, 20, 20)})",
        {f"0@{k}": [(20 * k, 20 * k + 20, 1)] for k in range(5)},
    ),
    one("endless, with one period full", f"every(20, {UNIT})", Code.CAPACITY, (60, 80, 10)),
    one(
        "a chain that recurs",
        f"every(10, window(order({FULL}, {FULL}), 0, 2), times=2)",
        {
            "0@0.0.0": [(0, 1, 10)],
            "0@0.0.1": [(1, 2, 10)],
            "0@1.0.0": [(10, 11, 10)],
            "0@1.0.1": [(11, 12, 10)],
        },
    ),
    one(
        "something after the last of what recurs",
        f"window(order(every(5, {FULL}, times=2), {FULL}), 0, 7)",
        {"0.0.0@0": [(0, 1, 10)], "0.0.0@1": [(5, 6, 10)], "0.1": [(6, 7, 10)]},
    ),
    one("a choice that recurs", f"every(10, any({atom(11, 11, 1, 11)}, {UNIT}), times=2)"),
    one(
        "civil days across a change of the clock",
        'every(1d, window(atom(<1 cpu>, 10, 10, 1h, 10h), 9h, 10h), times=4, zone="Europe/Paris", '
        "same_offset=false)",
        daily(9, 33, 56, 80),
        on=PARIS,
    ),
    one(
        "one offset across a change of the clock",
        'every(1d, window(atom(<1 cpu>, 10, 10, 1h, 10h), 9h, 11h), times=4, zone="Europe/Paris")',
        daily(9, 33, 57, 80),
        on=PARIS,
    ),
    one(
        "the last day of the month",
        "every(1mo, window(atom(<1 cpu>, 10, 10, 1h, 10h), 9h, 10h), day=last, times=1, "
        'zone="Europe/Paris")',
        daily(104),
        on=PARIS,
    ),
    one(
        "dates, and nothing but them",
        "every(1d, window(atom(<1 cpu>, 10, 10, 1h, 10h), 9h, 10h), "
        'dates=[2026-03-28, 2026-03-30], zone="Europe/Paris", same_offset=false)',
        daily(33, 80),
        on=PARIS,
    ),
)
