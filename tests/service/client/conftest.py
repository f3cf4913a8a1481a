"""A real server on loopback for programs that call it, of steps of a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.end_to_end.server_process import serving

CLUSTER = """
step = "1s"
horizon = "1h"

[[machines]]
name = "plain"
count = 10
resources = { cpu = 1 }
"""


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a small cluster; return the URL."""
    folder = tmp_path_factory.mktemp("client")
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER)
    with serving(folder / "agenda.db", cluster, agent="earliest") as running:
        yield f"http://127.0.0.1:{running.port}"
