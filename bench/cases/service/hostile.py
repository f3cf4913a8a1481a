"""`hostile`: processor time a megabyte of the worst bodies of every call that reads one.

One process, without HTTP's server. Times are of the thread that answers, so that other work on the
machine does not count. Each call gets bodies of about 300 KB; what it answers takes no time of
planning, for none of them can be planned. `worst` are the three that cost most a megabyte.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench.cases.service.batch import open_client
from bench.workloads.worst_inputs import bad_bodies
from service.http.route import Route
from service.resources.table import ROUTES

NAME = "hostile"

#: Seconds a megabyte that no input may cost.
MOST_S: Final = 1.0


def run(small: bool) -> dict[str, object]:
    """Measure each body once, and those above half of the bound three times."""
    size = 3_000 if small else 300_000
    taken: list[tuple[float, str, str, int]] = []
    with (
        tempfile.TemporaryDirectory(prefix="agenda-bench-") as name,
        open_client(Path(name)) as client,
    ):
        for route in ROUTES:
            if route.body is None:
                continue
            names = [field.name for field in route.body.fields or ()]
            for what, raw in bad_bodies(_base(client, route), size, names):
                cost = _cost(client, route, raw)
                if cost > MOST_S / 2:
                    cost = min(cost, _cost(client, route, raw), _cost(client, route, raw))
                taken.append((cost, route.name, what, len(raw)))
    worst = sorted(taken, reverse=True)[:3]
    return {
        "params": {"bytes": size, "bodies": len(taken), "bound_s_a_megabyte": MOST_S},
        "figures": {
            "worst_s_a_megabyte": round(worst[0][0], 3),
            "worst": [
                {"call": call, "body": what, "bytes": length, "s_a_megabyte": round(cost, 3)}
                for cost, call, what, length in worst
            ],
        },
    }


def _base(client: Any, route: Route) -> Any:
    """Return a body that a call reads."""
    if route.path == "/v1/cluster":
        return client.get("/v1/cluster").get_json()
    assert route.body is not None
    return next(iter(route.body.examples.values()), {})


def _cost(client: Any, route: Route, raw: bytes) -> float:
    """Return the processor time a megabyte of answering a body, s."""
    assert route.body is not None
    path = route.path.replace("{id}", "no-such-id")
    if any(field.name == "user.name" for field in route.query):
        path += "?user.name=ann"
    began = time.thread_time()
    answer = client.open(path, method=route.method, data=raw, content_type=route.body.media[0])
    cost = (time.thread_time() - began) / len(raw) * 1e6
    answer.close()
    return cost
