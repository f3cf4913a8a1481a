"""The tenants of a Plan, each with its place among them: its colour in every picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.colours import tenant_slots
from planner.plan.table.column_reading import tenants_of
from service.access.user import User

if TYPE_CHECKING:
    from service.runtime import Runtime


def tenants(runtime: Runtime, user: User) -> dict[str, Any]:
    """Return the tenants a user acts for, by name, and how many others there are."""
    with runtime.reading() as plan:
        names, version = tenants_of(plan.table), plan.version
    slots = tenant_slots(names)
    known = [{"name": name, "slot": slots[name]} for name in slots if user.acts_for(name)]
    return {"version": version, "tenants": known, "others": len(names) - len(known)}
