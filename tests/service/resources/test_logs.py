"""What runs wrote, as executors send it and as its owner reads it."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from dispatch.backends.run_records import LOG_BYTES, PIECE_BYTES
from service.cli.executor import SentLogs
from service.cli.executor_runs import RunDirectory
from service.cli.kit.server import Server, ServerReply
from tests.service.applying import an_application, submit_one
from tests.service.conftest import Open, Service


@pytest.fixture
def service(open_service: Open) -> Service:
    """Return a service with an executor of one machine, and an application that runs there."""
    found = open_service(tick_s=0, executors=True)
    for name, machine in (("e", "plain-0"), ("f", "plain-1")):
        found.client.put(f"/v1/executors/{name}", json={"instance": "i", "machines": [machine]})
    found.runtime.dispatcher.tick()
    submit_one(found, "a", an_application())
    found.runtime.dispatcher.tick()
    return found


def run_of(service: Service) -> tuple[str, str]:
    """Return the executor that has the run of the application, and the id of the run."""
    for name in ("e", "f"):
        report = {"instance": "i", "runs": []}
        answer = service.client.post(f"/v1/executors/{name}/sync", json=report).get_json()
        for order in answer["wanted"]:
            return name, order["id"]
    raise AssertionError("nothing is to run")


def send(service: Service, name: str, *pieces: tuple[str, str, int, bytes], **more: Any) -> Any:
    """Send what runs wrote; return the answer."""
    body = [
        {"run": run, "stream": stream, "start": start, "body": b64encode(text).decode()}
        for run, stream, start, text in pieces
    ]
    document = {"instance": "i", "pieces": body, **more}
    return service.client.post(f"/v1/executors/{name}/logs", json=document)


def read(service: Service, query: str = "") -> list[tuple[str, int, int, str]]:
    """Return stream, begin, size and text of each log of the application."""
    found = service.client.get(f"/v1/applications/a/logs{query}").get_json()["logs"]
    return [(one["stream"], one["start"], one["size"], one["text"]) for one in found]


def test_pieces_are_kept_once_and_read_in_order(service: Service) -> None:
    """One that is sent again changes nothing, and is answered where to go on."""
    name, run = run_of(service)
    first = send(service, name, (run, "stdout", 0, b"one "), (run, "stderr", 0, b"bad"))
    again = send(service, name, (run, "stdout", 0, b"one "), (run, "stdout", 4, b"two"))

    assert first.get_json()["ends"] == [4, 3]
    assert again.get_json()["ends"] == [7, 7]
    assert read(service) == [("stdout", 0, 7, "one two"), ("stderr", 0, 3, "bad")]
    assert read(service, "?stream=stdout&after=4") == [("stdout", 4, 7, "two")]
    assert read(service, "?stream=stdout&after=7") == [("stdout", 7, 7, "")]
    assert read(service, f"?run={run}x") == []


def test_the_newest_mebibyte_of_a_stream_is_kept(service: Service) -> None:
    """What was before is gone; a reader is told where what is kept begins."""
    name, run = run_of(service)
    for start in range(0, LOG_BYTES + 3 * PIECE_BYTES, PIECE_BYTES):
        send(service, name, (run, "stdout", start, b"x" * PIECE_BYTES))

    ((_, start, size, text),) = read(service, "?limit=10")
    assert (start, size, text) == (3 * PIECE_BYTES, LOG_BYTES + 3 * PIECE_BYTES, "x" * 10)


def test_a_character_is_not_cut_in_two(service: Service) -> None:
    """It comes whole with what follows; bytes that are none are shown as such."""
    name, run = run_of(service)
    send(service, name, (run, "stdout", 0, "aé€".encode()), (run, "stderr", 0, b"\xff"))

    assert read(service, "?stream=stdout&limit=2") == [("stdout", 0, 6, "a")]
    assert read(service, "?stream=stdout&after=1&limit=4") == [("stdout", 1, 6, "é")]
    assert read(service, "?stream=stdout&after=3") == [("stdout", 3, 6, "€")]
    assert read(service, "?stream=stderr") == [("stderr", 0, 1, "\ufffd")]


def test_an_executor_writes_of_its_own_runs_only(service: Service) -> None:
    """What it says of a run on the machine of another is not kept."""
    name, run = run_of(service)
    other = "f" if name == "e" else "e"
    answer = send(service, other, (run, "stdout", 0, b"forged"))

    assert (answer.status_code, answer.get_json()["ends"]) == (200, [0])
    assert read(service) == []
    assert send(service, "nobody", (run, "stdout", 0, b"x")).status_code == 404
    assert send(service, name, (run, "stdout", 0, b"x"), instance="old").status_code == 404


@pytest.mark.parametrize(
    "piece",
    [
        {"body": "!"},
        {"body": b64encode(b"x" * (PIECE_BYTES + 9)).decode()},
        {"stream": "log"},
        {"start": -1},
    ],
)
def test_a_piece_that_cannot_be_read_is_malformed(service: Service, piece: Any) -> None:
    """It is no base64, too long, of no stream, or begins nowhere."""
    whole = {"run": "r", "stream": "stdout", "start": 0, "body": "eA==", **piece}
    document = {"instance": "i", "pieces": [whole]}
    answer = service.client.post("/v1/executors/e/logs", json=document)

    assert (answer.status_code, answer.get_json()["code"]) == (400, "malformed")


def test_logs_go_with_their_runs(service: Service) -> None:
    """What ended long ago is forgotten with what it wrote."""
    name, run = run_of(service)
    send(service, name, (run, "stdout", 0, b"text"))
    report = {"instance": "i", "runs": [{"id": run, "state": "exited", "code": 0}]}
    service.client.post(f"/v1/executors/{name}/sync", json=report)
    service.runtime.dispatcher.tick()
    assert read(service) == [("stdout", 0, 4, "text")]
    service.runtime.dispatcher.runs.purge(2**60)

    assert read(service) == []
    assert service.runtime.dispatcher.runs.log(run, "stdout", 0, 9)[1] == b""


class ServiceAsServer(Server):
    """A server whose calls go to the service of a test."""

    service: Service
    refusals: list[int]

    def call(self, method: str, path: str, body: object = None, *_: object) -> ServerReply:
        """Return what the service answers, or the next refusal."""
        if self.refusals:
            return ServerReply(self.refusals.pop(), {})
        answer = self.service.client.open(path, method=method, json=body)
        return ServerReply(answer.status_code, answer.get_json())


def test_an_executor_that_begins_again_sends_what_is_missing(
    service: Service, tmp_path: Path
) -> None:
    """It is told how far the server is; refusals lose nothing; of a long log the end is kept."""
    name, run = run_of(service)
    server = ServiceAsServer()
    object.__setattr__(server, "service", service)
    object.__setattr__(server, "refusals", [401, 404, 429, 503])
    directory = RunDirectory(tmp_path / run)
    directory.path.mkdir()
    (directory.path / "stdout").write_bytes(b"first ")
    (directory.path / "stderr").write_bytes(b"e" * (LOG_BYTES + 10))
    for _ in range(2):
        sent = SentLogs(server, f"/v1/executors/{name}/logs", "i")
        while not sent.has_all(directory):
            sent.send({run: directory})
        with (directory.path / "stdout").open("ab") as file:
            file.write(b"second ")
    sent.send({run: directory})

    assert read(service, "?stream=stdout") == [("stdout", 0, 20, "first second second ")]
    ((_, start, size, _),) = read(service, "?stream=stderr")
    assert (start, size) == (10, LOG_BYTES + 10)


def test_where_nothing_writes_the_answer_says_so(open_service: Open) -> None:
    """Components in memory have no output."""
    service = open_service(tick_s=0)
    submit_one(service, "a", an_application())
    answer = service.client.get("/v1/applications/a/logs").get_json()

    assert answer == {"logs": [], "detail": "components run in memory only, and write nothing"}
