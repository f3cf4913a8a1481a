"""JSON Schemas of what the API answers; OpenAPI's components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.placement import BINDING_KINDS, Code
from planner.promise import PromiseLevel
from service.problems import CODES

_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_NUMBER: Final = {"type": "number"}
_SECONDS: Final = {"type": "number", "description": "Seconds from the origin."}
_INSTANT: Final = {"type": "string", "format": "date-time"}
_AMOUNT: Final = {"type": ["number", "string"]}

STATES: Final = (
    "accepted",
    "active",
    "completed",
    "cancelled",
    "degraded",
    "failed",
    "refused",
)


def _object(properties: Mapping[str, Any], *required: str, more: bool = True) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required or properties),
        "additionalProperties": more,
    }


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(items)}


def _or_null(name: str) -> dict[str, Any]:
    return {"type": [name, "null"]}


_CLUSTER_STATUS: Final = _object(
    {
        "version": _COUNT,
        "at": _INSTANT,
        "machines": _object(
            {
                "total": _COUNT,
                "up": _COUNT,
                "outages": _list(
                    _object(
                        {
                            "id": _TEXT,
                            "kind": _TEXT,
                            "machines": {"type": "string", "description": "Their group."},
                            "count": _COUNT,
                            "end_at": {
                                "type": ["string", "null"],
                                "description": "Null for a loss: nobody knows.",
                            },
                        }
                    )
                ),
            }
        ),
        "promised": _list(
            _object(
                {
                    "resource": _TEXT,
                    "unit": _TEXT,
                    "now": _NUMBER,
                    "capacity": {"type": "number", "description": "Of the machines that are up."},
                    "now_share": _NUMBER,
                    "peak_share": {
                        "type": "number",
                        "description": "The most of the 24 hours to come, of what is up then.",
                    },
                    "peak_at": _INSTANT,
                }
            )
        ),
        "work": _object({"running": _COUNT, "waiting": _COUNT, "components": _COUNT}),
        "ends": {
            **_list(_object({"id": _TEXT, "tenant": _TEXT, "state": _TEXT, "end_at": _INSTANT})),
            "description": "The reservations that end next, five at most.",
        },
        "at_risk": {
            **_list(
                _object(
                    {
                        "id": _TEXT,
                        "tenant": _TEXT,
                        "state": {"enum": ["degraded", "failed", "below"]},
                        "reason": _TEXT,
                        "since_at": {"type": ["string", "null"], "format": "date-time"},
                    }
                )
            ),
            "description": "Degraded, failed within a day, or owed machines that their work lacks; "
            "the newest 20.",
        },
        "at_risk_count": _COUNT,
        "refused": {
            **_list(_object({"code": _TEXT, "count": _COUNT})),
            "description": "Requests of the last hour, by cause.",
        },
        "problems": {
            "type": "array",
            "items": _TEXT,
            "description": "What is not up to date: clock, database, repair, dispatcher, "
            "executors. Empty where all is.",
        },
    }
)

_ROWS: Final = {
    "type": "array",
    "description": "[start, end, bundles], seconds, half-open, sorted and merged.",
    "items": {"type": "array", "items": _NUMBER, "minItems": 3, "maxItems": 3},
}

_DATES: Final = {
    "type": "array",
    "description": "[start, end] of each row of the allocation.",
    "items": {"type": "array", "items": _INSTANT, "minItems": 2, "maxItems": 2},
}

_PART_NAME: Final = {
    "type": "string",
    "description": "Its name, or in words what it needs; absent: it is the request itself.",
}

_PLAN_BOUND: Final = {
    "anyOf": [{"$ref": "#/components/schemas/PlanBound"}, {"type": "null"}],
    "description": "With `bound`: how much more any plan of the same requests could hold.",
}

_ATOM: Final = _object(
    {
        "path": _TEXT,
        "name": _PART_NAME,
        "bundle": {"type": "object"},
        "allocation": _ROWS,
        "allocation_at": _DATES,
        "released": _ROWS,
    },
    "path",
    "bundle",
    "allocation",
)

_ASKED: Final = {
    "id": _TEXT,
    "tenant": _TEXT,
    "queue": _TEXT,
    "submitted": _SECONDS,
    "weight": _NUMBER,
    "priority": {"type": "integer"},
    "expression": {"type": "string", "description": "Canonical RDL of the request."},
}

_WRITTEN: Final = {
    "type": "string",
    "description": "The request as submitted, where the canonical text differs.",
}

_ZONE: Final = {
    "type": "string",
    "description": "Zone in which its times are read: the request's, else the cluster's; absent: "
    "UTC.",
}

_BINDING: Final = {
    "type": ["object", "null"],
    "description": "What stood in the way.",
    "properties": {
        "path": _TEXT,
        "kind": {"type": "string", "enum": list(BINDING_KINDS)},
        "at": _or_null("number"),
        "at_at": _INSTANT,
        "resource": _or_null("string"),
        "needed": {"type": ["number", "string", "null"]},
        "free": {"type": ["number", "string", "null"]},
        "policy": _or_null("string"),
        "name": _PART_NAME,
    },
}

_LEVELS: Final = [level.value for level in PromiseLevel]

_DISPLACED: Final = _object(
    {
        "id": {"type": "string", "description": "Empty where the caller may not see it."},
        "tenant": _TEXT,
        "fate": {"type": "string", "enum": ["moved", "degraded"]},
        "value": {**_NUMBER, "description": "What keeping it is worth."},
        "moved": {**_NUMBER, "description": "Work that stands elsewhere, steps of the cluster."},
        "reason": _TEXT,
    },
    "id",
    "tenant",
    "fate",
)

_RESERVATION: Final = _object(
    {
        **_ASKED,
        "state": {"type": "string", "enum": list(STATES)},
        "revision": {"type": "integer", "minimum": 1},
        "agent": _TEXT,
        "choices": {"type": "object", "additionalProperties": {"type": "integer"}},
        "notes": _list(_TEXT),
        "atoms": _list(_ATOM),
        "submitted_at": _INSTANT,
        "zone": _ZONE,
        "version": {**_COUNT, "description": "Version of the Plan that shows this."},
        "written": _WRITTEN,
        "promise": {
            "type": "string",
            "enum": _LEVELS,
            "description": "What is promised of machines.",
        },
        "degradation": {
            "type": "object",
            "description": "For a degraded reservation: since when, why, and what is offered.",
        },
        "begin": {**_SECONDS, "description": "When it first holds something."},
        "begin_at": _INSTANT,
        "finish": {**_or_null("number"), "description": "When it last does; null: never."},
        "finish_at": {"type": ["string", "null"], "format": "date-time"},
        "window": {
            "type": ["array", "null"],
            "items": _NUMBER,
            "description": "From when and until when its request lets it run, in seconds.",
        },
        "window_at": {
            "type": ["array", "null"],
            "items": _INSTANT,
            "description": "The same as dates.",
        },
        "held_until": {"type": "number", "description": "It ends then unless it is accepted."},
        "history": _list({"type": "object"}),
        "displaced": {
            "type": "array",
            "items": _DISPLACED,
            "description": "In an answer to what displaced others: what became of them.",
        },
        "plan_bound": _PLAN_BOUND,
    },
    *_ASKED,
    "state",
    "revision",
    "agent",
    "choices",
    "notes",
    "atoms",
)

_HOLDERS: Final = {
    "holders": {
        "type": "array",
        "items": {"type": "object"},
        "description": "Who holds what is short at that instant, as of an explanation.",
    },
    "held_by": {"type": "string", "description": "The same in words; empty: nobody."},
}

_REFUSAL: Final = _object(
    {
        **_ASKED,
        "state": {"const": "refused"},
        "submitted_at": _INSTANT,
        "zone": _ZONE,
        "written": _WRITTEN,
        "promise": {
            "type": "string",
            "enum": _LEVELS,
            "description": "The level it asked for; absent where it took the cluster's.",
        },
        "code": {"type": "string", "enum": [str(code) for code in Code]},
        "detail": _TEXT,
        "binding": _BINDING,
        "offers": _list({"$ref": "#/components/schemas/Offer"}),
        **_HOLDERS,
    },
    *_ASKED,
    "code",
    "detail",
)

_ERROR: Final = _object(
    {
        "pointer": _or_null("string"),
        "span": {"type": ["array", "null"], "items": {"type": "integer"}},
        "code": {"type": "string", "enum": sorted(map(str, CODES))},
        "message": _TEXT,
        "fix": _or_null("string"),
    },
    more=False,
)

_PROBLEM: Final = {
    **_object(
        {
            "type": {"type": "string", "format": "uri-reference"},
            "code": {"type": "string", "enum": sorted(map(str, CODES))},
            "title": _TEXT,
            "detail": _TEXT,
            "errors": _list({"$ref": "#/components/schemas/Error"}),
            "refusal": {"$ref": "#/components/schemas/Refusal"},
            "plan_bound": _PLAN_BOUND,
        },
        "type",
        "code",
        "title",
        "detail",
        "errors",
        more=False,
    ),
    "description": "Every error has this shape (RFC 9457).",
}

_RUN_WINDOW: Final = {
    **_object(
        {"start": _NUMBER, "end": _NUMBER, "start_at": _TEXT, "end_at": _TEXT}, "start", "end"
    ),
    "description": "Where a run may lie: seconds from the origin, RFC 3339 where there is one.",
}

_RANGES: Final = {
    "type": "object",
    "description": "Least and most by resource, in words.",
    "additionalProperties": {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2},
}

_MEANING: Final = {
    **_object(
        {
            "zone": _or_null("string"),
            "often": _TEXT,
            "runs": _COUNT,
            "first": _RUN_WINDOW,
            "last": _RUN_WINDOW,
            "least_time": _NUMBER,
            "room": _NUMBER,
            "work": _RANGES,
            "at_once": _RANGES,
        }
    ),
    "type": ["object", "null"],
    "description": "What it says, for people; null of a best-effort session.",
}

_CHECK: Final = _object(
    {
        "valid": {"const": True},
        "canonical": _TEXT,
        "json": {"type": "object", "description": "The same request in the JSON form."},
        "notes": _list(_TEXT),
        "questions": {
            **_list({"type": "object"}),
            "description": "Numbers that may have been meant otherwise, each with its place.",
        },
        "atoms": _COUNT,
        "outline": {
            **_list(
                _object(
                    {
                        "path": {"type": "string", "description": "As in a binding."},
                        "operator": _TEXT,
                        "name": _or_null("string"),
                        "said": {"type": "string", "description": "What it asks for, in words."},
                        "span": {
                            "type": ["array", "null"],
                            "items": _COUNT,
                            "description": "Where it stands in the RDL text.",
                        },
                    }
                )
            ),
            "description": "The parts of the request, parents before children; the first 500.",
        },
        "meaning": _MEANING,
        "lines": {
            **_list(_list(_TEXT)),
            "description": "The meaning for people: pairs of what, and what is said of it.",
        },
    }
)

_BATCH: Final = _object(
    {
        "version": {
            "type": ["integer", "null"],
            "description": "Version of the Plan that holds what was granted; null if nothing was.",
        },
        "results": _list(
            _object({"status": {"type": "integer"}, "body": {"type": "object"}}, more=False)
        ),
        "plan_bound": _PLAN_BOUND,
    },
    "version",
    "results",
)

_PAGE: Final = _object(
    {
        "version": _COUNT,
        "reservations": _list(
            {
                "anyOf": [
                    {"$ref": "#/components/schemas/Reservation"},
                    {"$ref": "#/components/schemas/Refusal"},
                ]
            }
        ),
        "next": {**_or_null("string"), "description": "Cursor of the next page."},
    }
)

_SERIES: Final = _object(
    {
        "unit": _TEXT,
        "capacity": _list(_NUMBER),
        "allocated": _list(_NUMBER),
        "free": _list(_NUMBER),
    }
)

_CHANGES: Final = _object(
    {
        "version": _COUNT,
        "since": _COUNT,
        "reset": {"type": "boolean", "description": "Not known any more: read the Plan anew."},
        "cluster": {"type": "boolean", "description": "The cluster is described anew."},
        "now": _SECONDS,
        "reservations": _list({"type": "object"}),
        "removed": _list(_TEXT),
    }
)

_PLAN: Final = _object(
    {
        "version": _COUNT,
        "from": _SECONDS,
        "to": _SECONDS,
        "step": _NUMBER,
        "from_at": _INSTANT,
        "to_at": _INSTANT,
        "now": _SECONDS,
        "promises": {
            "type": "object",
            "additionalProperties": _COUNT,
            "description": "How many reservations that are not over are promised what.",
        },
        "resources": {"type": "object", "additionalProperties": _SERIES},
        "reservations": _list({"$ref": "#/components/schemas/Reservation"}),
    },
    "version",
    "from",
    "to",
    "step",
    "from_at",
    "to_at",
    "now",
    "resources",
)

_OFFER: Final = _object(
    {
        "expression": {"type": "string", "description": "Canonical RDL to send back."},
        "change": _object(
            {
                "kind": {"type": "string", "enum": ["deadline", "start", "size", "option"]},
                "asked": _or_null("number"),
                "offered": _NUMBER,
                "asked_at": {"type": ["string", "null"], "format": "date-time"},
                "offered_at": {
                    "type": ["string", "null"],
                    "format": "date-time",
                    "description": "Of times: the same in RFC 3339.",
                },
                "share": {
                    "type": "number",
                    "description": "How much of the request changes; 0 is nothing.",
                },
            },
            "kind",
            "asked",
            "offered",
            "share",
            more=False,
        ),
        "sentence": {"type": "string", "description": "What would have to change, for people."},
        "at_version": {**_COUNT, "description": "Version of the Plan in which it is accepted."},
        "request": {
            "type": "object",
            "description": "The whole body for POST /v1/reservations that takes it up.",
        },
    },
    "expression",
    "change",
    "at_version",
    more=False,
)

_OFFERS: Final = _object(
    {
        "version": _COUNT,
        "accepted": {"type": "boolean", "description": "Whether the request is accepted as it is."},
        "refusal": {
            "type": ["object", "null"],
            "description": "Why it is not accepted.",
            "properties": {
                "code": {"type": "string", "enum": [str(code) for code in Code]},
                "detail": _TEXT,
                "binding": _BINDING,
                **_HOLDERS,
            },
            "required": ["code", "detail", "binding"],
            "additionalProperties": False,
        },
        "offers": _list({"$ref": "#/components/schemas/Offer"}),
    },
    more=False,
)

SCHEMAS: Final[dict[str, Any]] = {
    "Reservation": _RESERVATION,
    "Refusal": _REFUSAL,
    "Error": _ERROR,
    "Problem": _PROBLEM,
    "Check": _CHECK,
    "Batch": _BATCH,
    "Offer": _OFFER,
    "Offers": _OFFERS,
    "Page": _PAGE,
    "PlanChanges": _CHANGES,
    "PlanSeries": _PLAN,
    "Status": _object({"status": _TEXT}),
    "ClusterStatus": _CLUSTER_STATUS,
    "Readiness": _object({"status": _TEXT, "adapter": _TEXT}, "status"),
}
