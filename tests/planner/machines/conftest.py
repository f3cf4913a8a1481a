"""Rooms of both kinds: trees over all steps, and lists of the steps at which something changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planner.machines import room


@pytest.fixture(scope="module", params=["trees", "lists"], autouse=True)
def _kind_of_room(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test of this folder sees both."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "lists":
            patch.setattr(room, "ROOM_BYTES", 0)
        yield
