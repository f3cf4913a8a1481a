"""Which bench cases exist, and how one is run.

A case is a module below this folder that defines ``NAME`` and ``run(small: bool)``; nothing else
has to be registered. ``run`` returns a mapping with ``params`` (what was measured) and ``figures``
(what came out, plain JSON values). Modules are found by reading their source, so that listing the
cases imports none of them.
"""

from __future__ import annotations

import ast
import importlib
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

#: Modules that are machinery, not cases.
_MACHINERY = frozenset({"__init__", "__main__", "registry", "report"})


class BenchError(ValueError):
    """A case that is not there or does not keep the contract; the message says which and why."""


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What one run of a case measured.

    Attributes
    ----------
    case
        Name of the case.
    params
        What was measured: sizes, counts, seeds.
    figures
        What came out; keys carry the unit (``gree_ms``).
    machine
        Where and of what: processor, cores, memory, load before the run, versions, commit, date.
    """

    case: str
    params: Mapping[str, object]
    figures: Mapping[str, object]
    machine: Mapping[str, object]

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "case": self.case,
            "params": dict(self.params),
            "figures": dict(self.figures),
            "machine": dict(self.machine),
        }


def find_cases(folder: Path) -> dict[str, str]:
    """Return module by case name, sorted by case, for every case in `folder` and below it.

    Modules are reported as from `folder`: ``cases.start``.

    Raises
    ------
    BenchError
        If two modules claim one name, or a module has a NAME but no ``run``.
    """
    cases: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        if path.stem in _MACHINERY:
            continue
        name, runs = _declared(ast.parse(path.read_text(encoding="utf-8"), str(path)))
        if name is None:
            continue
        if not runs:
            raise BenchError(f"{path.name} defines NAME = {name!r} but no run(small)")
        if name in cases:
            raise BenchError(f"{path.stem} and {cases[name]} are both named {name!r}")
        cases[name] = ".".join(path.relative_to(folder).with_suffix("").parts)
    return dict(sorted(cases.items()))


def _declared(tree: ast.Module) -> tuple[str | None, bool]:
    """Return the literal NAME of a module, and whether it defines ``run``."""
    name: str | None = None
    runs = False
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "run":
            runs = True
        for target, value in _assigned(statement):
            if target == "NAME" and isinstance(value, ast.Constant):
                name = str(value.value)
    return name, runs


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            yield from ((name.id, value) for name in targets if isinstance(name, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value


def run_case(case: str, module: str, *, small: bool) -> BenchResult:
    """Import one case and run it here.

    Raises
    ------
    BenchError
        If it returns anything but a mapping with ``params`` and ``figures``.
    """
    machine = describe_machine()
    outcome = importlib.import_module(f"bench.{module}").run(small)
    if not isinstance(outcome, Mapping) or not {"params", "figures"} <= outcome.keys():
        raise BenchError(f"run() of bench case {case!r} returns a mapping with params and figures")
    return BenchResult(case, outcome["params"], outcome["figures"], machine)


def describe_machine() -> dict[str, object]:
    """Return processor, cores, memory, one-minute load, versions and commit of this machine."""
    import numpy as np

    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(pages * size / 2**30, 1),
        "load_1m": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.system(),
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _commit() -> str | None:
    """Return the commit that is checked out; None outside a repository or without git."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    folder = Path(__file__).parent
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
