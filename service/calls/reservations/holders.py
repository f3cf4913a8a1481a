"""Who holds a resource at an instant: how much by tenant, and names only of what a user may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from planner.plan.plan import Plan
from planner.plan.table.column_reading import ids_of, row_columns
from planner.reservations.reservation import amount_to_json
from service.access.user import User
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Most tenants that a sentence names.
_TOLD: Final = 3

#: Most ids that are named of one tenant; the largest holders first.
_NAMED: Final = 20


def holders_at(plan: Plan, step: int, resource: str | None, user: User) -> list[dict[str, Any]]:
    """Return who holds a resource at a step, tenants that hold most first.

    Tenants that the user does not act for are one entry without a name. Without a resource,
    bundles are counted.
    """
    table = plan.table
    held = table.holding_between(np.arange(len(table)), step, step + 1)
    columns = row_columns(table, held)
    here = (columns.rows[:, 0] <= step) & (columns.rows[:, 1] > step)
    sizes = [1 if resource is None else bundle.get(resource, 0) for bundle in columns.bundles]
    size = np.array(sizes, dtype=np.int64)[columns.kind[here]] if here.any() else np.zeros(0)
    amounts: dict[int, int] = {}
    for number, amount in zip(
        columns.number[here].tolist(), (columns.rows[here, 2] * size).tolist(), strict=True
    ):
        if amount > 0:
            amounts[number] = amounts.get(number, 0) + int(amount)
    tenants: dict[str | None, list[int]] = {}
    for number in sorted(amounts, key=lambda one: (-amounts[one], one)):
        tenant = table.scope(number)[0]
        tenants.setdefault(tenant if user.acts_for(tenant) else None, []).append(number)
    entries = [
        _entry(plan, tenant, numbers, sum(amounts[n] for n in numbers), resource)
        for tenant, numbers in tenants.items()
    ]
    return sorted(entries, key=lambda one: (one["tenant"] is None, -one.pop("order")))


def _entry(
    plan: Plan, tenant: str | None, numbers: list[int], total: int, resource: str | None
) -> dict[str, Any]:
    named = np.array(numbers[:_NAMED], dtype=np.int64)
    return {
        "tenant": tenant,
        "count": len(numbers),
        "amount": total if resource is None else amount_to_json(resource, total),
        "reservations": None if tenant is None else ids_of(plan.table, named),
        "order": total,
    }


def held_by(holders: Sequence[Mapping[str, Any]]) -> str:
    """Return who holds a resource as people say it: ``held by ml (2 reservations)``; or nothing."""
    if not holders:
        return ""
    said = [
        f"{'others' if one['tenant'] is None else one['tenant']} "
        f"({one['count']:,} reservation{'' if one['count'] == 1 else 's'})"
        for one in holders[:_TOLD]
    ]
    rest = sum(one["count"] for one in holders[_TOLD:])
    more = [f"{rest:,} more reservation{'' if rest == 1 else 's'}"] if rest else []
    return f"held by {', '.join([*said, *more])}"


def holders_of_binding(
    runtime: Runtime, binding: Mapping[str, Any] | None, user: User
) -> list[dict[str, Any]]:
    """Return who holds what a binding, as answers show it, says is short; nobody for a policy.

    A policy leaves less than there is: who holds the resource does not say who stands in the way.
    """
    if binding is None or binding["at"] is None or binding["policy"] is not None:
        return []
    with runtime.reading() as plan:
        step = plan.grid.floor(round(1000 * binding["at"]))
        return holders_at(plan, step, binding["resource"], user)


def with_holders(runtime: Runtime, response: Response, user: User) -> Response:
    """Return a refusal that names who holds what it needed; any other response as it is."""
    if response.status < HTTPStatus.BAD_REQUEST:
        return response
    body = msgspec.json.decode(response.payload())
    refusal = body.get("refusal")
    if refusal is None:
        return response
    told = told_holders(runtime, refusal["binding"], user)
    body["refusal"] = refusal | told
    if told["held_by"]:
        said = body["detail"]
        body["detail"] = f"{said}; {told['held_by']}"
        for error in body["errors"]:
            if error["message"] == said:
                error["message"] = body["detail"]
    return replace(response, body=body)


def told_holders(runtime: Runtime, binding: Mapping[str, Any] | None, user: User) -> dict[str, Any]:
    """Return the members of an answer that say who holds what is short."""
    holders = holders_of_binding(runtime, binding, user)
    return {"holders": holders, "held_by": held_by(holders)}
