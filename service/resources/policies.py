"""Policies: limits for tenants, queues and agents, and their use.

Policies are part of the cluster's description; these calls read, set and remove a single one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec

from planner.cluster.cluster import Cluster
from planner.cluster.policy import EACH, ApplicationQuota, Policy
from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.placement import Code
from planner.plan.plan import Plan
from planner.policy_use import APPLICATIONS, INSTANT, MEASURES, PolicyUse, policy_use
from rdl.time_grid import duration_text
from service.access.user import Role, User
from service.commits.cluster_changes import UNPLANNABLE
from service.commits.commands import ClusterAnswer, Reconfiguration
from service.dispatching.documents import counted_in
from service.http.kinds import ID_PATTERN
from service.http.kit import Answer, Calls, IfMatch, Instant, doc, one_of
from service.http.route import links_from
from service.ownership import shown_cluster
from service.problems import (
    ApiError,
    ApiProblemError,
    ProblemDocument,
    malformed_problem,
    problem,
)
from service.resources.cluster import present_cluster
from service.resources.plan import UNITS
from service.response import Response
from service.runtime import Runtime

#: A policy as in the cluster file; the name is optional, as the path has it.
_BODY: Final = {"$ref": "#/components/schemas/Cluster/$defs/policy"}

#: The most retries when another user changes the description at the same time.
_ROUNDS: Final = 5

_NAME_FIX: Final = "write letters, digits and _ . : @ + ~ -"

_TAG: Final = {"ETag": "Entity tag of the policy."}


class LimitUse(Answer):
    tenant: Annotated[
        str | None, doc("Null: the total of a policy that does not count accounts separately.")
    ]
    queue: str | None
    agent: str | None
    measure: Annotated[
        str,
        one_of(MEASURES),
        doc("An amount at any time, its average over a window, or a count."),
    ]
    resource: Annotated[str | None, doc("Null for a count.")]
    unit: str
    limit: float
    used: Annotated[float, doc("The present use; of an average, over the window that ends now.")]
    peak: Annotated[
        float,
        doc("The largest use from now on; of an average, over any window that has not ended."),
    ]
    peak_at: Annotated[Instant, doc("Start of the peak or of its window.")]
    applies: Annotated[bool, doc("Whether the limit applies now: quotas may have times of day.")]
    window: Annotated[str | None, doc("Of an average.")]
    guarantee: Annotated[
        float | None, doc("Of a quota that lends: use above the guarantee is borrowed.")
    ]


class PolicyView(Answer):
    name: str
    policy: Annotated[dict[str, Any], doc("As in the cluster file.")]
    use: Annotated[
        list[LimitUse],
        doc(
            "By account of your tenants, fullest first. Empty for policies that count nothing "
            "(displacement). Applications: those without a covering reservation, as of the last "
            "tick of the dispatcher."
        ),
    ]


class PolicyList(Answer):
    version: int
    policies: list[PolicyView]


calls = Calls()


@calls.get("/v1/policies", "The policies, in the order of the description.")
def list_policies(runtime: Runtime, user: User) -> PolicyList:
    """All policies with their present use and the peak of future use."""
    with runtime.reading() as plan:
        shown = shown_cluster(plan.cluster, user).policies
        views = [_view(runtime, plan, policy, user) for policy in shown]
        return PolicyList(version=plan.version, policies=views)


@calls.get(
    "/v1/policies/{name}",
    "The policy.",
    headers=_TAG,
    fails=("not_found",),
    links=links_from(
        "$response.body#/name", "setPolicy", "removePolicy", "getPolicyUse", part="name"
    ),
)
def get_policy(runtime: Runtime, user: User, name: str) -> Annotated[Response, PolicyView]:
    """One policy with its use."""
    with runtime.reading() as plan:
        policy = _named(shown_cluster(plan.cluster, user), name)
        return _response(_view(runtime, plan, policy, user))


@calls.put(
    "/v1/policies/{name}",
    "The policy as it is now.",
    also={201: "The policy is new."},
    headers=_TAG,
    links=links_from(
        "$response.body#/name", "getPolicy", "removePolicy", "getPolicyUse", part="name"
    ),
    fails=(Code.MALFORMED, "stale_revision", Code.CONFLICT, UNPLANNABLE),
    examples={"cores of a team": {"type": "quota", "tenant": "ads", "limit": {"cpu": 100}}},
    role=Role.OPERATOR,
)
def set_policy(
    runtime: Runtime, user: User, name: str, body: Annotated[Any, _BODY], tag: IfMatch
) -> Annotated[Response, PolicyView]:
    """Add or replace a policy; existing promises are kept."""

    def changed(present: Cluster) -> Cluster:
        known = [one.name for one in present.policies]
        if name not in known and not ID_PATTERN.fullmatch(name):
            raise malformed_problem([ApiError(f"{name!r} is not a valid name", fix=_NAME_FIX)])
        entries = list(cluster_to_json(present).get("policies", ()))
        place = known.index(name) if name in known else len(entries)
        entries[place : place + 1] = [_entry(body, name)]
        return replace(present, policies=_read(present, entries, place))

    is_new = _change(runtime, name, tag, changed)
    with runtime.reading() as plan:
        policy = _named(plan.cluster, name)
        return _response(_view(runtime, plan, policy, user), 201 if is_new else 200)


@calls.delete(
    "/v1/policies/{name}",
    "The policy is removed.",
    status=204,
    fails=("not_found", "stale_revision", Code.CONFLICT, UNPLANNABLE),
    role=Role.OPERATOR,
)
def remove_policy(runtime: Runtime, name: str, tag: IfMatch) -> None:
    """Remove a policy: it no longer applies to requests."""

    def changed(present: Cluster) -> Cluster:
        policy = _named(present, name)
        return replace(present, policies=tuple(one for one in present.policies if one != policy))

    _change(runtime, name, tag, changed)


def _named(cluster: Cluster, name: str) -> Policy:
    found = next((one for one in cluster.policies if one.name == name), None)
    if found is None:
        raise problem("not_found", f"there is no policy {name!r}")
    return found


def _json(policy: Policy, cluster: Cluster) -> dict[str, Any]:
    """Return a policy in the form of the cluster file."""
    entry: dict[str, Any] = cluster_to_json(replace(cluster, policies=(policy,)))["policies"][0]
    return entry


def _tag_of(policy: Policy | None, cluster: Cluster) -> str | None:
    if policy is None:
        return None
    return hashlib.sha256(msgspec.json.encode(_json(policy, cluster))).hexdigest()[:16]


def _response(view: PolicyView, status: int = 200) -> Response:
    tag = hashlib.sha256(msgspec.json.encode(view.policy)).hexdigest()[:16]
    return Response(status, view, {"ETag": f'"{tag}"'})


def _entry(body: Any, name: str) -> dict[str, Any]:
    """Return the policy of a body, with the name of the path."""
    if not isinstance(body, Mapping):
        raise malformed_problem([ApiError("a policy is an object", fix='write {"type": "quota"}')])
    if body.get("name", name) != name:
        error = ApiError("the name in the path differs", pointer="/name", fix="leave the name out")
        raise malformed_problem([error])
    return {**body, "name": name}


def _read(present: Cluster, entries: list[dict[str, Any]], place: int) -> tuple[Policy, ...]:
    """Read policies as in cluster files; problems have pointers into the policy at `place`."""
    document = cluster_to_json(present) | {"policies": entries}
    try:
        found = cluster_from_json(document, "the policy", level=present.promise, present=present)
    except FileError as error:
        inside = f"/policies/{place}"
        raise malformed_problem(
            [
                ApiError(one.message, pointer=(one.pointer or "").removeprefix(inside), fix=one.fix)
                for one in error.problems
            ]
        ) from error
    return found.policies


def _change(
    runtime: Runtime, name: str, tag: str | None, changed: Callable[[Cluster], Cluster]
) -> bool:
    """Change the policies of the cluster's description; return whether this policy is new.

    Raises
    ------
    ApiProblemError
        ``stale_revision`` if the tag of the policy is another one.
    """
    for _ in range(_ROUNDS):
        present, read = present_cluster(runtime)
        known = next((one for one in present.policies if one.name == name), None)
        wanted = changed(present)
        if tag is not None and (known is None if tag == "*" else tag != _tag_of(known, present)):
            raise problem("stale_revision", f"policy {name!r} has changed since that version")
        answer = runtime.planner.change(Reconfiguration(wanted, read))[0]
        if isinstance(answer, ClusterAnswer):
            return known is None
        assert isinstance(answer, ProblemDocument)
        if answer.code != "stale_revision":
            raise ApiProblemError(answer)
    raise problem("conflict", "the cluster's description keeps changing; try again later")


def _view(runtime: Runtime, plan: Plan, policy: Policy, user: User) -> PolicyView:
    """Return a policy with its use, as far as the user may see it."""
    if isinstance(policy, ApplicationQuota):
        found = _of_applications(runtime, policy, plan.now)
    else:
        found = policy_use(plan, policy)
    use = [
        _shown(runtime, plan, one)
        for one in found
        if user.sees_all or (one.tenant is not None and user.acts_for(one.tenant))
    ]
    return PolicyView(name=policy.name, policy=_json(policy, plan.cluster), use=use)


def _of_applications(runtime: Runtime, quota: ApplicationQuota, now: int) -> list[PolicyUse]:
    """Return the use of a quota by applications without cover, fullest first.

    Accounts without any are left out, except the one that the policy names.
    """
    rows, scope = runtime.dispatcher.rows, quota.scope
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for one in rows.open():
        reservation, queue = counted_in(one.document)
        account = scope.key(one.tenant, queue)
        if reservation is None and account is not None:
            counts[account] += 1
    amounts: dict[tuple[str | None, str | None], dict[str, int]] = {
        (one["tenant"], one["queue"]): one["used"]
        for one in msgspec.json.decode(rows.assignment()).get("quotas", ())
        if one["policy"] == quota.name
    }
    accounts = counts.keys() | amounts.keys()
    if EACH not in (scope.tenant, scope.queue):
        accounts.add((scope.tenant, scope.queue))
    found = []
    for account in accounts:
        used = amounts.get(account, {})
        limits: list[tuple[str, str | None, int, int]] = [
            (INSTANT, name, most, used.get(name, 0)) for name, most in quota.limit
        ]
        if quota.max_count is not None:
            limits.append((APPLICATIONS, None, quota.max_count, counts[account]))
        found += [
            PolicyUse(*account, measure, name, most, now_used, now_used, now)
            for measure, name, most, now_used in limits
        ]
    return sorted(found, key=lambda one: (-one.peak / max(one.limit, 1e-9), str(one.tenant)))


def unit_of(measure: str, resource: str | None) -> tuple[str, int]:
    """Return the displayed unit of a limit, and its size in units of the Plan."""
    return (measure, 1) if resource is None else UNITS.get(resource, ("units", 1))


def _shown(runtime: Runtime, plan: Plan, use: PolicyUse) -> LimitUse:
    unit, size = unit_of(use.measure, use.resource)
    return LimitUse(
        tenant=use.tenant,
        queue=use.queue,
        agent=use.agent,
        measure=use.measure,
        resource=use.resource,
        unit=unit,
        limit=use.limit / size,
        used=use.used / size,
        peak=use.peak / size,
        peak_at=runtime.calendar(plan.grid.ms(use.peak_at)),
        applies=use.applies,
        window=None if use.window_ms is None else duration_text(use.window_ms),
        guarantee=None if use.guarantee is None else use.guarantee / size,
    )
