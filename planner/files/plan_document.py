"""Plan files: JSON with a fixed order and number format, one reservation per line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from planner.cluster.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from planner.files.errors import FileError, FileProblem
from planner.files.schema import schema_problems
from rdl.codecs.strict_json import JsonTextError, read_json

#: The advice for a file that is not JSON.
_A_PLAN: Final = "give a Plan, as `agenda plan --out` writes it"


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """The contents of a plan file, as plain JSON values.

    Attributes
    ----------
    cluster
        The cluster, in the form of cluster files.
    version
        Version of the Plan.
    step_s
        Length of a step in seconds.
    agent, order
        The agent that placed the requests, and the order in which it took them.
    reservations, refusals
        In the order of the workload; each request is in one of them.
    metrics
        See `planner.metrics.Metrics.to_json`.
    now_s
        The present of the Plan in seconds from the origin.
    """

    cluster: Mapping[str, Any]
    version: int
    step_s: int | float
    agent: str
    order: str
    reservations: tuple[Mapping[str, Any], ...]
    refusals: tuple[Mapping[str, Any], ...]
    metrics: Mapping[str, Any]
    now_s: int | float = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON in the order of the format."""
        return {
            "cluster": dict(self.cluster),
            "version": self.version,
            "step_s": self.step_s,
            **({"now": self.now_s} if self.now_s else {}),
            "agent": self.agent,
            "order": self.order,
            "reservations": [dict(one) for one in self.reservations],
            "refusals": [dict(one) for one in self.refusals],
            "metrics": dict(self.metrics),
        }

    @classmethod
    def from_json(cls, value: object, path: str = "plan") -> PlanDocument:
        """Read a plan from parsed JSON.

        Raises
        ------
        FileError
            With every problem of its form and of its cluster.
        """
        problems = schema_problems(value, "plan")
        if problems:
            raise FileError(path, problems)
        assert isinstance(value, Mapping)
        document = cls(
            value["cluster"],
            value["version"],
            value["step_s"],
            value["agent"],
            value["order"],
            tuple(value["reservations"]),
            tuple(value["refusals"]),
            value["metrics"],
            value.get("now", 0),
        )
        document.read_cluster(path)
        return document

    def read_cluster(self, path: str = "plan") -> Cluster:
        """Return the cluster.

        Raises
        ------
        FileError
            If the plan's cluster is invalid.
        """
        try:
            return cluster_from_json(self.cluster, path)
        except FileError as error:
            raise FileError(path, error.problems.each(_in_cluster)) from error

    def to_text(self) -> str:
        """Return the text of the file: deterministic, one line per reservation or refusal."""
        whole = self.to_json()
        parts = [f'"{key}": {_lines(value)}' for key, value in whole.items()]
        return "{" + ",\n ".join(parts) + "}\n"


def _lines(value: object) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(_text(entry) for entry in value) + "]"
    return _text(value)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def write_plan(document: PlanDocument, path: str | Path) -> None:
    """Write a plan file atomically; an existing file keeps its mode.

    The target of a link is written. A device or a pipe is written to, not replaced.

    Raises
    ------
    OSError
        If it cannot be written; the earlier file then remains.
    """
    text = document.to_text()
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
        else:
            _replace(target.resolve(), text)
    except OSError as error:
        error.filename = error.filename or str(path)  # the error of a full disk names no file
        raise


def _replace(target: Path, text: str) -> None:
    # Concurrent writers have files of their own: the later one replaces the whole file.
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read_plan(path: str | Path) -> PlanDocument:
    """Read a plan file.

    Raises
    ------
    FileError
        With every problem; the line for broken JSON, else the pointer.
    OSError
        If the file cannot be opened.
    """
    return PlanDocument.from_json(parse_plan(path), str(path))


def parse_plan(path: str | Path) -> Any:
    """Return the JSON value in a file, of any form.

    Raises
    ------
    FileError
        If it is not strict JSON: NaN and duplicate keys are errors.
    OSError
        If the file cannot be opened.
    """
    try:
        return read_json(Path(path).read_bytes())
    except JsonTextError as error:
        where = "" if error.at is None else f" at column {error.at[2]}"
        line = None if error.at is None else error.at[1]
        problem = FileProblem(f"{error.message}{where}", line=line, fix=error.fix or _A_PLAN)
        raise FileError(str(path), (problem,)) from error


def _in_cluster(one: FileProblem) -> FileProblem:
    return FileProblem(one.message, f"/cluster{one.pointer or ''}", one.line, one.fix)
