"""A better Plan is looked for beside the service, and what is found is applied."""

from __future__ import annotations

from typing import Any, Final

from service.cli.client.demo.stage import Stage

#: How long is looked for it, seconds; nothing moves before that is over.
_LOOKED_S: Final = 6


def improve_the_plan(stage: Stage) -> None:
    """Look for a Plan that also takes what was refused; apply it."""
    stage.clock.go(1.0)
    asked = {
        "admit_refused": True, "time_limit": f"{_LOOKED_S}s", "solver": "none",
        "frozen_until": "+10m",
    }  # fmt: skip
    stage.tell(f"a better Plan is looked for, for {_LOOKED_S} s, in which nobody loses anything; "
               "the clock goes on second by second meanwhile")  # fmt: skip
    id_ = stage.post("/v1/optimizations", asked)["id"]
    found: dict[str, Any] = stage.seen("a better Plan", lambda: _ended(stage, id_))
    applied = stage.server.call("POST", f"/v1/optimizations/{id_}/apply", query={"partial": True})
    result, body = found["result"], applied.good()
    stage.tell(f"found and applied: {body}  {str(result)[:600]}")


def _ended(stage: Stage, id_: str) -> dict[str, Any] | None:
    job: dict[str, Any] = stage.get(f"/v1/optimizations/{id_}")
    return job if job["state"] not in ("waiting", "queued", "running") else None
