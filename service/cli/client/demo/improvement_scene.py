"""A better Plan is looked for beside the service, and what is found is applied."""

from __future__ import annotations

from typing import Any, Final

from service.cli.client.demo.stage import DemoStage

#: How many changes are tried: some seconds, and the same Plan gives the same better one.
_TRIALS: Final = 150

#: What may become of a request, as a person reads it.
_KINDS: Final = {
    "gained": "that were refused are promised",
    "restored": "have all again that was promised",
    "moved": "move",
}


def improve_the_plan(stage: DemoStage) -> None:
    """Look for a Plan that also takes what was refused; apply it."""
    stage.clock.go(1.0)
    asked = {"admit_refused": True, "work": _TRIALS, "solver": "none", "frozen_until": "+10m"}
    stage.tell(f"a better Plan is looked for, in {_TRIALS} trials; nobody may lose anything by it")
    id_ = stage.post("/v1/optimizations", asked)["id"]
    job: dict[str, Any] = stage.seen("a better Plan", lambda: _ended(stage, id_))
    found = job["result"]
    counts = {} if found is None else found["diff"]["counts"]
    if not any(counts.values()):
        stage.tell("none was found")
        return
    path = f"/v1/optimizations/{id_}/apply?partial=true"
    done = stage.server.call("POST", path).good()
    told = ", ".join(f"{counts[kind]} {said}" for kind, said in _KINDS.items() if counts.get(kind))
    stage.tell(f"found and applied, version {done['version']} of the Plan: {told}")


def _ended(stage: DemoStage, id_: str) -> dict[str, Any] | None:
    job: dict[str, Any] = stage.get(f"/v1/optimizations/{id_}")
    return job if job["state"] not in ("waiting", "queued", "running") else None
