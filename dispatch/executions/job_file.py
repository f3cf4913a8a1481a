"""Job files: a request in RDL, and the work of each of its stages.

A stage is an atom of the request by its name. It becomes an application that runs the stage's
command once in each of the atom's bundles: as many as the atom always has are core, those that it
may have besides are elastic. So the reservation covers the applications by construction. Each run
of a job with `every` around its stages has its own applications (`dispatch.executions.job_runs`
computes when they are due).
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from dispatch.applications.application import BACKOFF_MS, ELASTIC, Application, Component
from dispatch.applications.document import (
    MOST_RETRIES,
    MOST_TASKS,
    application_from_json,
    application_to_json,
    read_codes,
    read_directory,
    read_environment,
    read_image,
    read_length,
    read_ports,
)
from dispatch.applications.document_reader import Fields, brief_text, escape
from dispatch.executions.predecessors import is_below, predecessors_of
from planner.files.errors import FileError, FileProblem, FileProblems
from rdl.errors import nearest
from rdl.expressions import AnyOf, Atom, Every, Expression, Together, Void, children_of
from rdl.names import PartNames

_KEYS: Final = (
    "command", "environment", "directory", "retries", "backoff", "timeout", "success", "on_late",
    "ports", "tasks", "image",
)  # fmt: skip

#: Most stages of a job, and most characters of a command.
_MOST_STAGES: Final = 500
_LONGEST_COMMAND: Final = 65_536

_LONGEST_ID: Final = 128

#: Most characters that a run and an attempt add to the id of an application.
_RUN_MARKS: Final = 16

#: What a name does not have, and what an atom is called has that has none of its own.
_WORDS: Final = re.compile(r"[^A-Za-z0-9_.-]")


class OnLate(StrEnum):
    """The reaction of a late stage (`dispatch.accounts.late_stages`)."""

    EXTEND = "extend"  # it asks for more time
    FAIL = "fail"  # it fails at the end of its slots


@dataclass(frozen=True, slots=True)
class Stage:
    """The work of one stage.

    Attributes
    ----------
    name
        Path of its atom in the request.
    command
        For the shell; None: that of the image.
    environment, directory, timeout_ms, success, ports, image
        As of `Component`.
    retries, backoff_ms
        As of `Application`.
    on_late
        What it does when it is late; None: it continues.
    tasks
        As of `Application`.
    """

    name: str
    command: str | None
    environment: tuple[tuple[str, str], ...]
    directory: str | None
    retries: int
    backoff_ms: int
    timeout_ms: int | None
    success: tuple[int, ...]
    on_late: OnLate | None
    ports: tuple[str, ...]
    tasks: int
    image: str | None


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job that recurs.

    Attributes
    ----------
    number
        From 0, in the order in which runs start.
    occurrence
        The occurrence of `every` in whose slots it runs.
    start
        Start of its first slot, for its commands: RFC 3339, or seconds where no origin is known.
    """

    number: int
    occurrence: int
    start: str


@dataclass(frozen=True, slots=True)
class StageApplication:
    """The application of a stage.

    Attributes
    ----------
    id
        As of `stage_id`.
    application
        It runs under the reservation of the job, in the atom of the stage.
    after
        Paths of the atoms before its own.
    needs
        Ids of the applications of all stages before it.
    on_late
        Its reaction if it is late; empty: it continues.
    """

    id: str
    application: Application
    after: tuple[str, ...]
    needs: tuple[str, ...]
    on_late: str


def read_stages(value: object, problems: FileProblems) -> tuple[Stage, ...]:
    """Return the stages of a job by name; errors are added to `problems`."""
    fields = Fields(value, "/stages", problems)
    if fields.is_object and not 1 <= len(fields.entries) <= _MOST_STAGES:
        fields.note(f"there are {len(fields.entries)} stages, not 1 to {_MOST_STAGES}")
        return ()
    return tuple(_read_stage(name, entry, problems) for name, entry in fields.entries.items())


