"""A real API server under a real server: the promises of Jobs are kept on the nodes of a cluster.

The server has the rights of docs/deploy/kubernetes, and no more.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.workloads.own_kubernetes import ASSETS, LOGGED, OwnKubernetes
from dispatch.backends.kubernetes.api import KubernetesApi, KubernetesError, Watched
from dispatch.backends.kubernetes.cluster import JOBS
from dispatch.backends.kubernetes.components import EXECUTION, execution_label
from dispatch.backends.kubernetes.records import read_job
from service.cli.main import main
from service.cli.server_process import ServerProcess
from tests.end_to_end.server_process import Client, serving
from tests.patience import eventually

pytestmark = pytest.mark.kubernetes

_MANIFESTS = Path(__file__).parents[3] / "docs" / "deploy" / "kubernetes"
_NODES = ("n1", "n2", "n3")


def until(look: Callable[[], Any], limit_s: float = 120) -> Any:
    return eventually(look, limit_s=limit_s, pause_s=0.2)


class KubernetesLab:
    """A Kubernetes of three nodes of 4 CPUs, and a server that promises its Jobs."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        programs = os.environ.get(ASSETS)
        if not programs:
            pytest.skip(f"{ASSETS} is not set; run .ci/kubernetes python -m pytest -m kubernetes")
        self.own = OwnKubernetes(Path(programs), folder)
        self._folder, self._stack = folder, stack
        stack.callback(self.own.stop)
        self.own.start()
        for name in ("agenda.yaml", "applications.yaml"):
            self.own.kubectl("apply", "-f", str(_MANIFESTS / name))
        self.own.add_nodes(*_NODES)
        self.cluster = folder / "cluster.toml"
        self.run("import", "kubernetes", "--kubeconfig", str(self.own.kubeconfig),
                 "--cluster-out", str(self.cluster), "--label", "disk",
                 "--step", "1s", "--horizon", "1h")  # fmt: skip
        token = self.own.kubectl("create", "token", "agenda", "-n", "agenda", "--duration=2h")
        self.rights = folder / "server-kubeconfig"
        self.own.write_kubeconfig(self.rights, token.strip())
        self.server: ServerProcess | None = None
        self._port: int | None = None

    def run(self, *words: str) -> str:
        done = CliRunner().invoke(main, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    def serve(self) -> None:
        """Start the server, at the same port each time."""
        self.server = self._stack.enter_context(
            serving(
                self._folder / "agenda.db", self.cluster, port=self._port,
                kubernetes=str(self.rights), agent="earliest",
            )
        )  # fmt: skip
        self._port = self.server.port

    def kill(self) -> None:
        """Kill the server and its workers; nothing is left to end in order."""
        assert self.server is not None
        self.server.kill()

    def machine(self, node: str) -> str:
        return str(self.own.get("node", node)["metadata"]["labels"]["agenda/machine"])

    def call(self, path: str, method: str = "GET", body: object = None) -> Any:
        assert self._port is not None
        status, found = Client(self._port).call(method, path, body)
        assert status < 300, found
        return found

    def run_application(self, id_: str, *components: dict[str, Any]) -> None:
        """Submit an application of the tenant default, of components of an image."""
        whole = {"image": "work", "resources": {"cpu": 1}, "core": True, "count": 1}
        application = {"name": id_, "components": [{**whole, **one} for one in components]}
        self.call("/v1/applications", "POST", {"id": id_, "application": application})

    def application(self, id_: str) -> str:
        return str(self.call(f"/v1/applications/{id_}")["state"])

    def components(self, kind: str, id_: str) -> dict[str, dict[str, Any]]:
        """Return the Jobs or pods of the components of an application, such as ``a-0``."""
        label = f"{EXECUTION}={execution_label(id_)}"
        found = self.own.get(kind, "-l", label)["items"]
        specs = [one["spec"]["template"]["spec"] if kind == "job" else one["spec"] for one in found]
        return {spec["hostname"]: one for spec, one in zip(specs, found, strict=True)}

    def end_pod(self, name: str, code: int) -> None:
        """Let a pod end with an exit code."""
        ended = {"name": "component", "image": "work", "imageID": "", "ready": False,
                 "restartCount": 0, "state": {"terminated": {"exitCode": code}}}  # fmt: skip
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [ended]}
        self.own.kubectl("patch", "pod", name, "--subresource=status", "--type=merge",
                         "-p", json.dumps({"status": status}))  # fmt: skip

    def submit(
        self,
        name: str,
        pods: int,
        *,
        seconds: float,
        cpu: str = "4",
        namespace: str = "default",
        completions: int | None = None,
        **annotations: str,
    ) -> None:
        """Create a Job whose pods run for some seconds, with annotations of Agenda."""
        given = {f"agenda/{key.replace('_', '-')}": text for key, text in annotations.items()}
        container = {"name": "c", "image": "work", "resources": {"requests": {"cpu": cpu}}}
        template = {
            "metadata": {"annotations": {"seconds": f"{seconds}s"}},
            "spec": {
                "restartPolicy": "Never",
                "priorityClassName": "agenda-promised",
                "containers": [container],
            },
        }
        self.own.apply(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name, "namespace": namespace, "annotations": given},
                "spec": {
                    "suspend": True,
                    "parallelism": pods,
                    "completions": completions or pods,
                    "template": template,
                },
            }
        )

    def job(self, name: str) -> dict[str, Any]:
        return dict(self.own.get("job", name))

    def note(self, name: str, key: str) -> str:
        return str(self.job(name)["metadata"]["annotations"].get(f"agenda/{key}", ""))

    def promised(self, name: str) -> str:
        """Wait for a promise; return the id of the reservation."""
        until(lambda: self.note(name, "promise"))
        assert self.note(name, "promise") == "promised", self.job(name)["metadata"]
        return self.note(name, "reservation")

    def pods(self, name: str) -> list[dict[str, Any]]:
        return list(self.own.get("pods", "-l", f"job-name={name}")["items"])

    def is_complete(self, name: str) -> bool:
        conditions = self.job(name)["status"].get("conditions", ())
        return any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)

    def state(self, reservation: str) -> str:
        return str(self.call(f"/v1/reservations/{reservation}")["state"])

    def outages(self, kind: str) -> set[str]:
        """Return the machines in outages of a kind now."""
        found = self.call("/v1/cluster/outages")["outages"]
        now = time.time()
        return {
            name
            for one in found
            if one["kind"] == kind and datetime.fromisoformat(one["end_at"]).timestamp() > now
            for name in one["names"]
        }

    def scheduled(self, name: str) -> list[str]:
        """Return the pods of a Job that the scheduler has bound to a node, once for each time."""
        found = self.own.get("events", "--field-selector", "reason=Scheduled")["items"]
        pods = [one["involvedObject"]["name"] for one in found]
        return [pod for pod in pods if pod.startswith(f"{name}-")]

    def events(self, name: str) -> list[str]:
        found = self.own.get("events", "--field-selector", f"involvedObject.name={name}")
        return [one["reason"] for one in found["items"]]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesLab]:
    """Return a server on a Kubernetes."""
    with ExitStack() as stack:
        found = KubernetesLab(tmp_path_factory.mktemp("kubernetes"), stack)
        found.serve()
        yield found


