"""Assemble the example day: tenants, and their requests with submissions and deadlines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from service.example_day.facts import draw_between, draw_one, hourly_rate
from service.example_day.requests import (
    STEP_S,
    Kind,
    Wish,
    dashboard,
    either_way,
    fork_join,
    gang,
    map_reduce,
    pipeline,
    session,
    training,
)
from service.importers.lines import Slack, to_json_lines, window_text

SEED = 20090105
REQUESTS = 400

_DAY_S = 24 * 3600
_FIRST_S = (
    600  # nothing starts in the first ten minutes: a server needs them to accept the requests
)
_AHEAD = 0.25  # share of the requests that are submitted hours before their window begins
_SLACK = Slack()


@dataclass(frozen=True, slots=True)
class _Team:
    """A tenant: its share of the requests, their queue, and their kinds."""

    name: str
    share: float
    queue: str
    kinds: tuple[tuple[Kind, float], ...]
    weights: tuple[tuple[float, float], ...] = ((1.0, 1.0),)


_TEAMS = (
    _Team("ads", 0.24, "batch", ((map_reduce, 0.7), (pipeline, 0.2), (dashboard, 0.1)),
          ((1.0, 0.7), (2.0, 0.3))),
    _Team("feed", 0.22, "batch", ((map_reduce, 0.85), (fork_join, 0.15))),
    _Team("search", 0.16, "batch", ((fork_join, 0.35), (pipeline, 0.25), (gang, 0.4))),
    _Team("insights", 0.18, "interactive", ((map_reduce, 0.75), (dashboard, 0.25)),
          ((1.0, 0.8), (3.0, 0.2))),
    _Team("ml", 0.14, "batch", ((training, 0.45), (either_way, 0.25), (gang, 0.3))),
    _Team("platform", 0.06, "interactive", ((session, 0.6), (pipeline, 0.4)), ((2.0, 1.0),)),
)  # fmt: skip


def example_day(generator: np.random.Generator, count: int = REQUESTS) -> list[dict[str, object]]:
    """Return `count` workload lines in order of submission.

    Every request can be met on the empty example cluster; it is refused only because of earlier
    requests.
    """
    drawn = [_draw(generator) for _ in range(count)]
    drawn.sort(key=lambda entry: entry[0])
    lines = []
    for index, (submitted, start, end, team, weight, wish) in enumerate(drawn):
        line: dict[str, object] = {
            "id": f"{team.name}-{index:03d}",
            "tenant": team.name,
            "queue": team.queue,
            "submitted": submitted,
            "rdl": window_text(start, end, wish.rdl),
        }
        if weight != 1.0:
            line["weight"] = weight
        lines.append(line)
    return lines


def _draw(generator: np.random.Generator) -> tuple[int, int, int, _Team, float, Wish]:
    """Draw one request; draw again if it cannot end within the day."""
    while True:
        team = draw_one([(team, team.share) for team in _TEAMS], generator)
        wish = draw_one(team.kinds, generator)(generator)
        start = _arrival(generator)
        slack = 0.0 if wish.tight else _SLACK.draw(generator)
        length = int(wish.alone_s * (1.0 + slack) // STEP_S) * STEP_S
        end = start + max(length, wish.alone_s + (0 if wish.tight else STEP_S))
        ahead = draw_between(0, 4 * 3600, generator) if float(generator.random()) < _AHEAD else 0
        weight = draw_one(team.weights, generator)
        if end <= _DAY_S:
            return max(0, int(start - ahead)), start, end, team, weight, wish


def _arrival(generator: np.random.Generator) -> int:
    """Draw the start of a window from the day's rate, on a step (rejection sampling)."""
    highest = max(hourly_rate(hour / 4) for hour in range(96))
    while True:
        at = draw_between(_FIRST_S, _DAY_S, generator)
        if float(generator.random()) * highest < hourly_rate(at / 3600):
            return int(at // STEP_S) * STEP_S


def cluster_text() -> str:
    """Return the example cluster's file."""
    return _text_of("cluster.toml")


def _text_of(name: str) -> str:
    return files("service.example_day").joinpath(name).read_text(encoding="utf-8")


def write_example_day(folder: Path, seed: int = SEED) -> tuple[Path, Path]:
    """Write ``cluster.toml`` and ``workload.jsonl`` into `folder` (created if missing).

    Returns
    -------
    cluster, workload
        The two paths.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cluster, workload = folder / "cluster.toml", folder / "workload.jsonl"
    cluster.write_text(cluster_text(), encoding="utf-8")
    lines = example_day(np.random.default_rng(seed))
    workload.write_text("".join(to_json_lines(lines)), encoding="utf-8")
    return cluster, workload


def write_nightly(folder: Path, data: Path | None = None) -> Path:
    """Write ``nightly.toml``, a pipeline, into `folder`; return its path.

    Parameters
    ----------
    data
        Folder in which its stages look for files; that of the example when absent.
    """
    text, path = _text_of("nightly.toml"), folder / "nightly.toml"
    if data is not None:
        text = text.replace('"/tmp/agenda-nightly"', json.dumps(str(data)))
    path.write_text(text, encoding="utf-8")
    return path
