"""Requests of clients: their members, and their conversion to an `Ask` for the planner.

The server adds to a request before it is planned; the answer says so in its notes.

- Memory: bundles that name none get their cores' share (`planner.cluster.memory_share`).
- Start delays: Rayon 5.2 enlarges a reservation by the delay of its scheduler. Here each lease is
extended by the start delay of work of its size, if the cluster's policy has `allow_start`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from dispatch.backends.kubernetes.records import ID_PREFIX
from dispatch.entitlements.start_delay import StartDelayTable, enlarge
from planner.agents import AGENT_NAMES
from planner.plan.batch.admission import level_refusal
from planner.promise import PromiseLevel
from planner.request import Request, text_as_written
from planner.reservations.reservation import Reservation
from planner.reservations.state import Transition
from rdl.compile.source import read_source
from rdl.errors import RdlError, did_you_mean
from rdl.expressions import Expression, atoms_of
from rdl.meaning.shift import with_margin
from rdl.names import part_name
from rdl.text.parser import parse
from rdl.time_grid import duration_text
from rdl.work_graph import END, WorkGraph
from service.access.user import present_actor
from service.commits.commands import Ask
from service.commits.screening import no_reservation
from service.dispatching.records import read_delays
from service.http.kinds import Id, MemberKind, Word, any_value, choice, integer, number, text
from service.http.kit import Input, doc
from service.ownership import require_own, tenant_of
from service.problems import ApiError, ApiProblemError, malformed_problem, problem_of_rdl
from service.runtime import Runtime

_LEVELS: Final = tuple(level.value for level in PromiseLevel)

Rdl: TypeAlias = Annotated[
    Any,
    any_value(
        {
            "type": ["string", "object"],
            "examples": ["window(atom(<1 cpu>, 1, 4, 10m, 40m), +0, +6h)"],
        }
    ),
    doc("RDL as text, as JSON, or as YARN's reservation-definition."),
]
_Agent: TypeAlias = Annotated[
    str | None,
    MemberKind({"type": "string", "enum": list(AGENT_NAMES)}, text().read),
    doc("The agent that places it; the server's default agent when absent."),
]

#: A request that fits wherever there is a core.
EXAMPLE: Final = {"rdl": "window(atom(<1 cpu>, 1, 4, 10m, 40m), +0, +6h)", "tenant": "ads"}


class ReservationRequest(Input, kw_only=True):
    """A workload line (files.md) without `submitted`, and an agent."""

    id: Annotated[Id | None, doc("Unique in the Plan; default: chosen by the server.")] = None
    tenant: Annotated[
        Word | None,
        doc("The tenant of the request; default: the caller's only one, or `default`."),
    ] = None
    queue: Annotated[Word, doc("The queue it is reserved under.")] = "default"
    rdl: Rdl
    weight: Annotated[float, number(0, 1e9), doc("Factor of its value.")] = 1.0
    priority: Annotated[
        int,
        integer(-(10**6), 10**6),
        doc(
            "Higher priorities are planned first in a batch and, if a policy allows it, displace "
            "lower ones."
        ),
    ] = 0
    promise: Annotated[
        str | None,
        choice(_LEVELS),
        doc("What is promised, where the cluster lets requests choose; else the cluster's level."),
    ] = None
    agent: _Agent = None


class ReservationChange(Input, kw_only=True):
    """A change of a reservation: the members of POST, of which constant ones must be unchanged."""

    id: Annotated[Id | None, doc("That of the path, if given.")] = None
    tenant: Annotated[Word | None, doc("The tenant that it has, if given: it stays.")] = None
    queue: Annotated[Word | None, doc("The queue that it has, if given: it stays.")] = None
    rdl: Rdl
    weight: Annotated[
        float | None, number(0, 1e9), doc("Factor of its value; unchanged when absent.")
    ] = None
    priority: Annotated[
        int | None, integer(-(10**6), 10**6), doc("Priority; unchanged when absent.")
    ] = None
    promise: Annotated[str | None, choice(_LEVELS), doc("As of POST; unchanged when absent.")] = (
        None
    )
    agent: _Agent = None


def read_ask(
    runtime: Runtime,
    body: ReservationRequest,
    pointer: str = "",
    offers: int = 0,
    margin_ms: int = 0,
) -> Ask:
    """Compile one request for a reservation.

    Parameters
    ----------
    pointer
        JSON pointer of the object in the body.
    offers
        Most offers in a refusal.
    margin_ms
        Time between its required end and the end of its windows.

    Raises
    ------
    ApiProblemError
        For RDL that cannot be planned, an unknown agent, an id that a Job may need, or a tenant
        that the caller does not act for.
    """
    tenant = tenant_of(present_actor().user, body.tenant, pointer)
    agent = agent_of(runtime, body.agent, pointer)
    if runtime.config.kubernetes is not None and (body.id or "").startswith(ID_PREFIX):
        detail = f"ids that begin with {ID_PREFIX} are those of Jobs"
        raise malformed_problem([ApiError(detail, pointer=f"{pointer}/id", fix="another id")])
    submitted_ms = runtime.now_ms()
    rdl = body.rdl
    source = text_of(rdl)
    try:
        asked = read_source(rdl)
        completed = complete_request(runtime, asked)
        graph = runtime.compile(completed.expression, submitted_ms, source)
    except RdlError as error:
        raise problem_of_rdl(error, f"{pointer}/rdl") from error
    if margin_ms:
        graph = _shortened(runtime, graph, submitted_ms, margin_ms, pointer)
        completed = completed._replace(expression=graph.expression)
        source = None
    request = Request(
        id=body.id or runtime.new_id(),
        tenant=tenant,
        queue=body.queue,
        submitted_ms=submitted_ms,
        weight=body.weight,
        priority=body.priority,
        graph=replace(graph, notes=(*completed.notes, *graph.notes)),
        promise=level_of(body),
        written=text_as_written(rdl, asked, graph.expression),
    )
    return Ask(
        completed.expression, source, request, agent, pointer, offers, completed.notes,
        completed.allow_start, has_made_id=not body.id,
    )  # fmt: skip


def _shortened(
    runtime: Runtime, graph: WorkGraph, submitted_ms: int, margin_ms: int, pointer: str
) -> WorkGraph:
    """Return a compiled request that has to end earlier.

    Raises
    ------
    ApiProblemError
        ``malformed`` if it has no window, or its windows are too short for that.
    """
    expression = with_margin(graph.expression, margin_ms)
    margin, fix = duration_text(margin_ms), None
    if expression == graph.expression:
        detail, fix = "a margin needs a deadline, and the request has no window", "deadline(...)"
    else:
        try:
            shorter = runtime.compile(expression, submitted_ms, None)
        except RdlError as error:
            detail = f"with a margin of {margin} it cannot be: {error.problems[0].message}"
        else:
            before, after = _atom_ends(graph), _atom_ends(shorter)
            late = [path for path, end in after.items() if end > before.get(path, end)]
            if not late:
                return shorter
            # A time of day that was moved past midnight is that of another day.
            named = part_name(expression, late[0])
            detail = f"a margin of {margin} is longer than the window"
            detail += f" of {named}" if named else ""
    raise malformed_problem([ApiError(detail, pointer=f"{pointer}/margin", fix=fix)])


def _atom_ends(graph: WorkGraph) -> dict[str, int]:
    """Return the step at which the window of each atom ends, by its path."""
    ends: list[int] = graph.vertices[graph.atoms, END].tolist()
    return dict(zip((graph.paths[atom] for atom in graph.atoms), ends, strict=True))


def read_change(runtime: Runtime, reservation: str, body: ReservationChange) -> Ask:
    """Compile a change of a reservation; absent fields stay unchanged.

    Raises
    ------
    ApiProblemError
        ``not_found``, ``wrong_state`` for a refused request, or as :func:`read_ask`.
    """
    with runtime.reading() as plan:
        require_own(plan, present_actor().user, reservation)
        present = plan.reservation(reservation)
        if present is None:
            raise ApiProblemError(no_reservation(plan, reservation, Transition.RENEGOTIATE))
        cluster = plan.cluster
    _check_kept(present, body)
    agent = agent_of(runtime, body.agent, "")
    rdl = body.rdl
    source = text_of(rdl)
    try:
        asked = read_source(rdl)
        completed = _complete_change(runtime, asked, present)
        graph = runtime.compile(completed.expression, present.submitted_ms, source)
    except RdlError as error:
        raise problem_of_rdl(error, "/rdl") from error
    request = Request(
        id=reservation,
        tenant=present.tenant,
        queue=present.queue,
        submitted_ms=present.submitted_ms,
        weight=present.weight if body.weight is None else body.weight,
        priority=present.priority if body.priority is None else body.priority,
        graph=replace(graph, notes=(*completed.notes, *graph.notes)),
        promise=level_of(body) or present.promise,
        written=text_as_written(rdl, asked, graph.expression),
    )
    if request.promise is not present.promise:
        refused = level_refusal(cluster, request)
        if refused is not None:
            raise malformed_problem([ApiError(refused.detail, pointer="/promise")])
    return Ask(completed.expression, source, request, agent, "", notes=completed.notes)


def _check_kept(present: Reservation, body: ReservationChange) -> None:
    """Refuse a change of a reservation's constant fields."""
    kept = {"id": present.id, "tenant": present.tenant, "queue": present.queue}
    errors = [
        ApiError(
            f"the {name} of {present.id!r} is {known!r}, and stays so",
            pointer=f"/{name}",
            fix="leave it out, or ask for another reservation",
        )
        for name, known in kept.items()
        if getattr(body, name) not in (None, known)
    ]
    if errors:
        raise malformed_problem(errors)


