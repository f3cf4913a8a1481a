"""Bad requests and files, typed at a command: each message says where and what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from service.cli.kit.errors import AWAY, ERROR, USAGE
from tests.service.cli.command_line import agenda

#: RDL of one line, the column and width that are marked, and what is said of them.
TEXTS: Final = (
    (
        "window(atom(<1 cpu>, 1, 1, 1h, 1h), 06:00, 08:00)",
        (1, 49),
        'a time of day needs a zone; write zone="Europe/Paris" in its window or every, or zone in '
        "the cluster file",
    ),
    ("atom(<1 cpu>, 4, 2, 1h, 4h)", (1, 27), "min 4 is more than max 2; write max=4 or more"),
    ("atom(<1 cpus>, 1, 1, 1h, 1h", (5, 1), "'(' is never closed; write ')' at its end"),
    (
        "windw(atom(<1 cpu>, 1, 1, 1h, 1h), 0, 1h)",
        (1, 5),
        "unknown operator 'windw'; did you mean 'window'?",
    ),
    (
        "window(train: atom(<1 cpu>, 1, 1, 2h, 2h), 0, 1h)",
        (15, 27),
        "train takes at least 2h, but its window, from 0s to 1h after the origin, is 1h; leave it "
        "at least 2h, or ask for less",
    ),
    (
        "atom(<1 cpu>, 1, 1, 1 hour, 1h)",
        (23, 4),
        "expected ',' or ')' before 'hour'; a unit stands right behind its number, such as 5m",
    ),
    (
        'every(1d, atom(<1 cpu>, 1, 1, 1h, 1h), zone="Europe/Berln", times=3)',
        (45, 14),
        "unknown time zone 'Europe/Berln'; did you mean 'Europe/Berlin'?",
    ),
    (
        'every(1d, all(window(atom(<1 cpu>, 1, 1, 1h, 1h), 22:00, 06:00)), zone="Europe/Berlin")',
        (1, 87),
        "from 22:00 to 06:00 it passes 00:00, where one day ends and the next begins; write "
        "anchor=14:00, and each period begins then",
    ),
    (
        "atom(<1 cpu>, tasks=100)",
        (1, 24),
        "atom needs each; write atom(bundle, tasks=100, each=5m)",
    ),
    (
        "any(atom(<1 cpu>,1,1,1h,1h), atom(<1 cpu>,1,1,1h,1h), prefer=[1])",
        (62, 1),
        "prefer has 1 values for 2 options; write one in (0, 1] for each option",
    ),
    ('{"all": [}', (10, 1), "not JSON: Expecting value; write an object {...}"),
)

#: RDL as JSON, and the one problem with its pointer.
DOCUMENTS: Final = (
    (
        '{"atom": {"bundle": {"cpu": 1}, "min": 1, "max": 1, "lease": "1h"}}',
        "/atom: atom needs work; its keys are bundle, min, max, lease, work, multiple, on, spread, "
        "by, within, values, handover, credit, tasks, each",
    ),
    (
        '{"atom": {"bundle": {"cpu": -1}, "min": 1, "max": 1, "lease": "1h", "work": "1h"}}',
        "/atom/bundle/cpu: an amount of cpu must be zero or more",
    ),
    (
        '{"window": {"of": {"atm": {}}, "start": 0, "end": 60}}',
        "/window/of/atm: unknown operator 'atm'; did you mean 'atom'?",
    ),
)

#: A cluster that is right.
CLUSTER: Final = """\
step = "60s"
horizon = "1d"

