"""`agenda json-schema`: the `-o json` output of a command; docs/cli.md describes its stability.

Client commands print the server's answers: their schemas are those of the API. Other
documents are described in `DOCUMENTS`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from service.cli.kit.errors import DONE, CliError, reports_errors
from service.cli.kit.output import print_json

_Schema = dict[str, Any]

_TEXT: Final[_Schema] = {"type": "string"}
_COUNT: Final[_Schema] = {"type": "integer", "minimum": 0}
_WHOLE: Final[_Schema] = {"type": "integer"}
_NUMBER: Final[_Schema] = {"type": "number"}
_FLAG: Final[_Schema] = {"type": "boolean"}
_ANY_OBJECT: Final[_Schema] = {"type": "object"}
_RESOURCES: Final[_Schema] = {
    "type": "object",
    "description": "Amounts by resource, in the form of requests: cores, bytes with their unit.",
}


def _of(**keys: _Schema) -> _Schema:
    """Return an object of these keys; `key_` is one that may be missing."""
    return {
        "type": "object",
        "properties": {key.removesuffix("_"): schema for key, schema in keys.items()},
        "required": [key for key in keys if not key.endswith("_")],
    }


def _list(of: _Schema) -> _Schema:
    return {"type": "array", "items": of}


def _map(of: _Schema) -> _Schema:
    return {"type": "object", "additionalProperties": of}


def _or_null(schema: _Schema) -> _Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _said(schema: _Schema, description: str) -> _Schema:
    return {**schema, "description": description}


_METRICS: Final = _of(
    runtime_ms=_NUMBER,
    acceptance=_said(_NUMBER, "Accepted share of the requested value, 0 to 1."),
    accepted=_said(_COUNT, "Number of accepted requests."),
    requests=_COUNT,
    falls=_said(_COUNT, "Decreases of allocations, including the last one of each."),
    falls_inner=_said(_COUNT, "Decreases of allocations, without the last one of each atom."),
    uniformity=_NUMBER,
    value=_said(_NUMBER, "Core-hours of accepted work, weighted."),
    bound_=_said(_NUMBER, "Upper bound on the value of any plan."),
    gap_=_said(_NUMBER, "(bound - value) / bound."),
    status_=_TEXT,
    machine_loss_=_said(
        _or_null(_NUMBER), "Share of the value that fits in totals but not on machines."
    ),
)

_ATOM: Final = _of(
    path=_TEXT,
    bundle=_RESOURCES,
    allocation=_said(
        _list(_list(_WHOLE)), "Rows of start and end in seconds from the origin, and bundles."
    ),
    slots_=_said(
        _list({"type": "array"}), "Rows of start and end in seconds, bundles, and the machine."
    ),
)

_RESERVATION: Final = _of(
    id=_TEXT,
    tenant=_TEXT,
    queue=_TEXT,
    submitted=_NUMBER,
    state=_TEXT,
    weight=_NUMBER,
    priority=_WHOLE,
    expression=_TEXT,
    written_=_said(_TEXT, "The request as submitted, if it differs."),
    promise=_TEXT,
    atoms=_list(_ATOM),
)

_PLAN: Final = _of(
    cluster=_ANY_OBJECT,
    version=_WHOLE,
    step_s=_NUMBER,
    agent=_TEXT,
    order=_TEXT,
    reservations=_list(_RESERVATION),
    refusals=_list(_of(id=_TEXT, code=_TEXT, detail=_TEXT)),
    metrics=_METRICS,
)

_VIOLATION: Final = _of(
    where=_TEXT,
    rule=_TEXT,
    detail=_TEXT,
    reservation=_or_null(_TEXT),
    at=_or_null(_WHOLE),
    amount=_or_null(_NUMBER),
    limit=_or_null(_NUMBER),
)

_CHECK: Final = _of(valid=_FLAG, reservations=_COUNT, refusals=_COUNT, violations=_list(_VIOLATION))

_DIFFERENCE: Final = _of(
    same=_said(_COUNT, "Requests with the same answer in both Plans."),
    counts=_map(_COUNT),
    metrics=_said(_map(_list(_NUMBER)), "Values in both Plans: before, after."),
    requests=_list(
        _of(
            id=_TEXT,
            fate=_TEXT,
            before=_or_null(_TEXT),
            after=_or_null(_TEXT),
            start=_said(_list(_or_null(_NUMBER)), "Before and after, seconds from the origin."),
            end=_list(_or_null(_NUMBER)),
            moved=_WHOLE,
            relocated=_NUMBER,
        )
    ),
)

_COMPARISON: Final = _of(
    baseline=_or_null(_TEXT),
    bound_by=_or_null(_TEXT),
    agents=_list(
        _of(
            agent=_TEXT,
            basis=_said(_TEXT, "What the agent knew: arrivals one by one, or the whole workload."),
            status=_or_null(_TEXT),
            detail=_TEXT,
            order=_or_null(_TEXT),
            metrics=_or_null(_METRICS),
            work=_or_null(
                _of(
                    hours=_said(_map(_NUMBER), "Accepted hours of each resource."),
                    utilisation=_said(_map(_NUMBER), "Share of the cluster's capacity, 0 to 1."),
                    wait_mean_s=_or_null(_NUMBER),
                    wait_p95_s=_or_null(_NUMBER),
                    late_mean_s=_or_null(_NUMBER),
                    late_p95_s=_or_null(_NUMBER),
                )
            ),
            relative=_or_null(_map(_or_null(_NUMBER))),
            differences=_or_null(_ANY_OBJECT),
        )
    ),
    disagreements=_list(_of(id=_TEXT, tenant=_TEXT, weight=_NUMBER, answers=_list(_TEXT))),
)

_COST: Final = _of(rejected=_NUMBER, churn=_NUMBER, falls=_NUMBER, cost=_NUMBER)

_OPTIMIZED: Final = _of(
    status=_TEXT,
    value=_NUMBER,
    bound=_or_null(_NUMBER),
    gap=_or_null(_NUMBER),
    source=_TEXT,
    trials=_COUNT,
    before=_COST,
    after=_COST,
    moved=_COUNT,
    admitted=_COUNT,
    conflict=_or_null(_ANY_OBJECT),
    left_out=_list(_of(id=_TEXT, code=_TEXT, detail=_TEXT)),
    diff=_DIFFERENCE,
)

_LOTES: Final = _of(
    lambda_allocation=_or_null(_NUMBER),
    lambda_assignment=_or_null(_NUMBER),
    lambda_rounded=_or_null(_NUMBER),
    mode=_TEXT,
    pairs=_list(
        {
            "type": "object",
            "properties": {
                "machines": _TEXT,
                "class": _TEXT,
                "in_service": _NUMBER,
                "share": _map(_NUMBER),
            },
            "required": ["machines", "class", "in_service", "share"],
        }
    ),
    bins=_list(_of(machines=_TEXT, first=_WHOLE, count=_COUNT, jobs=_map(_COUNT))),
    table=_list(_ANY_OBJECT),
    explain_=_said(_ANY_OBJECT, "With --explain: classes, and the result of each linear program."),
)

_ESTIMATE: Final = _of(
    confidence=_NUMBER,
    jobs=_list(
        _of(
            job=_TEXT,
            runs=_COUNT,
            counted=_COUNT,
            period_s=_or_null(_NUMBER),
            begin=_or_null(_TEXT),
            confidence=_or_null(_NUMBER),
            over=_or_null(_NUMBER),
            container=_RESOURCES,
            parts=_list(_ANY_OBJECT),
            notes=_list(_TEXT),
            rdl=_said(_TEXT, "The request."),
            rdl_json=_said({}, "The same in JSON: `agenda rdl json-schema`."),
        )
    ),
    back_test=_or_null(_map(_of(runs=_COUNT, fit=_or_null(_NUMBER), over=_or_null(_NUMBER)))),
)

_RDL_CHECK: Final = {
    "oneOf": [
        _of(valid={"const": False}, code=_TEXT, errors=_list(_of(message=_TEXT))),
        _of(
            valid={"const": True},
            canonical=_TEXT,
            normal_=_TEXT,
            json={},
            notes=_list(_TEXT),
            questions=_list(_ANY_OBJECT),
            atoms=_COUNT,
            meaning=_or_null(_ANY_OBJECT),
        ),
    ]
}

_AUDIT: Final = _list(
    _of(
        number=_COUNT,
        at=_said(_TEXT, "RFC 3339."),
        user=_or_null(_TEXT),
        address=_or_null(_TEXT),
        call=_TEXT,
        kind=_TEXT,
        tenant=_or_null(_TEXT),
        about=_or_null(_TEXT),
        detail=_TEXT,
        version=_or_null(_COUNT),
    )
)

_USAGE: Final[_Schema] = {
    "type": "object",
    "properties": {
        "by": _TEXT,
        "from": _said(_TEXT, "RFC 3339."),
        "to": _TEXT,
        "capacity": _said(_map(_NUMBER), "Amount of each resource, in hours of one unit."),
        "usage": _said(
            _list(_of(name=_TEXT, reservations=_COUNT)),
            "Hours of each resource, and `..._share`, per cent of the capacity.",
        ),
    },
    "required": ["by", "from", "to", "capacity", "usage"],
}

_INSTANT: Final = _or_null(_said(_TEXT, "RFC 3339."))

_SQUEUE: Final = _list(
    _of(
        job=_WHOLE,
        name=_TEXT,
        user=_TEXT,
        partition=_TEXT,
        state=_said(_TEXT, "State of the job in Slurm's terms."),
        nodes=_said(_TEXT, "Names, separated by commas."),
        reservation=_or_null(_TEXT),
        promised=_or_null(
            _said(_TEXT, "State of the reservation; over: it has ended, but the job has not.")
        ),
        begins=_INSTANT,
        ends=_INSTANT,
        reason=_said(_TEXT, "Reason why it waits, in Slurm's terms."),
    )
)

_SACCT: Final = _list(
    _of(
        reservation=_TEXT,
        user=_TEXT,
        promise=_said(
            _TEXT, "Outcome reported by the server: kept, open, degraded, unused, failed."
        ),
        work=_said(_TEXT, "Outcome reported by Slurm: in time, short, late, cancelled, failed."),
        deadline=_INSTANT,
        begun=_INSTANT,
        ended=_INSTANT,
        jobs=_COUNT,
        runs=_COUNT,
        promised_s=_or_null(_said(_NUMBER, "Node time.")),
        had_s=_said(_NUMBER, "Node time."),
    )
)

_EVENT: Final = _said(
    _of(
        id=_TEXT,
        kind=_TEXT,
        version_=_WHOLE,
        at_=_said(_NUMBER, "Seconds since the origin of the Plan."),
        reservation_=_TEXT,
        tenant_=_TEXT,
    ),
    "One event on a line, with its further attributes.",
)


_SIZE: Final = _of(
    agent_=_said(_TEXT, "Result of `compare --machines`."),
    machines=_COUNT,
    groups=_map(_COUNT),
    accepted=_COUNT,
    requests=_COUNT,
    requests_share=_NUMBER,
    work_core_hours=_NUMBER,
    work_share=_NUMBER,
    refused=_said(_map(_COUNT), "Counts by the code of the refusal."),
)

_SIZING: Final = _of(
    tried=_list(_SIZE),
    target=_said(_NUMBER, "Share that was requested, 0 to 1."),
    of=_TEXT,
    found=_said(_or_null(_SIZE), "The smallest number of machines tried that accepts it."),
    complete=_said(_FLAG, "Whether the search ended without being stopped."),
)

#: Command -> the schema of what it makes.
DOCUMENTS: Final[Mapping[str, _Schema]] = {
    "plan": _PLAN,
    "validate": _CHECK,
    "plan-diff": _DIFFERENCE,
    "compare": {"anyOf": [_COMPARISON, _of(sizes=_list(_SIZE))]},
    "size": _SIZING,
    "optimize": _OPTIMIZED,
    "lotes": _LOTES,
    "estimate": _ESTIMATE,
    "rdl check": _RDL_CHECK,
    "audit": _AUDIT,
    "usage": _USAGE,
    "squeue": _SQUEUE,
    "sacct": _SACCT,
    "watch": _EVENT,
    "reservations watch": _EVENT,
}


#: Version of all these documents: it rises where a program that reads one could break.
JSON_VERSION: Final = 1

#: Command -> the schema of the API that it prints, or the call whose answer it is; a list of it,
#: where the word is in brackets; either of both, where an asterisk follows.
_API: Final[dict[str, str]] = {
    "status": "ClusterStatus",
    "machines": "get /v1/machines",
    "report": "UsageReport",
    "submit": "Reservation*",
    "offers": "Offers",
    "reservations submit": "Reservation*",
    "reservations list": "[Reservation]",
    "reservations show": "Reservation",
    "reservations cancel": "Reservation",
    "reservations update": "Reservation",
    "reservations wait": "Reservation",
    "holds create": "Hold",
    "holds list": "HoldList",
    "holds show": "Hold",
    "holds accept": "Reservation",
    "holds release": "Reservation",
    "run": "Pipeline",
    "pipelines list": "[PipelineLine]",
    "pipelines show": "Pipeline",
    "pipelines runs": "[PipelineRun]",
    "pipelines again": "PipelineRun",
    "pipelines cancel": "Pipeline",
    "apps submit": "Application",
    "apps list": "[Application]",
    "apps show": "Application",
    "apps kill": "Application",
    "assignments": "Assignment",
    "cluster check": "Cluster",
    "cluster show": "Cluster",
    "cluster table": "get /v1/dispatch/table",
    "cluster what-if": "put /v1/cluster",
    "policies list": "PolicyList",
    "policies set": "Policy",
    "policies show": "Policy",
    "dispatch policy": "DispatchPolicy",
    "optimizations start": "Optimization",
    "optimizations stop": "Optimization",
    "optimizations list": "OptimizationList",
    "optimizations show": "Optimization",
    "outages add": "post /v1/cluster/outages",
    "outages list": "get /v1/cluster/outages",
    "outages remove": "delete /v1/cluster/outages/{id}",
    "token create": "NewToken",
    "token list": "[Token]",
    "webhook create": "Webhook",
    "webhook list": "WebhookList",
    "webhook show": "Webhook",
}

#: Schemas that may stand instead of another: a refusal for a reservation, and for one that is not
#: kept the problem.
_INSTEAD: Final[dict[str, tuple[str, ...]]] = {"Reservation": ("Refusal", "Problem")}

#: What commands add to what the server answered.
_ADDED: Final[dict[str, dict[str, Any]]] = {
    "Refusal": {
        "accepted_now": {"type": "boolean", "description": "Whether it would be accepted now."}
    },
    "Problem": {"offers": {"type": "array", "items": {"$ref": "#/$defs/Offer"}}},
}

_API_REF: Final = "#/components/schemas/"
_OWN_REF: Final = "#/$defs/"


def commands() -> list[str]:
    """Return the commands whose documents have a schema, by name."""
    return sorted([*_API, *DOCUMENTS])


def schema_of(command: str, api: Mapping[str, Any]) -> dict[str, Any]:
    """Return the self-contained JSON Schema of a command's output.

    Parameters
    ----------
    command
        One of `commands`.
    api
        The OpenAPI document.
    """
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"agenda:{JSON_VERSION}:{command.replace(' ', '-')}",
        "title": f"agenda {command} -o json",
    }
    if command in DOCUMENTS:
        return head | DOCUMENTS[command]
    components = api["components"]["schemas"]
    body = _printed(_API[command], api["paths"])
    return {
        **head,
        **body,
        "$defs": {one: _own(one, components[one]) for one in sorted(_reachable(body, components))},
    }


def _printed(name: str, paths: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a name of `_API`, with references to the document's own definitions."""
    if "/" in name:
        method, path = name.split()
        answers = paths[path][method]["responses"]
        good = next(answers[code] for code in sorted(answers) if code.startswith("2"))
        moved: dict[str, Any] = _moved(good["content"]["application/json"]["schema"])
        return moved
    single = name.strip("[]*")
    names = [single, *_INSTEAD.get(single, ())]
    body: dict[str, Any] = {"anyOf": [{"$ref": _OWN_REF + one} for one in names]}
    several = {"type": "array", "items": body}
    if name.endswith("*"):
        return {"anyOf": [body, several]}
    return several if name.startswith("[") else body