def agent_of(runtime: Runtime, named: str | None, pointer: str) -> str:
    """Return the name of the requested agent, or the server's default.

    Raises
    ------
    ApiProblemError
        ``malformed`` if there is no such agent.
    """
    name = named or runtime.config.agent
    if name not in AGENT_NAMES:
        fix = did_you_mean(name, AGENT_NAMES)
        error = ApiError(f"there is no agent {name!r}", pointer=f"{pointer}/agent", fix=fix)
        raise malformed_problem([error])
    return name


def level_of(body: ReservationRequest | ReservationChange) -> PromiseLevel | None:
    """Return the requested level; None for the cluster's default."""
    return None if body.promise is None else PromiseLevel(body.promise)


def text_of(rdl: object) -> str | None:
    """Return RDL given as text, else None; problems point into it."""
    return rdl if isinstance(rdl, str) else None


class CompletedRequest(NamedTuple):
    """Request as planned.

    Attributes
    ----------
    expression
        As submitted, or with additions.
    notes
        Notes on the additions.
    allow_start
        Whether the policy included start delays; None if they do not matter.
    """

    expression: Expression
    notes: tuple[str, ...] = ()
    allow_start: bool | None = None


def complete_request(runtime: Runtime, asked: Expression) -> CompletedRequest:
    """Return a new request as planned, with default memory and start delays."""
    found = _complete_change(runtime, asked)
    if not runtime.allows_start():
        return found._replace(allow_start=False)
    table = read_delays(runtime.dispatcher.store)
    longer = enlarge(found.expression, table)
    notes = tuple(dict.fromkeys(_delay_notes(found.expression, table)))
    return CompletedRequest(longer, (*found.notes, *notes), allow_start=True)


def _complete_change(
    runtime: Runtime, asked: Expression, present: Reservation | None = None
) -> CompletedRequest:
    """Return a change of a reservation as planned: start delays are not added again.

    Bundles that are written as before keep their memory.
    """
    shares = runtime.memory_shares()
    if present is not None and present.written:
        before, with_memory = parse(present.written), parse(present.expression)
        if before != with_memory:
            shares = shares.keeping(before, with_memory)
    completed = shares.complete(asked)
    if completed is asked:
        return CompletedRequest(asked)
    return CompletedRequest(completed, shares.notes(asked))


def _delay_notes(expression: Expression, table: StartDelayTable) -> Iterator[str]:
    for atom in atoms_of(expression):
        delay_ms = table.delay_ms(atom.bundle)
        if delay_ms:
            yield (
                f"each lease of <{atom.bundle}> is {duration_text(delay_ms)} longer than "
                "asked for: work of that size starts so late here"
            )