[[machines]]
name = "m"
count = 4
resources = { cpu = 8 }
"""

#: A line of it, what is placed there instead, and what is said, a problem a line.
CLUSTERS: Final = (
    (
        'step = "60s"',
        "step = 60s",
        "line 1: not TOML: Expected newline or end of document after a statement; texts stand in "
        'quotes: step = "60s"',
    ),
    (
        'step = "60s"',
        'step = "1 minute"',
        "/step: '1 minute' is not a duration; write seconds (90, 1.5) or a duration such as 90s, "
        "15m, 1h30m, 2d",
    ),
    (
        'horizon = "1d"',
        'horizon = "1d"\nzone = "Berlin"',
        "/zone: unknown time zone 'Berlin'; did you mean 'Europe/Berlin'?",
    ),
    (
        "count = 4",
        "counts = 4",
        "/machines/0: 'count' is missing; write such as 4",
        "/machines/0/counts: unknown key 'counts'; did you mean 'count'?",
    ),
    (
        "resources = { cpu = 8 }",
        "resources = { cpu = 8 }\n[[outages]]\nmachines = 'n'\ncount = 1\nstart = '2h'\nend = '1h'",
        "/outages/0/end: the outage ends before it starts; write an end after its start",
        "/outages/0/machines: no machines are called 'n'; write one of m",
    ),
    (
        "resources = { cpu = 8 }",
        'resources = { cpu = "many" }',
        "/machines/0/resources: cannot read 'many' as an amount of cpu; write 4 or '16 GiB'",
    ),
    (
        "resources = { cpu = 8 }",
        'resources = { cpu = 8 }\n[promises]\nlevel = "firm"',
        "/promises/level: 'firm' is not known here; write one of pooled, placed",
    ),
    (
        "resources = { cpu = 8 }",
        'resources = { cpu = 8 }\n[calendars]\nde = ["2026-02-30"]',
        "/calendars/de: '2026-02-30' is no date; write such as 2026-12-25",
    ),
)

_DURATION: Final = "write seconds (90, 1.5) or a duration such as 90s, 15m, 1h30m, 2d"

#: What is typed where `cluster.toml`, `job.rdl` and `day.jsonl` are files, and what is said.
COMMANDS: Final = (
    (
        "plan cluster.toml day.jsonl",
        ERROR,
        "day.jsonl: line 1: /: 'rdl' is missing; write such as \"atom(<1 cpu>, 1, 1, 1h, 1h)\"\n"
        "day.jsonl: line 2: /submitted: 'soon' is not a duration; write seconds (90), a duration "
        "(2h), +2h or 2026-01-05T09:00:00Z\n"
        "day.jsonl: line 3: not JSON: Expecting value at column 1; write one JSON object a line\n"
        "agenda: day.jsonl: none of its lines is a request",
    ),
    (
        "plan cluster.toml job.rdl --agent greee",
        USAGE,
        "Error: Invalid value for '--agent': there is no agent 'greee'; write gree",
    ),
    (
        "plan cluster.toml job.rdl --time-limit soon",
        USAGE,
        f"Error: Invalid value for '--time-limit': 'soon' is not a duration; {_DURATION}",
    ),
    (
        "plan cluster.toml job.rdl --picture a.gif",
        ERROR,
        "agenda: a.gif: a picture ends in .svg or .png",
    ),
    (
        "compare cluster.toml day.jsonl --agents gree,gree",
        USAGE,
        "Error: Invalid value for '--agents': 'gree,gree': give each name once",
    ),
    (
        "optimize cluster.toml",
        ERROR,
        "agenda: cluster.toml: line 1: not JSON: Expecting value at column 1; give a Plan, as "
        "`agenda plan --out` writes it",
    ),
    (
        "optimize cluster.toml --weights churn=much",
        ERROR,
        "agenda: --weights: 'much' is not a number; write churn=10",
    ),
    ("pln cluster.toml", USAGE, "Error: No such command 'pln'. Did you mean 'plan'?"),
    (
        "reservations list --server localhost:8080",
        ERROR,
        "agenda: 'localhost:8080' is not a server's URL; write http://127.0.0.1:8080",
    ),
    (
        "reservations list --server http://127.0.0.1:9",
        AWAY,
        "agenda: no answer from http://127.0.0.1:9 ([Errno 111] Connection refused); is `agenda "
        "serve` running?",
    ),
    (
        "submit job.rdl --take 11",
        USAGE,
        "Error: Invalid value for '--take': 11 is not in the range 1<=x<=10.",
    ),
    (
        "rdl check job.rdl --origin yesterday",
        ERROR,
        "agenda: --origin: 'yesterday' is not an instant with a zone; write an instant such as "
        "2026-01-05T09:00:00Z or 2026-01-05T09:00:00+01:00",
    ),
    ("offers --most 3", USAGE, "Error: give either FILE or --id"),
    ("offers job.rdl --key nightly", USAGE, "Error: --key needs --take"),
    (
        "reservations wait a --timeout soon",
        USAGE,
        f"Error: Invalid value for --timeout: 'soon' is not a duration; {_DURATION}",
    ),
    ("import swf cluster.toml", ERROR, "agenda: cluster.toml: line 1: 18 columns, not 3"),
)


@pytest.mark.parametrize(("source", "marked", "message"), TEXTS)
def test_rdl_text(tmp_path: Path, source: str, marked: tuple[int, int], message: str) -> None:
    """The line and column, what is wrong and what would be right, and carets under it."""
    file = tmp_path / "job.rdl"
    file.write_text(source)
    done = agenda("rdl", "check", file)
    column, width = marked
    carets = " " * (column - 1) + "^" * width
    assert done.exit_code == ERROR
    assert done.stderr == (
        f"{file}: 1 problem\nline 1, column {column}: {message}\n    {source}\n    {carets}\n"
    )


@pytest.mark.parametrize(("source", "message"), DOCUMENTS)
def test_rdl_as_json(tmp_path: Path, source: str, message: str) -> None:
    """The pointer stands instead of line and column."""
    file = tmp_path / "job.json"
    file.write_text(source)
    done = agenda("rdl", "check", file)
    assert (done.exit_code, done.stderr) == (ERROR, f"{file}: 1 problem\n{message}\n")


@pytest.mark.parametrize(("right", "wrong", "messages"), [(a, b, c) for a, b, *c in CLUSTERS])
def test_cluster_files(tmp_path: Path, right: str, wrong: str, messages: list[str]) -> None:
    """Each problem with its pointer, or the line of broken TOML."""
    file = tmp_path / "cluster.toml"
    file.write_text(CLUSTER.replace(right, wrong))
    done = agenda("cluster", "check", file)
    told = "".join(f"{file}: {message}\n" for message in messages)
    assert (done.exit_code, done.stderr) == (ERROR, f"agenda: {told}")


@pytest.mark.parametrize(("typed", "code", "message"), COMMANDS)
def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, message: str
) -> None:
    """The option or the file, and what may are there; what click adds is left out."""
    monkeypatch.chdir(tmp_path)
    Path("cluster.toml").write_text(CLUSTER)
    Path("job.rdl").write_text("atom(<1 cpu>,1,1,1h,1h)\n")
    Path("day.jsonl").write_text(
        '{"id": "a", "submitted": 0}\n'
        '{"id": "b", "rdl": "atom(<1 cpu>,1,1,1h,1h)", "submitted": "soon"}\n'
        "not json\n"
    )
    done = agenda(*typed.split())
    said = done.stderr[done.stderr.index("Error: ") :] if code == USAGE else done.stderr
    assert (done.exit_code, said) == (code, f"{message}\n")
