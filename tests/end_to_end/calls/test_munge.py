"""Users of a cluster call as themselves by credentials of a real munged, and submit jobs."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agenda.munge import signed_text
from service.access.user import Role, User
from service.cli.main import main
from service.clock import SystemClock
from service.store import Store
from tests.end_to_end.server_process import Client, serving
from tests.end_to_end.slurm_lab import SlurmLab
from tests.own_slurm import own_slurm
from tests.patience import eventually

pytestmark = pytest.mark.slurm

ATOM = "atom(<1 cpu>, 1, 1, 60, 60)"
WHO = "/v1/user"


@dataclass(frozen=True, slots=True)
class Site:
    """A server that takes credentials, on a Slurm."""

    lab: SlurmLab
    socket: Path
    store: Store

    @property
    def host(self) -> str:
        """The server, as the header Host names it."""
        return f"127.0.0.1:{self.lab.port}"

    def credential(self, user: str, text: str, *more: str) -> str:
        """Return a credential of a user, which root may make."""
        command = ["munge", "-S", str(self.socket), "-U", user, "-s", text, *more]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def ask(self, credential: str, path: str = WHO) -> tuple[int, dict[str, Any]]:
        """Return status and answer of a GET with a credential."""
        assert self.lab.port is not None
        shown = {"Authorization": f"Munge {credential}"}
        return Client(self.lab.port).call("GET", path, None, shown)

    def caller(self, user: str) -> dict[str, Any]:
        """Return whom the server takes a user for."""
        credential = self.credential(user, signed_text("GET", self.host, WHO))
        status, found = self.ask(credential)
        assert status == 200, found
        return found

    def run(self, *arguments: str) -> Result:
        """Run a command as this process's user, with munge."""
        munge = {"AGENDA_MUNGE": str(self.socket), "AGENDA_SERVER": f"http://{self.host}"}
        return CliRunner().invoke(main, list(arguments), env=munge)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a server with tokens and munge."""
    socket = own_slurm().folder / "munge" / "munge.socket"
    with ExitStack() as stack:
        lab = SlurmLab(tmp_path_factory.mktemp("munge"), stack)
        stack.callback(lab.close)
        database = lab.folder / "agenda.db"
        store = stack.enter_context(closing(Store(f"sqlite:///{database}")))
        store.tokens.create(User("ada", Role.ADMIN), None, SystemClock().now_ms())
        server = serving(
            database, lab.cluster, workers=2, slurm=str(lab.settings), agent="earliest",
            auth="token", munge=str(socket),
        )  # fmt: skip
        lab.port = stack.enter_context(server).port
        yield Site(lab, socket, store)


def test_a_user_without_a_token_acts_for_its_own_tenant(site: Site) -> None:
    found = site.caller("nobody")
    assert (found["name"], found["role"], found["tenants"]) == ("nobody", "user", ["nobody"])
    credential = site.credential("nobody", signed_text("GET", site.host, "/v1/tokens"))
    assert site.ask(credential, "/v1/tokens")[0] == 403


def test_a_user_has_the_rights_of_its_tokens(site: Site) -> None:
    now_ms = SystemClock().now_ms()
    token, _ = site.store.tokens.create(User("daemon", Role.OPERATOR), None, now_ms)
    assert site.caller("daemon")["role"] == "operator"
    site.store.tokens.revoke(token.id, now_ms)

    def is_locked_out() -> bool:
        credential = site.credential("daemon", signed_text("GET", site.host, WHO))
        return site.ask(credential)[0] == 401

    eventually(is_locked_out)


def test_a_credential_is_valid_once_and_for_one_call(site: Site) -> None:
    """Not again, nor for another path, method, server or after its time, nor if it is changed."""
    text = signed_text("GET", site.host, WHO)
    used = site.credential("nobody", text)
    assert site.ask(used)[0] == 200
    old = site.credential("nobody", text, "-t", "1")
    time.sleep(2.5)
    others = [
        signed_text("POST", site.host, WHO),
        signed_text("GET", site.host, "/v1/user?of=daemon"),
        signed_text("GET", "elsewhere:8080", WHO),
        "",
    ]
    refused = [used, old, used[:20] + "A" + used[21:], "MUNGE:::", "x"]
    for credential in [*refused, *(site.credential("nobody", one) for one in others)]:
        status, found = site.ask(credential)
        assert (status, found["code"]) == (401, "unauthenticated"), credential


def test_a_body_is_a_part_of_the_call(site: Site) -> None:
    """Another body, for which no credential was made, changes nothing."""
    path, body = "/v1/rdl/check", json.dumps({"rdl": ATOM})
    assert site.lab.port is not None
    for sent, status in ((body, 200), (body.replace("60", "90"), 401)):
        text = signed_text("POST", site.host, path, body.encode())
        shown = {"Authorization": f"Munge {site.credential('nobody', text)}"}
        answer = Client(site.lab.port).call("POST", path, json.loads(sent), shown)
        assert answer[0] == status, answer


def test_a_query_is_a_part_of_the_call(site: Site) -> None:
    target = "/v1/reservations?limit=1&from=%2B1h"
    assert (
        site.ask(site.credential("root", signed_text("GET", site.host, target)), target)[0] == 200
    )


def test_an_unknown_user_is_refused(site: Site) -> None:
    text = signed_text("GET", site.host, WHO)
    status, found = site.ask(site.credential("4100000", text))
    assert (status, found["code"]) == (401, "unauthenticated")
    assert "4100000" in found["detail"]


def test_commands_call_as_the_user_and_a_batch_job_is_promised(site: Site) -> None:
    """The tenant is the user's name, so the job is bound; changes are made once."""
    script = site.lab.folder / "job.sh"
    script.write_text("#!/bin/bash\nsleep 1\n")
    done = site.run("sbatch", "--deadline", "10m", "-t", "1", "-o", "/dev/null", str(script))
    assert done.exit_code == 0, done.output
    listed = site.run("reservations", "list", "-o", "json")
    (mine,) = json.loads(listed.stdout)
    assert mine["tenant"] == "root"

    def state() -> str:
        shown = site.run("reservations", "show", mine["id"], "-o", "json")
        return str(json.loads(shown.stdout)["state"])

    eventually(lambda: state() == "completed")


def test_a_host_without_munged_says_so(tmp_path: Path, site: Site) -> None:
    missing = tmp_path / "munge.socket"
    done = CliRunner().invoke(
        main, ["status", "--munge", str(missing), "--server", f"http://{site.host}"]
    )
    assert done.exit_code == 1
    assert "munge cannot create a credential" in done.output