def test_a_job_runs_in_its_slot_on_the_machines_of_its_slot_and_gives_back_the_rest(
    lab: KubernetesLab,
) -> None:
    lab.submit("gang", 3, seconds=3, deadline="2m", work="40s")
    id_ = lab.promised("gang")
    until(lambda: lab.is_complete("gang"))
    pods = lab.pods("gang")
    assert len(pods) == 3
    assert {pod["spec"]["nodeName"] for pod in pods} == set(_NODES)
    start = datetime.fromisoformat(lab.note("gang", "start"))
    assert all(datetime.fromisoformat(pod["status"]["startTime"]) >= start for pod in pods)
    until(lambda: lab.state(id_) == "completed")
    until(lambda: lab.note("gang", "promise") == "ended")
    until(lambda: {"Promised", "Released", "Ended"} <= set(lab.events("gang")))
    lab.submit("next", 3, seconds=1, deadline="40s", work="20s")  # 30 s would be taken otherwise
    lab.promised("next")
    until(lambda: lab.is_complete("next"))


def test_a_refused_job_waits_with_reason_and_offers_until_its_deadline_is_changed(
    lab: KubernetesLab,
) -> None:
    lab.submit("all", 3, seconds=25, deadline="60s", work="40s")
    lab.promised("all")
    lab.submit("much", 3, seconds=1, deadline="25s", work="15s")
    until(lambda: lab.note("much", "promise") == "refused")
    assert lab.note("much", "reason")
    assert "deadline" in lab.note("much", "offers")
    until(lambda: "Refused" in lab.events("much"))
    assert lab.job("much")["spec"]["suspend"] is True
    lab.own.kubectl("annotate", "--overwrite", "job", "much", "agenda/deadline=3m")
    until(lambda: lab.note("much", "promise") == "promised")
    assert not lab.note("much", "offers")
    until(lambda: lab.is_complete("much"))


