"""The dispatch table and the quotas on applications of a cluster file."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cluster.dispatch_policy import ORDERS, DispatchPolicy, DispatchPolicyError
from planner.cluster.policy import ApplicationQuota, Scope
from planner.files import FileError, cluster_from_json, cluster_to_json, dispatch_from_json
from planner.files.schema import load_schema

_CLUSTER: dict[str, Any] = {
    "step": "60s",
    "horizon": "4h",
    "machines": [{"name": "plain", "count": 10, "resources": {"cpu": 1}}],
}


def test_a_cluster_without_a_dispatch_table_has_the_defaults_and_writes_none() -> None:
    """Earlier Records there was a table read as they were meant, and are written as they were."""
    cluster = cluster_from_json(_CLUSTER)
    assert cluster.dispatch == DispatchPolicy()
    assert "dispatch" not in cluster_to_json(cluster)


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_is_read_and_written_back(order: str) -> None:
    """With what follows from it left out."""
    cluster = cluster_from_json({**_CLUSTER, "dispatch": {"order": order}})
    assert cluster.dispatch.order == order
    assert cluster.dispatch.preempt == (order not in ("drf", "lotes"))
    assert cluster_from_json(cluster_to_json(cluster)) == cluster


def test_every_word_is_written_back() -> None:
    """A policy with nothing left at its default."""
    words = {
        "order": "sjf-2d", "by_priority": False, "interactive_first": False, "preempt": False,
        "allocation": "malleable", "reclaim": False, "placement": "spread", "tables": False,
        "allow_start": True,
        "grow": "global_cap", "grow_below": 0.5, "grow_times": 2, "spare": 0.99,
    }  # fmt: skip
    cluster = cluster_from_json({**_CLUSTER, "dispatch": words})
    assert cluster_to_json(cluster)["dispatch"] == words
    assert cluster_from_json(cluster_to_json(cluster)) == cluster


@pytest.mark.parametrize(
    ("words", "pointer", "fix"),
    [
        ({"order": "fife"}, "/dispatch/order", "did you mean 'fifo'?"),
        ({"placement": "worst_fit"}, "/dispatch/placement", "did you mean 'best_fit'?"),
        ({"preemt": True}, "/dispatch/preemt", "did you mean 'preempt'?"),
        ({"order": "drf", "preempt": True}, "/dispatch/preempt", "write false, or leave it out"),
        (
            {"order": "psjf-2d", "preempt": False},
            "/dispatch/preempt",
            "write order = 'sjf-2d' for the same without preemption",
        ),
        (
            {"order": "priority", "by_priority": False},
            "/dispatch/by_priority",
            "write order = 'fifo' for the oldest first",
        ),
        (
            {"allocation": "malleable", "reclaim": True},
            "/dispatch/reclaim",
            "write false, or leave it out",
        ),
    ],
)
def test_words_that_cannot_be_say_where_and_what_would_be_right(
    words: dict[str, Any], pointer: str, fix: str
) -> None:
    """In a cluster, and in a policy by itself."""
    with pytest.raises(FileError) as error:
        cluster_from_json({**_CLUSTER, "dispatch": words})
    assert [(one.pointer, one.fix) for one in error.value.problems] == [(pointer, fix)]
    with pytest.raises(FileError) as error:
        dispatch_from_json(words)
    assert error.value.problems[0].pointer == pointer.removeprefix("/dispatch")


def test_a_policy_that_cannot_be_is_not_made() -> None:
    """Python code meets the same checks as files."""
    with pytest.raises(DispatchPolicyError, match="write one of"):
        DispatchPolicy(order="lifo")


def test_the_schema_names_the_orders_that_are_known() -> None:
    """Readers of the schema and of the file see one list."""
    words = load_schema("cluster")["$defs"]["dispatch"]["properties"]
    assert tuple(words["order"]["enum"]) == ORDERS
    assert sorted(words) == sorted(DispatchPolicy.__slots__)


def test_a_quota_on_applications_is_read_and_written_back() -> None:
    """Count, amounts and run time, of each tenant; a zero is kept, it forbids."""
    quota = {
        "type": "applications", "name": "share", "tenant": "*", "max_count": 20, "max_run": "1d",
        "limit": {"cpu": 4, "gpu": 0},
    }  # fmt: skip
    cluster = cluster_from_json({**_CLUSTER, "policies": [quota]})
    limit = (("cpu", 4000), ("gpu", 0))
    expected = ApplicationQuota("share", Scope("*"), limit, 20, 86_400_000)
    assert cluster.policies == (expected,)
    assert cluster_from_json(cluster_to_json(cluster)) == cluster


@pytest.mark.parametrize(
    ("entry", "pointer"),
    [
        ({}, "/policies/0"),
        ({"limit": {}}, "/policies/0"),
        ({"max_run": 0}, "/policies/0/max_run"),
        ({"max_count": -1}, "/policies/0/max_count"),
        ({"max_count": 1, "queue": "nowhere"}, "/policies/0/queue"),
    ],
)
def test_a_quota_on_applications_that_cannot_be(entry: dict[str, Any], pointer: str) -> None:
    """Each mistake is reported with its place."""
    with pytest.raises(FileError) as error:
        cluster_from_json({**_CLUSTER, "policies": [{"type": "applications", **entry}]})
    assert error.value.problems[0].pointer == pointer
