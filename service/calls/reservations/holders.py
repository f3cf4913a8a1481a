"""Who holds a resource at an instant: how much by tenant, and names only of what a user may see."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from planner.plan.plan import Plan
from planner.plan.table.column_reading import ids_of, row_columns
from planner.reservations.reservation import amount_to_json
from service.access.user import User

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