def test_a_job_that_cannot_be_reserved_says_what_is_wrong(lab: KubernetesLab) -> None:
    lab.submit("odd", 1, seconds=1, deadline="before lunch", on_late="sing")
    until(lambda: lab.note("odd", "promise") == "invalid")
    reason = lab.note("odd", "reason")
    assert all(word in reason for word in ("agenda/deadline", "agenda/work", "agenda/on-late"))
    lab.own.kubectl("delete", "job", "odd")


def test_a_deleted_job_gives_its_machines_back(lab: KubernetesLab) -> None:
    lab.own.kubectl("create", "namespace", "team")
    lab.submit(
        "far",
        3,
        seconds=1,
        namespace="team",
        rdl="window(atom(<4 cpu>, 3, 3, 300, 900), +600, +1500)",
    )
    until(lambda: list(lab.call("/v1/reservations?tenant=team")["reservations"]))
    lab.own.kubectl("delete", "namespace", "team")
    until(
        lambda: (
            {one["state"] for one in lab.call("/v1/reservations?tenant=team")["reservations"]}
            == {"completed"}
        )
    )


def test_a_malleable_job_grows_when_the_plan_has_more_for_it(lab: KubernetesLab) -> None:
    lab.submit("wall", 2, seconds=12, deadline="60s", work="15s")
    lab.promised("wall")
    lab.submit(
        "sweep", 3, seconds=1, completions=150, deadline="80s", work="1s", min_parallelism="1"
    )
    id_ = lab.promised("sweep")
    rows = [
        row for atom in lab.call(f"/v1/reservations/{id_}")["atoms"] for row in atom["allocation"]
    ]
    assert {row[2] for row in rows} >= {1, 3}, rows
    sizes: set[int] = set()

    def follows() -> bool:
        sizes.add(lab.job("sweep")["spec"]["parallelism"])
        return {1, 3} <= sizes

    until(follows)
    assert lab.job("wall")["status"].get("failed", 0) == 0
    lab.own.kubectl("delete", "job", "sweep", "wall")
    until(lambda: lab.state(id_) == "completed")


def test_a_killed_server_starts_nothing_twice_and_loses_nothing(lab: KubernetesLab) -> None:
    """It is killed as soon as it has promised a Job, and again as soon as it has released one.

    A slot that passes before it is back is planned again.
    """
    later = "window(atom(<4 cpu>, 2, 2, 15, 30), +20, +270)"
    lab.submit("killed-0", 2, seconds=4, rdl=later)
    until(lambda: lab.call("/v1/reservations?state=accepted")["reservations"])
    lab.kill()
    lab.serve()
    lab.submit("killed-1", 1, seconds=4, deadline="4m", work="15s")
    until(lambda: not lab.job("killed-1")["spec"]["suspend"])
    lab.kill()
    lab.serve()
    for name, pods in (("killed-0", 2), ("killed-1", 1)):
        until(lambda name=name: lab.is_complete(name))
        assert lab.job(name)["status"]["succeeded"] == pods
        assert len(lab.scheduled(name)) == pods  # pods that got no machine never ran
        until(lambda name=name: lab.note(name, "promise") == "ended")
    reservations = lab.call("/v1/reservations?tenant=default&limit=1000")["reservations"]
    assert len([one for one in reservations if ":killed-" in one["id"]]) == 2


def test_a_watch_that_is_too_old_lists_again(lab: KubernetesLab) -> None:
    api = KubernetesApi(str(lab.own.kubeconfig))
    _, version = api.items(JOBS)
    watched = Watched(api, JOBS, read_job)
    watched.start()
    until(lambda: watched.snapshot() is not None)
    lab.own.kubectl("create", "namespace", "newer")  # so that the version is not the newest
    lab.own.stop("kube-apiserver")
    lab.own.compact()
    lab.own.start("kube-apiserver")
    with pytest.raises(KubernetesError) as refused:
        list(api.watch(JOBS, version, lambda _: None))
    assert refused.value.status == 410
    lab.submit("after", 1, seconds=1, namespace="newer", deadline="1m", work="5s")
    until(lambda: any(job.name == "after" for job in (watched.snapshot() or {}).values()))
    watched.close()
    lab.own.kubectl("delete", "namespace", "newer")


