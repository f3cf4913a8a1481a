"""Lines about what differs between two documents."""

from __future__ import annotations

from typing import Any

import pytest

from planner.files.cluster_writer import difference

PLAIN = {"name": "plain", "count": 10, "resources": {"cpu": 1}}


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({"step": "60s"}, {"step": "60s"}, []),
        ({"step": "60s"}, {"step": "30s"}, ["step: 60s -> 30s"]),
        ({}, {"zone": "UTC"}, ["+ zone: UTC"]),
        ({"prices": [1]}, {}, ["- prices: [1]"]),
        (
            {"machines": [PLAIN]},
            {"machines": [{**PLAIN, "count": 12}]},
            ["machines plain.count: 10 -> 12"],
        ),
        (
            {"machines": [PLAIN]},
            {"machines": [{**PLAIN, "name": "new"}]},
            [
                '- machines plain: {"name": "plain", "count": 10, "resources": {"cpu": 1}}',
                '+ machines new: {"name": "new", "count": 10, "resources": {"cpu": 1}}',
            ],
        ),
        ({"days": ["mon"]}, {"days": ["mon", "tue"]}, ['days: ["mon"] -> ["mon", "tue"]']),
        (
            {"policies": [{"name": "a", "limit": {"cpu": 4}}]},
            {"policies": [{"name": "a", "limit": {"cpu": 4, "memory": "1 GiB"}}]},
            ["+ policies a.limit.memory: 1 GiB"],
        ),
    ],
)
def test_each_change_has_a_line(before: Any, after: Any, lines: list[str]) -> None:
    assert list(difference(before, after)) == lines
