"""A service whose Plan begins four hours before the example of YARN's wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.clock import ManualClock
from tests.service.conftest import Open, Service
from tests.service.yarn.facts import CLUSTER, NOW


@pytest.fixture(autouse=True)
def _clock_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock of all services here start before the example."""
    monkeypatch.setattr("tests.service.conftest.ManualClock", lambda: ManualClock(NOW))


@pytest.fixture
def yarn(open_service: Open, cluster_file: Path) -> Service:
    """Return the service; no dispatcher ticks."""
    cluster_file.write_text(CLUSTER)
    return open_service(tick_s=0)
