"""`kubernetes_scale`: how soon Jobs are promised and started on 1,000 nodes that kwok plays.

`.ci/kubernetes python -m bench kubernetes_scale`: etcd, the API server, its controllers, the
scheduler, kwok and the server share the machine. Only pod states are real: nothing runs.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from click.testing import CliRunner

from bench.workloads.own_kubernetes import ASSETS, OwnKubernetes
from bench.workloads.processor_time import mean_tick, measured_cpu
from dispatch.backends.kubernetes.api import Json, KubernetesApi, Watched
from dispatch.backends.kubernetes.cluster import JOBS, PODS
from dispatch.backends.kubernetes.records import PRIORITY_CLASS, PROMISE, RDL, START
from service.cli.kit.server import Server
from service.cli.main import main
from service.cli.server_process import free_port, run_server

NAME = "kubernetes_scale"

NODES: Final = 1000
JOBS_PER_S: Final = 20
STARTS: Final = 200
#: Pods of a Job, and how long they run, s.
PODS_EACH: Final = 2
RUN_S: Final = 10
#: How long Jobs are created, and how long the API server is left in peace, s.
PROMISING_S: Final = 60
QUIET_S: Final = 60

#: From the creation of the first Job that is to start to the start of its slot, s.
_LEAD_S: Final = 45
#: Longest wait for promises, and for pods, s.
_PATIENCE_S: Final = 180

_ACCOUNT: Final = "system:serviceaccount:agenda:agenda"
_MANIFEST: Final = Path(__file__).parents[3] / "docs" / "deploy" / "kubernetes" / "agenda.yaml"


def run(small: bool) -> dict[str, object]:
    """Measure promises, starts over a minute and at one instant, and a quiet minute."""
    nodes, promising_s, starts = (20, 5, 10) if small else (NODES, PROMISING_S, STARTS)
    params: dict[str, object] = {
        "nodes": nodes,
        "jobs_per_s": JOBS_PER_S,
        "jobs": JOBS_PER_S * promising_s,
        "starts": starts,
        "pods_each": PODS_EACH,
    }
    programs = os.environ.get(ASSETS)
    if not programs:
        return {
            "params": params,
            "figures": {"skipped": f"{ASSETS} is not set: use .ci/kubernetes"},
        }
    with _serving(Path(programs), nodes) as lab, measured_cpu() as cpu_s:
        later = f"window(atom(<2 cpu>, {PODS_EACH}, {PODS_EACH}, 5m, 10m), +60m, +120m)"
        created = lab.create("later", [later] * (JOBS_PER_S * promising_s))
        promised = lab.wait(lab.promised, created)
        figures = {
            "promise": _percentiles([promised[name] - at_s for name, at_s in created.items()]),
            "quiet": lab.quiet(10 if small else QUIET_S),
            "starts_in_a_minute": lab.starts("spread", starts, 60),
            "starts_at_once": lab.starts("burst", starts, 0),
            **mean_tick(lab.server),
        }
    return {"params": params, "figures": {**figures, "cpu_s": cpu_s}}


@dataclass(slots=True)
class _Lab:
    """A Kubernetes with a server that keeps its promises, and what watches of it have seen.

    Attributes
    ----------
    promised
        When each Job had its promise, Unix time.
    begins
        When the slot of each begins.
    bound
        When each of its pods had a node.
    """

    own: OwnKubernetes
    server: Server
    api: KubernetesApi
    promised: dict[str, float] = field(default_factory=dict)
    begins: dict[str, float] = field(default_factory=dict)
    bound: dict[str, dict[str, float]] = field(default_factory=dict)

    def see_job(self, object_: Json) -> None:
        name, notes = object_["metadata"]["name"], object_["metadata"].get("annotations", {})
        if notes.get(PROMISE) == "promised" and name not in self.promised:
            self.promised[name] = time.time()
            self.begins[name] = datetime.fromisoformat(notes[START]).timestamp()

    def see_pod(self, object_: Json) -> None:
        job = object_["metadata"]["labels"]["job-name"]
        if object_["spec"].get("nodeName"):
            pods = self.bound.setdefault(job, {})
            pods.setdefault(object_["metadata"]["name"], time.time())

    def create(self, prefix: str, requests: Sequence[str]) -> dict[str, float]:
        """Create Jobs with these requests at the pace; return when each was created."""
        created: dict[str, float] = {}

        def create(name: str, rdl: str) -> None:
            created[name] = time.time()
            self.api.call("POST", "/apis/batch/v1/namespaces/default/jobs", _job(name, rdl))

        began_s = time.monotonic()
        with ThreadPoolExecutor(4) as pool:
            done = []
            for number, rdl in enumerate(requests):
                time.sleep(max(0.0, began_s + number / JOBS_PER_S - time.monotonic()))
                done.append(pool.submit(create, f"{prefix}-{number}", rdl))
            for one in done:
                one.result()
        return created

    def wait(self, seen: Mapping[str, Any], names: Mapping[str, object]) -> Mapping[str, Any]:
        """Return what has been seen of Jobs, once all of them have been."""
        _until(lambda: names.keys() <= seen.keys(), f"{len(names)} Jobs")
        return seen

    def starts(self, prefix: str, count: int, spread_s: int) -> dict[str, object]:
        """Let the slots of Jobs begin evenly within some time; return when their pods are bound."""
        due_s = _LEAD_S + np.arange(count) * spread_s / count - np.arange(count) / JOBS_PER_S
        requests = [
            f"window(atom(<2 cpu>, {PODS_EACH}, {PODS_EACH}, 60s, {60 * PODS_EACH}s), "
            f"+{round(at_s)}s, +{round(at_s) + 300}s)"
            for at_s in due_s
        ]
        created = self.create(prefix, requests)
        promised = self.wait(self.promised, created)

        def are_bound() -> bool:
            return all(len(self.bound.get(name, ())) == PODS_EACH for name in created)

        _until(are_bound, f"the pods of {count} Jobs")
        waits = [max(self.bound[name].values()) - self.begins[name] for name in created]
        _until(lambda: self._has_ended(created), f"the end of {count} Jobs")
        begins = [self.begins[name] for name in created]
        late = [promised[name] - at_s for name, at_s in created.items()]
        return {
            **_percentiles(waits),
            "begins_within_s": round(max(begins) - min(begins)),
            "promise_p99_s": _percentiles(late)["p99_s"],
        }

    def _has_ended(self, names: Mapping[str, object]) -> bool:
        found = self.api.items(JOBS)[0]
        ended = {
            one["metadata"]["name"]
            for one in found
            if one["metadata"]["annotations"].get(PROMISE) == "ended"
        }
        return names.keys() <= ended

    def quiet(self, seconds: int) -> dict[str, object]:
        """Return what the server asks of the API server while nothing happens."""
        time.sleep(5)
        before = len(self.own.calls_of(_ACCOUNT))
        time.sleep(seconds)
        calls = self.own.calls_of(_ACCOUNT)[before:]
        return {"seconds": seconds, "requests": len(calls)}


def _job(name: str, rdl: str) -> Json:
    template = {
        "metadata": {"annotations": {"seconds": f"{RUN_S}s"}},
        "spec": {
            "restartPolicy": "Never",
            "priorityClassName": PRIORITY_CLASS,
            "containers": [{"name": "c", "image": "work", "resources": {"requests": {"cpu": "2"}}}],
        },
    }
    size = {"parallelism": PODS_EACH, "completions": PODS_EACH}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "annotations": {RDL: rdl}},
        "spec": {"suspend": True, **size, "template": template},
    }


@contextmanager
def _serving(programs: Path, nodes: int) -> Iterator[_Lab]:
    """Yield a Kubernetes and a server with the rights of docs/deploy/kubernetes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agenda-bench-")))
        own = OwnKubernetes(programs, folder)
        stack.callback(own.stop)
        own.start()
        own.kubectl("apply", "-f", str(_MANIFEST))
        own.add_nodes(*(f"n{number}" for number in range(nodes)))
        cluster, rights, port = folder / "cluster.toml", folder / "server-kubeconfig", free_port()
        done = CliRunner().invoke(
            main,
            ["import", "kubernetes", "--kubeconfig", str(own.kubeconfig), "--cluster-out",
             str(cluster), "--step", "1s", "--horizon", "3h"],
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        token = own.kubectl("create", "token", "agenda", "-n", "agenda", "--duration=2h")
        own.write_kubeconfig(rights, token.strip())
        command = [
            sys.executable, "-c", "from service.cli.main import main; main()", "serve",
            "--database", f"sqlite:///{folder / 'agenda.db'}", "--cluster", str(cluster),
            "--kubernetes", str(rights), "--port", str(port), "--workers", "1",
            "--agent", "earliest",
        ]  # fmt: skip
        stack.enter_context(run_server(command, port, folder / "log"))
        api = KubernetesApi(str(own.kubeconfig))
        lab = _Lab(own, Server(f"http://127.0.0.1:{port}"), api)
        for path, read in ((JOBS, lab.see_job), (PODS, lab.see_pod)):
            watched: Watched[None] = Watched(api, path, read)
            watched.start()
            stack.callback(watched.close)
        yield lab


def _until(is_so: Callable[[], bool], what: str) -> None:
    """Wait until something is so.

    Raises
    ------
    TimeoutError
        If it is not in time.
    """
    until_s = time.monotonic() + _PATIENCE_S
    while not is_so():
        if time.monotonic() > until_s:
            raise TimeoutError(f"no news of {what} after {_PATIENCE_S} s")
        time.sleep(0.2)


def _percentiles(times_s: Sequence[float]) -> dict[str, object]:
    values = dict(
        zip(("p50_s", "p99_s", "max_s"), np.percentile(times_s, (50, 99, 100)), strict=True)
    )
    return {"count": len(times_s), **{name: round(float(one), 2) for name, one in values.items()}}