def test_a_quiet_server_asks_the_api_server_little(lab: KubernetesLab) -> None:
    user = "system:serviceaccount:agenda:agenda"
    until(lambda: not lab.call("/v1/reservations?state=active")["reservations"])
    time.sleep(5)
    before = len(lab.own.calls_of(user))
    time.sleep(30)
    assert len(lab.own.calls_of(user)) - before < 30  # 60 in a minute


def test_a_job_moves_when_its_node_is_cordoned(lab: KubernetesLab) -> None:
    lab.submit("moves", 1, seconds=12, deadline="4m", work="30s")
    lab.promised("moves")
    until(lambda: any(pod["status"]["phase"] == "Running" for pod in lab.pods("moves")))
    node = lab.pods("moves")[0]["spec"]["nodeName"]
    lab.own.kubectl("cordon", node)
    until(lambda: lab.is_complete("moves"))
    done = [pod for pod in lab.pods("moves") if pod["status"]["phase"] == "Succeeded"]
    assert [pod["spec"]["nodeName"] == node for pod in done] == [False]
    lab.own.kubectl("uncordon", node)
    until(lambda: not lab.outages("loss"))


def test_an_api_server_that_restarts_loses_no_promise(lab: KubernetesLab) -> None:
    lab.submit("patient", 1, seconds=3, deadline="3m", work="20s")
    id_ = lab.promised("patient")
    lab.own.stop("kube-apiserver")
    time.sleep(3)
    lab.own.start("kube-apiserver")
    until(lambda: lab.is_complete("patient"))
    until(lambda: lab.state(id_) == "completed")
    assert lab.job("patient")["status"]["succeeded"] == 1


def test_a_slot_that_passes_while_the_api_server_is_away_is_planned_again(
    lab: KubernetesLab,
) -> None:
    lab.submit("missed", 1, seconds=2, rdl="window(atom(<4 cpu>, 1, 1, 12, 12), +8, +240)")
    id_ = lab.promised("missed")
    end = datetime.fromisoformat(lab.note("missed", "end")).timestamp()
    lab.own.stop("kube-apiserver")
    until(lambda: time.time() > end + 5)
    lab.own.start("kube-apiserver")
    until(lambda: lab.is_complete("missed"))
    history = lab.call(f"/v1/reservations/{id_}")["history"]
    assert any("missed" in one["what"] for one in history), history
    assert lab.job("missed")["status"]["succeeded"] == 1


def test_nodes_that_are_cordoned_or_not_ready_are_outages_until_they_return(
    lab: KubernetesLab,
) -> None:
    machine = {name: lab.machine(name) for name in _NODES}
    lab.own.kubectl("cordon", "n1")
    lab.own.kubectl("annotate", "node", "n2", "down=yes")
    until(lambda: lab.outages("loss") == {machine["n1"], machine["n2"]})
    lab.submit("rest", 1, seconds=2, deadline="2m", work="10s")
    lab.promised("rest")
    until(lambda: lab.is_complete("rest"))
    assert {pod["spec"]["nodeName"] for pod in lab.pods("rest")} == {"n3"}
    lab.own.kubectl("uncordon", "n1")
    lab.own.kubectl("annotate", "node", "n2", "down-")
    until(lambda: not lab.outages("loss"))


def test_best_effort_makes_way_and_other_pods_take_what_they_request(lab: KubernetesLab) -> None:
    best_effort = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "scavenger", "namespace": "default"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "work", "resources": {"requests": {"cpu": "3"}}}],
        },
    }
    lab.own.apply(best_effort)
    lab.submit("strong", 3, seconds=2, deadline="2m", work="20s")
    lab.promised("strong")
    until(lambda: lab.is_complete("strong"))
    assert not lab.own.kubectl("get", "pod", "scavenger", "--ignore-not-found")
    assert not lab.call("/v1/cluster").get("taken")

    other = {**best_effort, "metadata": {"name": "other", "namespace": "default"}}
    other["spec"] = {**best_effort["spec"], "priorityClassName": "system-node-critical"}
    lab.own.apply(other)
    taken = [{"machine": lab.machine("n1"), "resources": {"cpu": 3}}]
    until(lambda: lab.call("/v1/cluster").get("taken") == taken)
    lab.submit("beside", 9, seconds=2, cpu="1", deadline="2m", work="10s")
    lab.promised("beside")
    until(lambda: lab.is_complete("beside"))
    nodes = [pod["spec"]["nodeName"] for pod in lab.pods("beside")]
    assert sorted(nodes) == ["n1"] + ["n2"] * 4 + ["n3"] * 4
    lab.own.kubectl("delete", "pod", "other")
    until(lambda: not lab.call("/v1/cluster").get("taken"))


