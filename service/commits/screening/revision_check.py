"""Whether a change may happen now: state and hold allow it, and the revision is the present one."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from planner.cluster.cluster import Cluster
from planner.files import cluster_to_json
from planner.plan.plan import Plan
from planner.reservations.state import State, Transition, may
from service.problems import ProblemDocument

#: What a transition does to a reservation, in a sentence.
_DONE_TO_IT: Final = {
    Transition.RENEGOTIATE: "renegotiated",
    Transition.CANCEL: "cancelled",
    Transition.CLOSE: "closed",
    Transition.RELEASE: "released",
    Transition.MISS: "owed time that was missed",
}


def blocked_problem(
    plan: Plan, id_: str, revision: int | None, transition: Transition
) -> ProblemDocument | None:
    """Return why a transition cannot happen to a reservation, or None."""
    number = plan.table.number_of(id_)
    if number is None:
        return no_reservation(plan, id_, transition)
    state = plan.table.state(number)
    if not may(state, transition):
        return _wrong_state(id_, state, transition)
    present = int(plan.table.meta[number]["revision"])
    if revision is not None and revision != present:
        detail = f"the reservation {id_!r} is at revision {present}, not {revision}"
        return _stale_revision(detail, str(present))
    return None


def no_reservation(plan: Plan, id_: str, transition: Transition) -> ProblemDocument:
    """Return why a transition cannot happen to an id that no reservation has."""
    if plan.refusal(id_) is not None:
        return _wrong_state(id_, State.REFUSED, transition)
    return ProblemDocument("not_found", f"there is no reservation {id_!r}")


def _wrong_state(id_: str, state: State, transition: Transition) -> ProblemDocument:
    detail = f"the reservation {id_!r} is {state.value} and cannot be {_DONE_TO_IT[transition]}"
    return ProblemDocument("wrong_state", detail)


def crowded_problem(plan: Plan, holder: str, tenant: str, most: int) -> ProblemDocument | None:
    """Return why a user may not hold anything more for a tenant now, or None."""
    table = plan.table
    mine = sum(
        one.holder == holder and table.scope(number)[0] == tenant
        for number, one in table.holds.items()
    )
    if mine < most:
        return None
    detail = "as many offers are held or asked for you as may be; accept one, or give one back"
    return ProblemDocument("too_many", detail, headers={"Retry-After": "10"})


def not_held_problem(plan: Plan, id_: str) -> ProblemDocument | None:
    """Return why there is nothing to keep or to give back under an id, or None."""
    number = plan.table.number_of(id_)
    if number is not None and number in plan.table.holds:
        return None
    if number is None:
        return ProblemDocument("not_found", f"there is no hold {id_!r}")
    state = plan.table.state(number).value
    detail = f"nothing is held under {id_!r} any more: the reservation is {state}"
    return ProblemDocument("wrong_state", detail)


def cluster_tag(cluster: Cluster) -> str:
    """Return the entity tag of a cluster's description."""
    body = msgspec.json.encode(cluster_to_json(cluster))
    return hashlib.sha256(body).hexdigest()[:16]


def stale_cluster_problem(
    plan: Plan, tag: str | None, version: int | None = None
) -> ProblemDocument | None:
    """Return why a change is not meant for the cluster or the Plan as they are now, or None."""
    present = cluster_tag(plan.cluster)
    if tag not in (None, "*", present):
        detail = "the cluster's description has changed since that version of it"
    elif version not in (None, plan.version):
        detail = f"the Plan has changed since version {version}"
    else:
        return None
    return _stale_revision(detail, present)


def _stale_revision(detail: str, present: str) -> ProblemDocument:
    """Return the answer to a change that is meant for an older state; `present` is today's tag."""
    return ProblemDocument("stale_revision", detail, headers={"ETag": f'"{present}"'})
