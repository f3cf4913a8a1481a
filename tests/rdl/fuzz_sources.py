"""Sources of RDL for the fuzzer: grown from the grammar, then bent, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any, Final

from rdl.operators import ARGUMENTS, REQUIRED, VARIADIC, Reads

#: Pieces that a mutation puts in; each is a whole token or the half of one.
_PIECES: Final = (
    *"()<>[]{},;:=+-.#\"'\\\n\t\0é\u2028",
    *ARGUMENTS,
    "->",
    "..",
    "1e9",
    "0",
    "-1",
    "99999999999999999999",
    "0.0001",
    "1h30m",
    "30m1h",
    "2026-01-05T09:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-02-30T00:00:00+99:99",
    "GiB",
    "memory",
    "<1 cpu>",
    "gap=",
    "prefer=[",
    "times=",
    "spread=",
    "by=rack",
    "within=rack",
    "handover=no",
    "credit=no",
    "true",
    '"Europe/Paris"',
    '"\\ud800"',
)
_ODD_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**70, 0.5, 1e-9, 1e300, float("nan"), float("inf"),
    "", "5m", "+2h", "\x00", "2026-01-05T09:00:00Z", "16 GiB", [], {}, [[]], {"": {}},
)  # fmt: skip
_SECONDS: Final = (
    "0",
    "30",
    "60",
    "90",
    "0.5",
    "1m",
    "10m",
    "1h",
    "1h30m",
    "1d",
    "2d",
    "40m",
    "2w",
)
#: Values under which most requests can be satisfied, so that the compiler gets its share.
_LIKELY: Final[dict[str, tuple[str, ...]]] = {
    "bundle": ("<1 cpu>", "<2 GiB memory, 1 cpu>"),
    "min": ("1", "2"),
    "max": ("4", "10", "100"),
    "multiple": ("1", "2"),
    "spread": ("1", "2", "30"),
    "by": ("rack",),
    "within": ("rack",),
    "values": ("1", "2"),
    "lease": ("30", "60", "2m", "1.5"),
    "work": ("2400", "1h", "90", "40m"),
    "start": ("0", "+2m", "30"),
    "end": ("1d", "20h", "2026-01-06T09:00:00+01:00"),
    "period": ("1d", "4h", "1mo"),
    "times": ("1", "3"),
    "zone": ('"Europe/Paris"',),
    "gap": ("0", "1m", "1m..1h"),
}
#: How often an argument is given that mostly wants another alongside it; the others one time in
#: four.
_RARE: Final = {"tasks": 0.005, "each": 0.005, "days": 0.05, "except": 0.05, "holidays": 0.01,
          "dates": 0.05, "day": 0.05, "values": 0.03}  # fmt: skip
_ZONES: Final = ("Europe/Paris", "America/New_York", "UTC", "Asia/Kathmandu")
_BUNDLES: Final = ("<1 cpu>", "<2 GiB memory, 1 cpu>", "<500m cpu, 1 gpu>", "<9999 cpu>", "b")


def grown_text(random: Random) -> str:
    """Return a source that follows the grammar; what it asks may still be impossible."""
    definition = "b = <1 cpu, 2 GiB memory>;\n" if random.random() < 0.5 else ""
    if random.random() < 0.1:
        definition += f"part = {_grow(random, 2)};\n"
        return f"{definition}all(part, {_grow(random, random.randint(1, 4))}, other: part)"
    return definition + _grow(random, random.randint(1, 5))


def bent_text(random: Random, source: str) -> str:
    """Return `source` after one to four cuts, doublings, swaps and insertions."""
    for _ in range(random.randint(1, 4)):
        start = random.randint(0, len(source))
        end = min(len(source), start + int(random.expovariate(0.2)))
        match random.randrange(5):
            case 0:
                source = source[:start] + source[end:]
            case 1:
                source = source[:end] + source[start:]
            case 2:
                source = source[:start] + random.choice(_PIECES) + source[end:]
            case 3:
                source = source[:start] + random.choice(_PIECES) + source[start:]
            case _:
                letter = chr(random.choice((random.randrange(128), random.randrange(0x11000))))
                source = source[:start] + letter + source[start + 1 :]
    return source


def noise(random: Random) -> str:
    """Return tokens in no order at all."""
    return "".join(random.choices(_PIECES, k=random.randint(0, 40)))


def bent_json(random: Random, value: Any) -> Any:
    """Return a JSON value with one to three places replaced, dropped or renamed (in place).

    What is put in is a copy, so that no value ever holds itself.
    """
    for _ in range(random.randint(1, 3)):
        places = _places(value)
        if not places:
            return deepcopy(random.choice(_ODD_VALUES))
        holder, key = random.choice(places)
        match random.randrange(4):
            case 0:
                holder[key] = deepcopy(random.choice(_ODD_VALUES))
            case 1:
                del holder[key]
            case 2 if isinstance(holder, dict):
                other = random.choice((*ARGUMENTS, "gap", "of", "mni", "nodes", "a/b~c"))
                holder[other] = deepcopy(holder[key])
            case _:
                other_holder, other_key = random.choice(places)
                holder[key] = deepcopy(other_holder[other_key])
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (list or object, index or key) of a value."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        here = todo.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here))
        for key in keys:
            found.append((here, key))
            if isinstance(here[key], dict | list):
                todo.append(here[key])
    return found


def _grow(random: Random, depth: int) -> str:
    operator = random.choice(tuple(ARGUMENTS)) if depth > 1 else "atom"
    if operator == "graph":
        return _grow_graph(random, depth)
    count = random.randint(1, 3) if operator in VARIADIC else 0
    parts = [_grow(random, depth - 1) for _ in range(count)]
    skipped = random.choice(("times", "until"))
    if operator == "atom" and random.random() < 0.1:
        return f"atom({random.choice(_BUNDLES)}, tasks={random.randint(1, 99)}, each=1m)"
    for name, reads in ARGUMENTS[operator].items():
        required = name in REQUIRED[operator]
        if name == skipped or not (required or random.random() < _RARE.get(name, 0.25)):
            continue
        if reads is Reads.EXPRESSION:
            value = _grow(random, depth - 1)
        elif reads is Reads.WEIGHTS:
            value = f"[{', '.join(random.choice(('1', '0.5', '0.125')) for _ in range(count))}]"
        else:
            likely = _LIKELY.get(name, ()) if random.random() < 0.9 else ()
            value = random.choice(likely) if likely else _VALUES[reads](random)
        parts.append(value if required else f"{name}={value}")
    name = random.choice(("", "", "", "part: ", '"a b": '))
    return f"{name}{operator}({', '.join(parts)})"


def _grow_graph(random: Random, depth: int) -> str:
    count = random.randint(1, 4)
    children = [f"n{index}: {_grow(random, depth - 1)}" for index in range(count)]
    arrows = []
    for _ in range(random.randint(0, 4)):
        before, after = random.randrange(count), random.randrange(count)
        gap = f" gap={_gap(random)}" if random.random() < 0.3 else ""
        arrows.append(f"n{before} -> n{after}{gap}")
    return f"graph({', '.join(children)}; {', '.join(arrows)})"


def _gap(random: Random) -> str:
    least = random.choice(_SECONDS)
    return least if random.random() < 0.5 else f"{least}..{random.choice(_SECONDS)}"


def _instant(random: Random) -> str:
    match random.randrange(4):
        case 0:
            return f"+{random.choice(_SECONDS)}"
        case 1 if random.random() < 0.3:
            return random.choice(("06:00", "22:30", "24:00", "25:00", "1:75"))
        case 1:
            return f"2026-01-0{random.randint(1, 9)}T0{random.randint(0, 9)}:30:00Z"
        case _:
            return random.choice(_SECONDS)


_VALUES: Final[dict[Reads, Callable[[Random], str]]] = {
    Reads.BUNDLE: lambda random: random.choice(_BUNDLES),
    Reads.COUNT: lambda random: str(random.choice((1, 1, 2, 3, 4, 7, 10, 100, 10**9))),
    Reads.DURATION: lambda random: random.choice(_SECONDS),
    Reads.PERIOD: lambda random: random.choice((*_SECONDS, "1mo", "3mo", "1y")),
    Reads.MONTH_DAY: lambda random: random.choice(("1", "31", "last", "first mon", "last fri")),
    Reads.WORK: lambda random: random.choice((*_SECONDS, "2400", "99999999")),
    Reads.LABEL: lambda random: random.choice(('"ssd"', '"a b"', '"none"')),
    Reads.DOMAIN: lambda random: random.choice(("rack", "zone", '"a b"', '"rack"')),
    Reads.ANSWER: lambda random: random.choice(("yes", "no")),
    Reads.INSTANT: _instant,
    Reads.ZONE: lambda random: f'"{random.choice(_ZONES)}"',
    Reads.FLAG: lambda random: random.choice(("true", "false")),
    Reads.GAP: _gap,
    Reads.DAYS: lambda random: random.choice(("[mon..fri]", "[sat, sun]", "[tue]", "[fri..mon]")),
    Reads.DATES: lambda random: random.choice(
        ("[2026-01-06]", "[2026-01-07..2026-01-09, 2026-02-01]", "[2026-13-01]")
    ),
    Reads.CALENDAR: lambda random: random.choice(("de", '"a b"')),
}