def _reachable(body: Any, components: Mapping[str, Any]) -> set[str]:
    """Return the components to which a schema refers, directly or indirectly."""
    found: set[str] = set()  # `Offer` is reached through the refusal in every problem
    waiting = list(_references(body))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(components[name])
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        target = schema.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(_OWN_REF).removeprefix(_API_REF).partition("/")[0]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _own(name: str, schema: Any) -> Any:
    """Return a schema of the API as part of a document that a command prints."""
    moved = _moved(schema)
    if name in _ADDED:
        moved = {**moved, "properties": {**moved["properties"], **_ADDED[name]}}
    return moved


def _moved(schema: Any) -> Any:
    """Return a schema of the API whose references are those of one document."""
    if isinstance(schema, Mapping):
        return {
            key: value.replace(_API_REF, _OWN_REF)
            if key == "$ref" and isinstance(value, str)
            else _moved(value)
            for key, value in schema.items()
        }
    return [_moved(one) for one in schema] if isinstance(schema, list) else schema


@click.command("json-schema")
@click.argument("words", metavar="[COMMAND]", nargs=-1)
@reports_errors
def json_schema(words: tuple[str, ...]) -> int:
    """Print the JSON Schema of COMMAND's -o json output; without COMMAND, the version.

    A program compares the version, which rises where it could break (docs/cli.md).
    """
    from service.http.specification import document
    from service.resources.table import ROUTES

    command = " ".join(words)
    if not command:
        print_json({"version": JSON_VERSION, "commands": commands()})
        return DONE
    if command not in commands():
        raise CliError(f"{command!r} has none; write one of {', '.join(commands())}")
    print_json(schema_of(command, document(ROUTES)))
    return DONE
