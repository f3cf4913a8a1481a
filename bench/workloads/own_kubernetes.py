"""A real Kubernetes on loopback: etcd, the API server, its controllers, and kwok.

The programs are in the folder that KUBEBUILDER_ASSETS names; `.ci/kubernetes` builds them. Nodes
are objects that kwok keeps ready, and pods run for as long as their annotation `seconds` says.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Names the folder of the programs.
ASSETS = "KUBEBUILDER_ASSETS"

_TOKEN = "administrator"

#: Longest wait for a program or a node, s.
_READY_S = 300.0

#: What the log of every container says.
LOGGED = "one line\n"

#: What kwok does to pods and nodes.
_STAGES = Path(__file__).parent / "kwok.yaml"


class OwnKubernetes:
    """A Kubernetes of which each program may be stopped by itself.

    Parameters
    ----------
    programs
        Folder of the programs.
    folder
        Where it keeps its files and logs.

    Attributes
    ----------
    kubeconfig
        Credentials of an administrator.
    server
        URL of the API server.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._pids: dict[str, subprocess.Popen[bytes]] = {}
        etcd, peer, port, kubelet = _free_ports(4)
        self.server = f"https://127.0.0.1:{port}"
        self.kubeconfig = folder / "kubeconfig"
        key, tokens = folder / "sa.key", folder / "tokens.csv"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        policy, self._audit = folder / "audit.json", folder / "audit.log"
        mine = {"userGroups": ["system:serviceaccounts"], "omitStages": ["RequestReceived"]}
        rules = [{"level": "Metadata", **mine}, {"level": "None"}]
        policy.write_text(
            json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules})
        )
        stages, log = folder / "kwok.yaml", folder / "container.log"
        log.write_text(f"2026-01-05T00:00:00.000000000Z stdout F {LOGGED}")
        stages.write_text(_STAGES.read_text().replace("CONTAINER_LOG", str(log)))
        self._etcd = f"http://127.0.0.1:{etcd}"
        tokens.write_text(f"{_TOKEN},admin,1,system:masters\n")
        self.write_kubeconfig(self.kubeconfig, _TOKEN)
        access = f"--kubeconfig={self.kubeconfig}"
        self._commands: dict[str, list[str]] = {
            "etcd": [
                f"--data-dir={folder}/etcd", f"--listen-client-urls=http://127.0.0.1:{etcd}",
                f"--advertise-client-urls=http://127.0.0.1:{etcd}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}", "--unsafe-no-fsync",
            ],
            "kube-apiserver": [
                f"--etcd-servers=http://127.0.0.1:{etcd}", "--bind-address=127.0.0.1",
                f"--secure-port={port}", f"--cert-dir={folder}/certificates",
                f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
                "--service-account-issuer=https://agenda.test", f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
                f"--audit-policy-file={policy}", f"--audit-log-path={self._audit}",
            ],
            "kube-controller-manager": [
                access, f"--service-account-private-key-file={key}", "--leader-elect=false",
                "--kube-api-qps=200", "--kube-api-burst=400",
                "--use-service-account-credentials=false", "--secure-port=0",
                "--controllers=job-controller,namespace-controller,serviceaccount-controller,"
                "garbage-collector-controller,disruption-controller,node-lifecycle-controller",
            ],
            "kube-scheduler": [
                access, "--leader-elect=false", "--secure-port=0",
                "--kube-api-qps=200", "--kube-api-burst=400",
            ],
            "kwok": [
                access, "--manage-all-nodes=true", f"--config={stages}",
                "--node-lease-duration-seconds=40", "--node-ip=127.0.0.1", f"--node-port={kubelet}",
                f"--server-address=127.0.0.1:{kubelet}",
                f"--tls-cert-file={folder}/certificates/apiserver.crt",
                f"--tls-private-key-file={folder}/certificates/apiserver.key",
            ],
        }  # fmt: skip

    def write_kubeconfig(self, path: Path, token: str) -> None:
        """Write a kubeconfig with a token."""
        authority = f"{self._folder}/certificates/apiserver.crt"
        cluster = {"server": self.server, "certificate-authority": authority}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path.write_text(json.dumps(config))

    def start(self, *names: str) -> None:
        """Start programs, all by default, and wait until the API server is ready."""
        for name in names or tuple(self._commands):
            log = (self._folder / f"{name}.log").open("ab")
            command = [str(self._programs / name), *self._commands[name]]
            with log:
                self._pids[name] = subprocess.Popen(command, stdout=log, stderr=log)
            if name == "kube-apiserver":
                _wait_until(self._is_ready)

    def _is_ready(self) -> bool:
        for name, process in self._pids.items():
            text = (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]
            assert process.poll() is None, f"{name} has ended: {text}"
        return self.kubectl("get", "--raw", "/readyz", check=False) == "ok"

    def stop(self, *names: str) -> None:
        """Kill programs, all by default, and wait until they are gone."""
        for name in reversed(names or tuple(self._pids)):
            process = self._pids.pop(name)
            process.send_signal(signal.SIGKILL)
            process.wait()

    def kubectl(self, *words: str, input: str | None = None, check: bool = True) -> str:  # noqa: A002
        """Return what kubectl prints, with an administrator's rights."""
        done = subprocess.run(
            [self._programs / "kubectl", f"--kubeconfig={self.kubeconfig}", *words],
            input=input, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def get(self, *words: str) -> Any:
        """Return an object, or a list of objects, as JSON."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        """Create or change objects."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "-f", "-", input=text)

    def add_nodes(self, *names: str, cpu: str = "4", memory: str = "8Gi") -> None:
        """Create nodes, and wait until kwok keeps them ready."""
        size = {"cpu": cpu, "memory": memory, "pods": "110"}
        self.apply(
            *(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {
                        "name": name,
                        "labels": {"kubernetes.io/hostname": name, "disk": "ssd"},
                        "annotations": {"kwok.x-k8s.io/node": "fake"},
                    },
                    "status": {"allocatable": size, "capacity": size},
                }
                for name in names
            )
        )
        _wait_until(lambda: set(names) <= self.ready_nodes())

    def calls_of(self, user: str) -> list[str]:
        """Return verb and path of each call of a service account, by the API server's audit."""

        def stage_of(verb: str) -> str:
            return "ResponseStarted" if verb == "watch" else "ResponseComplete"

        entries = map(json.loads, self._audit.read_text().splitlines())
        return [
            f"{one['verb']} {one['requestURI']}"
            for one in entries
            if one["user"]["username"] == user and one["stage"] == stage_of(one["verb"])
        ]

    def compact(self) -> None:
        """Let etcd forget all versions but the newest, as it does by itself after minutes."""
        found = self._ask_etcd("range", {"key": "AA=="})
        self._ask_etcd("compaction", {"revision": found["header"]["revision"]})

    def _ask_etcd(self, call: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(f"{self._etcd}/v3/kv/{call}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def ready_nodes(self) -> set[str]:
        """Return the nodes that are ready."""
        return {
            one["metadata"]["name"]
            for one in self.get("nodes")["items"]
            for condition in one["status"].get("conditions", ())
            if condition["type"] == "Ready" and condition["status"] == "True"
        }


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _wait_until(is_so: Callable[[], bool]) -> None:
    until_s = time.monotonic() + _READY_S
    while not is_so():
        if time.monotonic() > until_s:
            raise TimeoutError(f"Kubernetes is not ready after {_READY_S:g} s")
        time.sleep(0.05)