def _read_stage(name: str, value: object, problems: FileProblems) -> Stage:
    fields = Fields(value, f"/stages/{escape(name)}", problems, _KEYS)
    image = read_image(fields)
    if image is None:
        fields.require("command")
    return Stage(
        name=name,
        command=_read_command(fields) if image is None or fields.has("command") else None,
        environment=read_environment(fields),
        directory=read_directory(fields),
        retries=fields.whole("retries", 0, MOST_RETRIES),
        backoff_ms=read_length(fields, "backoff") or BACKOFF_MS,
        timeout_ms=read_length(fields, "timeout"),
        success=read_codes(fields),
        on_late=_read_on_late(fields),
        ports=read_ports(fields),
        tasks=fields.whole("tasks", 1, MOST_TASKS) if fields.has("tasks") else 0,
        image=image,
    )


def _read_on_late(fields: Fields) -> OnLate | None:
    if not fields.has("on_late"):
        return None
    value = fields.entries["on_late"]
    if isinstance(value, str) and value in set(OnLate):
        return OnLate(value)
    fix = f"write one of {', '.join(OnLate)}, or leave it out"
    fields.note(f"{brief_text(value)} is not what a stage can do", "on_late", fix)
    return None


def _read_command(fields: Fields) -> str:
    """Return a command for the shell: an unchanged script, or quoted words."""
    value = fields.entries.get("command", "true")
    if isinstance(value, list | tuple):
        words = [one for one in value if isinstance(one, str)]
        if not words or len(words) < len(value):
            message = f"expected a script, or a list of words, not {brief_text(value)}"
            fields.note(message, "command", 'write such as ["./extract.sh", "--all"]')
            return ""
        value = shlex.join(words)
    if not isinstance(value, str) or not value.strip():
        fix = 'write such as ["./extract.sh", "--all"]'
        fields.note(
            f"expected a script, or a list of words, not {brief_text(value)}", "command", fix
        )
        return ""
    if len(value) > _LONGEST_COMMAND or "\0" in value:
        message = f"a command has at most {_LONGEST_COMMAND:,} characters, none of them NUL"
        fields.note(message, "command")
    return value


def stage_id(job: str, stage: str, run: int | None = None, attempt: int = 1) -> str:
    """Return the id of the application of a stage: ``JOB.STAGE``, ``JOB.STAGE@RUN~ATTEMPT``."""
    number = "" if run is None else f"@{run}"
    return f"{job}.{stage}{number}" + (f"~{attempt}" if attempt > 1 else "")


def recurrence_of(expression: Expression) -> str | None:
    """Return the path of the outermost `every` of a request, or None if it has none."""
    return next((path for path, one in _parts_of(expression, "") if isinstance(one, Every)), None)


def applications_of(
    id_: str,
    expression: Expression,
    stages: Sequence[Stage],
    problems: FileProblems,
    run: JobRun | None = None,
) -> tuple[StageApplication, ...]:
    """Return the applications of a job, or of one run of it, in the order of its atoms.

    Parameters
    ----------
    id_
        Id of the job's reservation.
    expression
        The request; each of its atoms is the stage of the same name.
    problems
        Mismatches are added: an atom without a stage, a stage without an atom.
    run
        Run of a recurring job; without it the applications of any run.
    """
    before = problems.total
    atoms = _stage_atoms(expression, problems)
    by_name = {stage.name: stage for stage in stages}
    if len(atoms) == 1 and None in atoms and len(stages) == 1:  # the request is the stage
        atoms = {stages[0].name: atoms[None]}
    known = [name for name in atoms if name is not None]
    every = recurrence_of(expression)
    longest = _LONGEST_ID - (0 if every is None else _RUN_MARKS)
    for name in (one for one in by_name if one not in atoms):
        near = nearest(name, known)
        named = f"the atoms are {', '.join(known)}" if known else "write NAME: atom(...)"
        fix = f"did you mean {near!r}?" if near else named
        message = f"no atom of the request is called {name!r}"
        problems.append(FileProblem(message, f"/stages/{escape(name)}", fix=fix))
    for name in known:
        is_member = isinstance(_above(expression, atoms[name][0]), Together)
        extends = name in by_name and by_name[name].on_late is OnLate.EXTEND
        if extends and (every is not None or is_member):
            whose = "the members of a together" if is_member else "the runs of a job that recurs"
            message = f"{whose} cannot get more time"
            fix = 'write "fail", or leave it out'
            problems.append(FileProblem(message, f"/stages/{escape(name)}/on_late", fix=fix))
        if is_member and name in by_name and by_name[name].tasks:
            message = "the members of a together run at the same time, and have no tasks"
            problems.append(FileProblem(message, f"/stages/{escape(name)}/tasks"))
        if name not in by_name:
            message = f"the atom {name!r} of the request has no stage: nothing would run in it"
            fix = f"add [stages.{name}] with its command"
            problems.append(FileProblem(message, "/stages", fix=fix))
        elif len(stage_id(id_, name)) > longest:
            message = f"the id {stage_id(id_, name)!r} is longer than {longest} characters"
            problems.append(FileProblem(message, f"/stages/{escape(name)}"))
    if problems.total > before:
        return ()
    paths = {
        path if run is None or every is None else _in_occurrence(path, every, run.occurrence): name
        for name, (path, _) in atoms.items()
        if name is not None
    }
    made = tuple(
        _application_of(id_, by_name[name], path, atoms[name][1], expression, paths, run)
        for path, name in paths.items()
    )
    joined = _join_members(id_, expression, made)
    if run is None:
        _check_applications(joined, longest, problems)
    return () if problems.total > before else joined


