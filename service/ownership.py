"""Ownership: objects of other tenants are invisible to a user, and cannot be requested."""

from __future__ import annotations

from dataclasses import replace

from planner.cluster.cluster import Cluster
from planner.cluster.policy import EACH
from planner.plan.plan import Plan
from service.access.user import User
from service.problems import ApiError, ApiProblemError, malformed_problem, problem

#: The tenant of an operator's request without one.
DEFAULT_TENANT = "default"


def tenant_of(user: User, named: str | None, pointer: str) -> str:
    """Return the tenant that a request is for: the one it names, else the user's only one.

    Parameters
    ----------
    pointer
        JSON pointer of the request in the body.

    Raises
    ------
    ApiProblemError
        ``forbidden`` for a tenant that the user does not act for, whether there is such a tenant or
        not; ``malformed`` if none is named and the user has several.
    """
    if named is not None:
        if not user.acts_for(named):
            raise forbidden_tenant(user, named, f"{pointer}/tenant")
        return named
    if user.sees_all:
        return DEFAULT_TENANT
    if len(user.tenants) != 1:
        known = ", ".join(sorted(user.tenants))
        error = ApiError("name the tenant", pointer=f"{pointer}/tenant", fix=f"one of {known}")
        raise malformed_problem([error])
    return next(iter(user.tenants))


def own_filter(user: User, named: str | None) -> str | None:
    """Return the tenant by which a list is filtered.

    Raises
    ------
    ApiProblemError
        ``forbidden`` for a tenant that the user does not act for.
    """
    if named is not None and not user.acts_for(named):
        raise forbidden_tenant(user, named, "?tenant")
    return named


def forbidden_tenant(user: User, named: str, pointer: str) -> ApiProblemError:
    """Return the answer to a user who names a tenant that it does not act for."""
    detail = f"{user.name!r} does not act for tenant {named!r}"
    return problem("forbidden", detail, [ApiError(detail, "forbidden", pointer)])


def require_own(plan: Plan, user: User, id_: str) -> None:
    """Refuse a reservation of another tenant, as if it did not exist.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    if user.sees_all:
        return
    number = plan.table.number_of(id_)
    if number is not None:
        tenant = plan.table.scope(number)[0]
    else:
        refusal = plan.refusal(id_)
        if refusal is None:
            return
        tenant = refusal.tenant
    if not user.acts_for(tenant):
        raise problem("not_found", f"there is no reservation {id_!r}")


def shown_cluster(cluster: Cluster, user: User) -> Cluster:
    """Return a cluster without the policies on tenants that a user does not act for."""
    if user.sees_all:
        return cluster
    shown = tuple(
        one
        for one in cluster.policies
        if one.scope.tenant in (None, EACH) or user.acts_for(one.scope.tenant)
    )
    return replace(cluster, policies=shown)


def require_visible(user: User, tenant: str | None, what: str) -> None:
    """Refuse to show an object that does not exist, or whose tenant the user does not act for.

    Parameters
    ----------
    tenant
        Tenant of the object; None if there is no such object.
    what
        Its name in the answer, such as ``reservation 'a'``. Both cases have the same answer.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    if tenant is None or not user.acts_for(tenant):
        raise problem("not_found", f"there is no {what}")
