"""``python -m bench CASE --json`` runs a case; ``--all`` runs each in a process of its own.

``CASE --keep`` keeps what came out for the pages of docs/results, ``--report`` writes their tables.

A process a case, because compiled code, caches and a case's garbage would otherwise colour the
next one's figures, and because solver libraries of two cases may not share a process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.registry import BenchError, find_cases, run_case
from bench.report import keep_run, write_report

_FOLDER = Path(__file__).resolve().parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line names; 0 when every case ran, 1 when one failed, 2 for misuse."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.report:
        changed = write_report()
        print("\n".join(f"written: {path.name}" for path in changed) or "nothing has changed")
        return 0
    cases = find_cases(_FOLDER)
    if options.list:
        print("\n".join(cases))
        return 0
    if options.keep and (options.small or options.all):
        parser.error("--keep keeps one case at full size: leave --small and --all out")
    if options.all:
        return _run_all(tuple(cases), small=options.small, as_json=options.json)
    if options.case is None:
        parser.error("name a case, or --all; --list shows them")
    if options.case not in cases:
        parser.error(f"no case {options.case!r}; there are: {', '.join(cases)}")
    result = run_case(options.case, cases[options.case], small=options.small)
    shown = result.to_json()
    print(json.dumps(shown) if options.json else _as_text(shown))
    if options.keep:
        keep_run(result)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run bench cases.")
    parser.add_argument("case", nargs="?", help="name of a case")
    parser.add_argument("--all", action="store_true", help="run every case, one process each")
    parser.add_argument("--small", action="store_true", help="small sizes: does it still run?")
    parser.add_argument("--json", action="store_true", help="one JSON object a case, one a line")
    parser.add_argument("--keep", action="store_true", help="keep the run in docs/results/data")
    parser.add_argument("--report", action="store_true", help="write the tables of docs/results")
    parser.add_argument("--list", action="store_true", help="list the cases")
    return parser


def _run_all(cases: Sequence[str], *, small: bool, as_json: bool) -> int:
    failed = []
    for case in cases:
        command = [sys.executable, "-m", "bench", case, *(["--small"] if small else [])]
        done = subprocess.run(
            [*command, *(["--json"] if as_json else [])], cwd=_FOLDER.parent, check=False
        )
        if done.returncode:
            failed.append(case)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _as_text(result: Mapping[str, object]) -> str:
    lines = [str(result["case"])]
    for part in ("params", "figures", "machine"):
        values = result[part]
        assert isinstance(values, dict)
        lines += [f"  {part}"] + [f"    {name:<28} {value}" for name, value in values.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
