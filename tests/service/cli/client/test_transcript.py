"""Every command on a server, each in the forms that it has, word for word: `transcript.txt`.

Written again with ``AGENDA_ACCEPT=1`` where an output is meant to change; the difference is what a
reviewer reads.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.service.applying import an_application
from tests.service.cli.client.in_process_server import let_commands_ask
from tests.service.cli.command_line import agenda
from tests.service.conftest import Open

_TRANSCRIPT: Final = Path(__file__).with_name("transcript.txt")

#: Files of the day, by name.
_FILES: Final = {
    "one.rdl": "window(atom(<1 cpu>, 1, 4, 10m, 2h), 0, 3h)",
    "named.rdl": "order(fetch: atom(<1 cpu>, 1, 1, 10m, 10m), train: atom(<1 cpu>, 1, 1, 5m, 5m))",
    "all.rdl": "window(atom(<1 cpu>, 10, 10, 2h, 20h), +0, +4h)",
    "large.rdl": "window(atom(<1 cpu>, 20, 20, 2h, 40h), +0, +4h)",
    "late.rdl": "window(atom(<1 cpu>, 8, 8, 20m, 160m), +0, +45m)",
    "huge.rdl": "atom(<2 cpu>, 1, 1, 5m, 5m)",
    "wrong.rdl": "window(atom(<1 cpu>, 5, 2, 10m, 2h), 0, 3h)",
    "asked.rdl": "window(atom(<1 cpu>, tasks=10, each=100m), 0, 2h)",
    "several.jsonl": (
        '{"id": "s1", "rdl": "atom(<1 cpu>, 1, 1, 10m, 10m)"}\n'
        '{"id": "s2", "rdl": "window(atom(<1 cpu>, 8, 8, 1h, 8h), 0, 1h)"}\n'
    ),
    "quota.toml": 'type = "quota"\ntenant = "*"\nlimit = { cpu = 8 }\n',
    "wrong-quota.toml": 'type = "quota"\nlimt = { cpu = 8 }\n',
    "other.toml": (
        'step = "60s"\nhorizon = "4h"\n[[machines]]\nname = "plain"\ncount = 3\n'
        'resources = { cpu = 1, memory = "4 GiB" }\n'
    ),
}

#: One command a line, in order; a line that begins with a sign is a heading.
_COMMANDS: Final = """
# reservations
submit one.rdl --id first --tenant ads
submit named.rdl --id named --priority 3 --dry-run
reservations submit named.rdl --id named --weight 2 --bound
submit several.jsonl --tenant ml
submit large.rdl --id large
submit all.rdl --id whole
submit late.rdl --id late --take 1
submit late.rdl --id late
submit wrong.rdl
submit huge.rdl --id huge
submit asked.rdl --id asked -o wide
submit none.rdl
submit one.rdl --weight nan
reservations list
reservations list -o wide
reservations list -o csv
reservations list --columns id,state,code --sort -id
reservations list --state refused --no-headers
reservations list --tenant nobody
reservations list --columns id,stat
reservations list --from 1h --to 2h
reservations list --limit 2
reservations show first
reservations show named
reservations show late
reservations show none
reservations update first one.rdl --priority 2
reservations update first large.rdl
reservations update first several.jsonl
reservations update first one.rdl --revision 9
reservations update first named.rdl --dry-run
reservations cancel s1
reservations cancel s1
reservations cancel first --revision 1
# offers
offers late.rdl
offers one.rdl
offers --id late
offers --id first
offers --id late --take 9
offers late.rdl --most 1 --take 1 --tenant ml
offers
offers one.rdl --key x
offers large.rdl
# holds
holds create named.rdl --id kept --time 30s
holds create large.rdl
holds create several.jsonl
holds list
holds list -o csv
holds show kept
holds show none
holds accept kept
holds create named.rdl --id again
holds release again
holds list
# applications
apps submit work.json --id work
apps submit work.json --id ghost --reservation none
apps list
apps list -o wide
apps list -o csv
apps list --state completed
apps show work
apps show none
apps kill work
assignments
assignments -o csv
machines
machines --away -o csv
report --by queue
dispatch policy
dispatch policy --order size --no-preempt
dispatch policy --grow-below 2
# outages
outages add plain --count 2 --end 2h --dry-run
outages add plain --count 2 --end 2h --kind maintenance --reason "new switch"
outages add plain --name plain-0 --start 1h --end 2h -o csv
outages add plain --end 2h
outages add none --count 1 --end 2h
outages list
outages list -o wide
outages list -o csv
outages remove LAST
outages remove none
# cluster
cluster show
cluster show -o csv
cluster check other.toml
cluster check one.rdl
cluster what-if other.toml
cluster what-if other.toml -o csv
policies list
policies set team --limit cpu=2 --limit memory=8GiB --tenant ads
policies set team --limit cpu=4
policies set each quota.toml
policies set team
policies set team --limit cpu
policies set wrong wrong-quota.toml
policies list
policies list -o wide
policies list -o csv
policies show team
policies show team -o json
policies show none
policies remove team
policies remove team
cluster table
usage
usage --by queue -o csv
usage --by state --sort reservations --from 30m --to 1h
usage --last 1h
usage --last 1h --from 1h
# operations
status
audit
audit -o wide --limit 3
audit -o csv --kind admit
audit --user nobody
# webhooks
webhook list
webhook create http://127.0.0.1:9/ --kind accepted --tenant ads
webhook show LAST
webhook create http://127.0.0.1:9/ --kind admit
webhook create nonsense
webhook list -o wide
webhook list -o csv
webhook show none
webhook test LAST
webhook delete none
webhook delete LAST
# optimisations
optimizations list
optimizations show none
optimizations start --apply --detach
optimizations start --partial
optimizations start --weights churn=x
optimizations start --weights churn=1,churn=2
optimizations start --work 20 --solver none
optimizations list
optimizations list -o csv
optimizations show LAST
optimizations show LAST -o csv
optimizations apply LAST
optimizations undo LAST
optimizations forget LAST
optimizations apply none
optimizations undo none
optimizations forget none
# the plan
export plan.json --workload day.jsonl --cluster cluster.json
validate plan.json --workload day.jsonl
validate --audit
validate
# last: what follows a change of the cluster takes its time
cluster apply other.toml
cluster apply other.toml --yes
cluster apply other.toml
"""

#: What differs from run to run: ids that a server makes, and secrets.
_MADE: Final = re.compile(r"(?<![.\w-])(?:[a-z]+-)?[0-9a-f]{12,32}(?!\w)")
_SECRET: Final = re.compile(r"whsec_\S+")


@pytest.fixture
def day(open_service: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run commands in a folder with the files, against a service that ticks by itself never."""
    let_commands_ask(open_service(tick_s=0, webhook_networks=("127.0.0.0/8",)), monkeypatch)
    folder = tmp_path / "day"
    folder.mkdir()
    for name, text in _FILES.items():
        (folder / name).write_text(text)
    (folder / "work.json").write_text(an_application_text())
    monkeypatch.chdir(folder)


def an_application_text() -> str:
    """Return a small application as JSON."""
    return json.dumps(an_application())


@pytest.mark.usefixtures("day")
def test_every_command_prints_what_the_transcript_has() -> None:
    """Standard output, standard error and the exit code of each, in order."""
    printed = _run_all(_COMMANDS.strip().splitlines())
    if os.environ.get("AGENDA_ACCEPT"):
        _TRANSCRIPT.write_text(printed, encoding="utf-8")
    assert printed == _TRANSCRIPT.read_text(encoding="utf-8")


def _run_all(lines: Sequence[str]) -> str:
    """Return the commands with what each printed; `LAST` is the id that was made last."""
    printed, last = [], ""
    for line in lines:
        if line.startswith("#"):
            printed.append(f"{line}\n\n")
            continue
        done = agenda(*shlex.split(line.replace("LAST", last)))
        last = (_MADE.findall(done.stdout) or [last])[-1]
        text = f"$ agenda {line}\n{done.stdout}"
        text += "".join(f"! {one}\n" for one in done.stderr.splitlines())
        printed.append(f"{_MADE.sub('ID', text)}= {done.exit_code}\n\n")
    return _SECRET.sub("SECRET", "".join(printed))
