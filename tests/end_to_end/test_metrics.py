"""/metrics of a server of several processes: one answer, whichever of them gives it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.end_to_end.server_process import Client, serving
from tests.service.conftest import CLUSTER

POSTS = 20

TOLD = (
    r'agenda_reservations\{state="\w+",tenant="ads"\} (\S+)',
    r'agenda_reservations_admitted_total\{promise="\w+"\} (\S+)',
    r'agenda_allocated\{resource="cpu"\} (\S+)',
    r'agenda_capacity\{group="plain",resource="cpu"\} (\S+)',
)


def test_every_process_tells_all(tmp_path: Path) -> None:
    """Counters are summed over the processes, the Plan is reported once, by any of them."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    with serving(tmp_path / "a.db", cluster, workers=2) as server:
        for number in range(POSTS):
            body = {"id": f"r{number}", "rdl": "atom(<1 cpu>, 1, 10, 60, 600)", "tenant": "ads"}
            assert Client(server.port).call("POST", "/v1/reservations", body)[0] == 201

        pages = [Client(server.port).text("/metrics") for _ in range(8)]

        for page in pages:
            found = [re.findall(pattern, page) for pattern in TOLD]
            reserved, admitted, allocated, capacity = (sum(map(float, one)) for one in found)
            assert reserved == admitted == POSTS, page
            assert allocated <= capacity == 10
            assert page.count("# TYPE agenda_capacity gauge") == 1
