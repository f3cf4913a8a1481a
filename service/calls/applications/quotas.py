"""What quotas on applications refuse when one is submitted: what no later tick could let run.

An application that names a reservation is refused nothing here: what its entitlement covers does
not count, and what is not covered waits in the dispatcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dispatch.applications.application import Application
from dispatch.cycle.quota_book import owner_text
from planner.cluster.cluster import Cluster
from planner.cluster.policy import ApplicationQuota
from planner.placement import Code
from rdl.resources import format_amount
from rdl.time_grid import duration_text
from service.dispatching.documents import counted_in
from service.problems import ApiError, problem
from service.store import Judge, Submitted


def check_alone(cluster: Cluster, application: Application, tenant: str, queue: str) -> None:
    """Refuse an application that exceeds a quota by itself.

    Raises
    ------
    ApiProblemError
        ``quota``, with an entry for each quota and resource.
    """
    if application.entitled_by is not None:
        return
    errors: list[ApiError] = []
    for quota in _quotas_of(cluster, tenant, queue):
        errors += _too_large(quota, application)
        longest, size = quota.max_run_ms, application.size_ms
        if longest is not None and size is not None and size > longest:
            told = f"it runs for {duration_text(size)}; policy {quota.name!r} allows"
            told += f" {duration_text(longest)}"
            fix = "name a reservation, or submit the work in shorter applications"
            errors.append(ApiError(told, Code.QUOTA, pointer="/application/size", fix=fix))
    if errors:
        raise problem(Code.QUOTA, "a quota on applications leaves it no room", errors)


def count_judge(
    cluster: Cluster, application: Application, tenant: str, queue: str
) -> Judge | None:
    """Return what refuses an application when too many wait or run; None where none are counted.

    What it returns raises ApiProblemError with ``count_limit``.
    """
    counted = [quota for quota in _quotas_of(cluster, tenant, queue) if quota.max_count is not None]
    if application.entitled_by is not None or not counted:
        return None

    def judge(present: Sequence[Submitted]) -> None:
        read = [(one.tenant, *counted_in(one.document)) for one in present]
        free = [(who, where) for who, reservation, where in read if reservation is None]
        for quota in counted:
            account = quota.scope.key(tenant, queue)
            count = sum(quota.scope.key(*scope) == account for scope in free)
            if quota.max_count is not None and count > quota.max_count:
                assert account is not None
                told = f"policy {quota.name!r} lets {owner_text(*account)} have"
                told += f" {quota.max_count:,} applications without a reservation at once"
                told += f", and {count - 1:,} wait or run"
                fix = "wait until one is over, end one, or name a reservation"
                error = ApiError(told, Code.COUNT_LIMIT, pointer="/application", fix=fix)
                raise problem(Code.COUNT_LIMIT, told, [error])

    return judge


def _quotas_of(cluster: Cluster, tenant: str, queue: str) -> Iterable[ApplicationQuota]:
    for policy in cluster.policies:
        if isinstance(policy, ApplicationQuota) and policy.scope.key(tenant, queue) is not None:
            yield policy


def _too_large(quota: ApplicationQuota, application: Application) -> Iterable[ApiError]:
    for name, most in quota.limit:
        asked = sum(one.resources.get(name, 0) * one.count for one in application.core)
        if asked > most:
            told = f"its cores ask for {format_amount(name, asked)}; policy {quota.name!r}"
            told += f" allows {format_amount(name, most)}"
            fix = "name a reservation, or make components elastic"
            yield ApiError(told, Code.QUOTA, pointer="/application/components", fix=fix)