def _check_applications(
    made: Sequence[StageApplication], longest: int, problems: FileProblems
) -> None:
    """Add errors of applications in their stored form, which the dispatcher has to read."""
    ids = Counter(one.id for one in made)
    for one in made:
        where = f"/stages/{escape(one.application.name)}"
        if ids[one.id] > 1 or len(one.id) > longest:
            wrong = "is of two stages" if ids[one.id] > 1 else f"has more than {longest} characters"
            fix = "give the together, or an atom, another name"
            problems.append(FileProblem(f"the id {one.id!r} {wrong}", "/rdl", fix=fix))
        try:
            application_from_json(application_to_json(one.application))
        except FileError as error:
            problems.extend(
                FileProblem(each.message, where, fix=each.fix) for each in error.problems
            )


def _join_members(
    id_: str, expression: Expression, made: tuple[StageApplication, ...]
) -> tuple[StageApplication, ...]:
    """Return applications with those of the members of each `together` as one.

    Each member is a component of it, covered by its own atom: so all of them start, or none. It has
    the name of the `together`, or of its members; the most retries and the longest pause of them.
    """
    names = PartNames(expression)
    groups: dict[str, list[StageApplication]] = {}
    for one in made:
        path = one.application.atom or ""
        whole = path.rpartition(".")[0]
        is_member = path and isinstance(_part_at(expression, whole), Together)
        groups.setdefault(f"{whole}." if is_member else path, []).append(one)
    joined: dict[str, str] = {}
    found: list[StageApplication] = []
    for group in groups.values():
        first = group[0]
        if len(group) > 1:
            path = (first.application.atom or "").rpartition(".")[0]
            name = names.at(re.sub(r"@[0-9]+", "", path))  # the same in each run
            if name is None or _WORDS.search(name):
                name = "-".join(one.application.name for one in group)
            # What stands behind the name of a stage stays: which run it is of.
            number = first.id.removeprefix(f"{id_}.{first.application.name}")
            own_id = f"{id_}.{name}{number}"
            joined |= {one.id: own_id for one in group}
            application = _together(name, path, group)
            on_late = next((one.on_late for one in group if one.on_late), "")
            found.append(replace(first, id=own_id, application=application, on_late=on_late))
        else:
            found.append(first)
    return tuple(
        replace(one, needs=tuple(dict.fromkeys(joined.get(id_, id_) for id_ in one.needs)))
        for one in found
    )


def _together(name: str, path: str, members: Sequence[StageApplication]) -> Application:
    """Return the one application of the members of a `together`."""
    applications = [one.application for one in members]
    return replace(
        applications[0],
        name=name,
        components=tuple(
            replace(component, atom=one.atom)
            for one in applications
            for component in one.components
        ),
        atom=path or None,
        retries=max(one.retries for one in applications),
        backoff_ms=max(one.backoff_ms for one in applications),
        needs_every_core=True,
    )


