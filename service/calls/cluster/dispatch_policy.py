"""Read the dispatch policy, and the table it may use; change it while the server runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from planner.cluster.dispatch_policy import DispatchPolicy
from planner.files import dispatch_to_json
from service.calls.cluster.cluster import present_cluster
from service.commits.changes.commands import ClusterAnswer, Reconfiguration
from service.commits.screening.revision_check import cluster_tag
from service.dispatching.records.table_record import read_table_record
from service.problems import ApiProblemError, ProblemDocument, problem
from service.runtime import Runtime

#: How often the description is read again because somebody else changed it meanwhile.
_ROUNDS: Final = 5


def present_policy(runtime: Runtime) -> tuple[dict[str, Any], str]:
    """Return every word of the policy, and the tag of the description that holds it."""
    cluster, tag = present_cluster(runtime)
    return dispatch_to_json(cluster.dispatch), tag


def replace_policy(
    runtime: Runtime, wanted: DispatchPolicy, tag: str | None
) -> tuple[dict[str, Any], str]:
    """Dispatch by another policy from the next tick on; return it, and the new tag.

    Raises
    ------
    ApiProblemError
        ``stale_revision`` where the description is no longer that of `tag`; ``conflict``.
    """
    for _ in range(_ROUNDS):
        present, read = present_cluster(runtime)
        meant = read if tag in (None, "*") else tag
        change = Reconfiguration(replace(present, dispatch=wanted), meant)
        answer = runtime.planner.change(change)[0]
        if isinstance(answer, ClusterAnswer):
            runtime.dispatcher.nudge()
            return dispatch_to_json(answer.cluster.dispatch), cluster_tag(answer.cluster)
        assert isinstance(answer, ProblemDocument)
        if answer.code != "stale_revision" or tag not in (None, "*"):
            raise ApiProblemError(answer)
    raise problem("conflict", "the cluster's description changes again and again; try later")


def dispatch_table(runtime: Runtime) -> dict[str, Any]:
    """Return the table, whether the present policy uses one, and when it was made."""
    found = read_table_record(runtime.dispatcher.store)
    with runtime.reading() as plan:
        used = plan.cluster.dispatch.tables
    at_ms = found.pop("at_ms", None)
    return {
        "used": used,
        "version": 0,
        "load": None,
        "problem": "",
        "table": None,
        **found,
        "at": None if at_ms is None else at_ms / 1000,
        "at_at": None if at_ms is None else runtime.calendar(at_ms),
    }