def test_a_job_that_is_late_is_announced_and_fails_where_it_says_so(lab: KubernetesLab) -> None:
    lab.submit("slow", 1, seconds=60, deadline="2m", work="5s", on_late="fail")
    lab.submit("slower", 1, seconds=60, deadline="2m", work="5s")
    id_ = lab.promised("slower")
    until(lambda: any(
        one["type"] == "Failed" for one in lab.job("slow")["status"].get("conditions", ())
    ))  # fmt: skip
    until(lambda: lab.note("slower", "promise") == "late")
    until(lambda: "Late" in lab.events("slower"))
    history = lab.call(f"/v1/reservations/{id_}")["history"]
    assert "work_runs_on" in {one["what"] for one in history}
    lab.own.kubectl("delete", "job", "slower", "slow")


def test_an_application_runs_as_jobs_that_a_killed_server_starts_once(lab: KubernetesLab) -> None:
    ports = {"command": "work {dns_name#a0}", "ports": ["http"]}
    lab.run_application("app", {"name": "a", "count": 2, **ports}, {"name": "w", "core": False})
    until(lambda: lab.application("app") == "running")
    jobs = lab.components("job", "app")
    assert set(jobs) == {"a-0", "a-1", "w-0"}
    (service,) = {pod["spec"]["subdomain"] for pod in lab.components("pod", "app").values()}
    found = lab.own.get("service", service)
    assert found["spec"]["clusterIP"] == "None"
    lab.kill()
    lab.serve()
    until(lambda: lab.application("app") == "running")
    pods = until(lambda: lab.components("pod", "app"))
    for name in ("a-0", "a-1"):
        lab.end_pod(pods[name]["metadata"]["name"], 0)
    until(lambda: lab.application("app") == "completed")
    until(lambda: set(lab.components("pod", "app")) == {"a-0", "a-1"})  # for their logs
    names = {name: one["metadata"]["uid"] for name, one in jobs.items() if name != "w-0"}
    after = lab.components("job", "app")
    assert {name: one["metadata"]["uid"] for name, one in after.items()} == names


def test_the_logs_of_an_application_come_through_the_api_server(lab: KubernetesLab) -> None:
    """Each node of kwok shows one file for every container."""
    lab.run_application("logs", {"name": "a"})
    until(lambda: lab.application("logs") == "running")
    (log,) = lab.call("/v1/applications/logs/logs")["logs"]
    assert (log["component"], log["text"]) == ("a", LOGGED)
    (rest,) = lab.call("/v1/applications/logs/logs?after=2&limit=3")["logs"]
    assert (rest["text"], rest["end"]) == (LOGGED[2:5], 5)
    lab.call("/v1/applications/logs", "DELETE")
    until(lambda: not lab.components("job", "logs"))


def test_an_application_that_fails_or_loses_its_pod(lab: KubernetesLab) -> None:
    """A pod that ends with a code fails it; one that is evicted, or of a deleted Service, not."""
    lab.run_application("fails", {"name": "a"})
    until(lambda: lab.application("fails") == "running")
    lab.end_pod(lab.components("pod", "fails")["a-0"]["metadata"]["name"], 3)
    until(lambda: lab.application("fails") == "failed")
    assert "exit code 3" in lab.call("/v1/applications/fails")["reason"]

    lab.run_application("moves", {"name": "a"})
    until(lambda: lab.application("moves") == "running")
    first = lab.components("job", "moves")["a-0"]["metadata"]["uid"]
    pod = lab.components("pod", "moves")["a-0"]
    lab.own.kubectl("cordon", pod["spec"]["nodeName"])

    def runs_again(before: str) -> str:
        job = lab.components("job", "moves").get("a-0")
        uid = job["metadata"]["uid"] if job else before
        return uid if uid != before and lab.application("moves") == "running" else ""

    second = until(lambda: runs_again(first))
    lab.own.kubectl("uncordon", pod["spec"]["nodeName"])
    lab.own.kubectl("delete", "service", lab.components("pod", "moves")["a-0"]["spec"]["subdomain"])
    until(lambda: runs_again(second))
    lab.call("/v1/applications/moves", "DELETE")
    until(lambda: not lab.components("job", "moves"))
