"""Every command on files, each in the forms that it has, word for word: `file_transcript.txt`.

Written again with ``AGENDA_ACCEPT=1`` where an output is meant to change; the difference is what a
reviewer reads.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.service.cli.command_line import agenda, sacct

_TRANSCRIPT: Final = Path(__file__).with_name("file_transcript.txt")

#: Files of the day, by name.
_FILES: Final = {
    "cluster.toml": (
        'step = "60s"\nhorizon = "2h"\norigin = "2026-11-23T08:00:00Z"\n[[machines]]\nname = "m"\n'
        "count = 4\nresources = { cpu = 4 }\n"
    ),
    "day.jsonl": "".join(
        f'{{"id": "r{n}", "tenant": "{"ab"[n % 2]}", "rdl": "window(atom(<1 cpu>, {4 + n}, '
        f'{8 + n}, {3 + n}m, {60 * (3 + n) * (8 + n)}), 0, {10 + n}m)"}}\n'
        for n in range(6)
    ),
    "bad.jsonl": '{"id": "a", "rdl": "atom(<1 cpu>, 2, 1, 5m, 5m)"}\nno line\n',
    "one.rdl": "window(atom(<1 cpu>, 1, 4, 10m, 40m), 0, 1h)",
    "classes.toml": (
        '[[classes]]\nname = "big"\nshare = 0.25\nrequest = { cpu = 3 }\nmean_time = "10m"\n'
        '[[classes]]\nname = "small"\nshare = 0.75\nrequest = { cpu = 1 }\nmean_time = "2m"\n'
    ),
    "sacct.txt": sacct(),
}

#: One command a line, in order; a line that begins with a sign is a heading.
_COMMANDS: Final = """
# plan
plan cluster.toml day.jsonl --out plan.json
plan cluster.toml day.jsonl -o wide
plan cluster.toml day.jsonl -o csv
plan cluster.toml day.jsonl --strict --offers 1
plan cluster.toml one.rdl --tenant ads --queue q -o csv
plan cluster.toml bad.jsonl
plan cluster.toml none.jsonl
plan cluster.toml day.jsonl --agent gre
plan cluster.toml day.jsonl --agent gree --solver highs
plan cluster.toml day.jsonl --agent milp --solver glop
plan cluster.toml day.jsonl --agent milp --solver pulp:none
plan cluster.toml day.jsonl --agent milp --write-model model.txt
plan cluster.toml day.jsonl --gap 101
plan cluster.toml day.jsonl --time-limit never
plan cluster.toml day.jsonl --out none/plan.json
plan cluster.toml day.jsonl --picture plan.gif
# compare
compare cluster.toml day.jsonl --agents gree,gree-l
compare cluster.toml day.jsonl --agents gree,gree-l -o csv
compare cluster.toml day.jsonl --agents gree,gree-l --html page.html --seed 3
compare cluster.toml day.jsonl --agents gree,gree
compare cluster.toml day.jsonl --agents gree,none
compare cluster.toml day.jsonl --time-limit none=3s
compare cluster.toml day.jsonl --time-limit milp=soon
compare cluster.toml day.jsonl --workers 2 --dask tcp://127.0.0.1:1
compare cluster.toml day.jsonl --dask here
# optimize
optimize plan.json --work 20 --no-solver --admit-refused
optimize plan.json --work 20 --no-solver -o csv
optimize plan.json --work 20 --solver exact --no-solver
optimize plan.json --pin none --work 5
optimize plan.json --frozen-until 3h
optimize plan.json --weights churn=x
optimize plan.json --weights none=1
optimize day.jsonl
# lotes
lotes cluster.toml classes.toml
lotes cluster.toml classes.toml --explain --rate 100/h
lotes cluster.toml classes.toml -o csv
lotes cluster.toml classes.toml -o json --explain --mode paper --wheel flow
lotes cluster.toml day.jsonl
lotes cluster.toml plan.json --rate 1/m
lotes cluster.toml classes.toml --solver hihgs
lotes cluster.toml classes.toml --solver pulp:none
lotes cluster.toml classes.toml --rate many
lotes cluster.toml classes.toml --picture lotes.gif
lotes cluster.toml bad.jsonl
# estimate
estimate sacct.txt
estimate sacct.txt -o json --back-test
estimate sacct.txt -o rdl --gang --slack 1 --step 5m --zone Europe/Paris
estimate sacct.txt --back-test --confidence 0.99 --key name --for 2026-12-01
estimate sacct.txt --job none
estimate sacct.txt --job bob/adhoc
estimate sacct.txt --key colour
estimate sacct.txt --step 1500ms
estimate sacct.txt --for 1960-01-01
estimate sacct.txt --zone Nowhere
estimate sacct.txt --format swf
estimate sacct.txt --figure here.gif
# databases
token list --database sqlite:///agenda.db
token create ann --tenant ads
token create ann --role admin --database sqlite:///agenda.db
token create bob --tenant ads --tenant ml --end 90d --database sqlite:///agenda.db
token create "a b" --tenant ads --database sqlite:///agenda.db
token create eve --role user --database sqlite:///agenda.db
token create eve --tenant ads --end 2020-01-01T00:00:00Z --database sqlite:///agenda.db
token list --database sqlite:///agenda.db --columns name,role,tenants,good
token list --database sqlite:///agenda.db --columns name,role,tenants,good --sort -name -o csv
token list --database sqlite:///agenda.db --columns name,colour
token revoke none --database sqlite:///agenda.db
backup agenda.backup --database sqlite:///agenda.db
backup agenda.backup --database sqlite:///agenda.db
restore agenda.backup --database sqlite:///other.db
restore agenda.backup --database sqlite:///other.db
restore one.rdl --database sqlite:///third.db
upgrade --database sqlite:///other.db --dry-run
upgrade --database sqlite:///none.db
clock confirm --database sqlite:///none.db
diag --database sqlite:///none.db --lines 0
serve --port 70000
serve --agent gre
serve --dask here
serve --agent-time nan
"""

#: What differs from run to run: ids and secrets that are made, and run times, a last column.
_MADE: Final = re.compile(r"(?<![.\w-])(?:[a-z]+-)?[0-9a-f]{12,32}(?!\w)")
_SECRET: Final = re.compile(r"agenda_\S+")
_RUN_TIME: Final = re.compile(r"((?:^|\n)(?=[^\n]*runtime_ms\n)[^\n:]*\n)((?:[^\n=]*[\d,.]+\n)+)")
_LAST: Final = re.compile(r" *[\d.]+$", re.MULTILINE)
_SECONDS: Final = re.compile(r"(\"(?:build|solve)_s\": )[\d.e-]+")


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run commands in a folder with the files."""
    for name, text in _FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("day")
def test_every_command_on_files_prints_what_the_transcript_has() -> None:
    """Standard output, standard error and the exit code of each, in order."""
    printed = _run_all(_COMMANDS.strip().splitlines())
    if os.environ.get("AGENDA_ACCEPT"):
        _TRANSCRIPT.write_text(printed, encoding="utf-8")
    assert printed == _TRANSCRIPT.read_text(encoding="utf-8")


def _run_all(lines: Sequence[str]) -> str:
    """Return the commands with what each printed."""
    printed = []
    for line in lines:
        if line.startswith("#"):
            printed.append(f"{line}\n\n")
            continue
        done = agenda(*shlex.split(line))
        text = f"$ agenda {line}\n{done.stdout}"
        text += "".join(f"! {one}\n" for one in done.stderr.splitlines())
        printed.append(f"{text}= {done.exit_code}\n\n")
    text = _SECRET.sub("SECRET", _MADE.sub("ID", "".join(printed)))
    text = _SECONDS.sub(r"\1TIME", text)
    return _RUN_TIME.sub(lambda table: table[1] + _LAST.sub("TIME", table[2]), text)