def _above(expression: Expression, path: str) -> Expression | None:
    """Return the part of which the part at a path is a child; None for the whole request."""
    return _part_at(expression, path.rpartition(".")[0]) if path else None


def _part_at(expression: Expression, path: str) -> Expression:
    """Return the part at a path that exists, with or without numbers of occurrences."""
    here = expression
    for step in path.split(".") if path else []:
        here = children_of(here)[int(step.partition("@")[0])]
    return here


def _in_occurrence(path: str, every: str, occurrence: int) -> str:
    """Return the path of an atom in one occurrence of the `every` at a path above it."""
    child = f"{every}.0" if every else "0"
    return f"{child}@{occurrence}{path[len(child) :]}"


def _application_of(
    id_: str,
    stage: Stage,
    path: str,
    atom: Atom,
    expression: Expression,
    paths: Mapping[str, str],
    run: JobRun | None,
) -> StageApplication:
    number = None if run is None else run.number
    own = () if run is None else _own_environment(id_, run)
    most = min(atom.maximum, stage.tasks or atom.maximum)
    core = Component(
        name=stage.name,
        count=min(max(1, atom.minimum), most),
        core=True,
        resources=atom.bundle,
        command=stage.command,
        labels=frozenset() if atom.on is None else frozenset({atom.on}),
        environment=(*stage.environment, *own),
        directory=stage.directory,
        timeout_ms=stage.timeout_ms,
        success=stage.success,
        ports=stage.ports,
        image=stage.image,
    )
    components = [core]
    if most > core.count:
        more = most - core.count
        components.append(replace(core, core=False, name=f"{stage.name}{ELASTIC}", count=more))
    after = predecessors_of(expression, path)
    application = Application(
        name=stage.name,
        components=tuple(components),
        size_ms=max(1, -(-atom.work_ms // atom.maximum)),
        reservation=id_,
        atom=path or None,
        retries=stage.retries,
        backoff_ms=stage.backoff_ms,
        tasks=stage.tasks,
    )
    needs = [
        stage_id(id_, name, number)
        for other, name in paths.items()
        if any(is_below(other, prefix) for prefix in after)
    ]
    id_of_stage = stage_id(id_, stage.name, number)
    return StageApplication(id_of_stage, application, after, tuple(needs), stage.on_late or "")


def _own_environment(id_: str, run: JobRun) -> tuple[tuple[str, str], ...]:
    """Return the environment that identifies the run of a job to a command."""
    return (
        ("AGENDA_JOB", id_),
        ("AGENDA_JOB_RUN", str(run.number)),
        ("AGENDA_JOB_TIME", run.start),
    )


def _stage_atoms(
    expression: Expression, problems: FileProblems
) -> dict[str | None, tuple[str, Atom]]:
    """Return the path and the atom of every stage by its name; None: it is the whole request."""
    names = PartNames(expression)
    found: dict[str | None, tuple[str, Atom]] = {}
    every = recurrence_of(expression)
    for path, part in _parts_of(expression, ""):
        is_second = isinstance(part, Every) and path != every
        outside = isinstance(part, Atom) and every is not None and not is_below(path, every)
        if is_second or (outside and every):
            message = "a job that recurs has one every(...), with all of its stages inside"
            problems.append(FileProblem(message, "/rdl", fix="run the parts as jobs of their own"))
        elif isinstance(part, AnyOf | Void):
            message = "each stage of a job is an atom that is reserved: it has no any(...) or void"
            problems.append(FileProblem(message, "/rdl"))
        elif isinstance(part, Atom):
            name = names.at(path)
            if name is not None and _WORDS.search(name):
                message = f"this atom has no name of its own, so no stage can be it: {name}"
                problems.append(FileProblem(message, "/rdl", fix="write NAME: atom(...)"))
            else:
                found[name] = (path, part)
    return found


def _parts_of(expression: Expression, path: str) -> Iterator[tuple[str, Expression]]:
    yield path, expression
    for place, child in enumerate(children_of(expression)):
        yield from _parts_of(child, f"{path}.{place}" if path else str(place))
