"""Calls to an API server that answers with faults."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import urllib3

from dispatch.backends.kubernetes.api import (
    KubernetesApi,
    KubernetesAwayError,
    KubernetesError,
    Watched,
)


class _Handler(BaseHTTPRequestHandler):
    """Answers with the status that the path names; after 200 the body breaks off."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"{" if self.path == "/200" else b"{}".ljust(100))

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def api() -> Iterator[KubernetesApi]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    api = object.__new__(KubernetesApi)
    pool = SimpleNamespace(pool_manager=urllib3.PoolManager(retries=False))
    api._client = cast("Any", SimpleNamespace(
        rest_client=pool, update_params_for_auth=lambda *_: None
    ))  # fmt: skip
    api._host = f"http://127.0.0.1:{server.server_port}"
    yield api
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("status", [429, 502, 503, 504, 200])
def test_an_api_server_without_time_or_that_breaks_off_is_away(
    api: KubernetesApi, status: int
) -> None:
    with pytest.raises(KubernetesAwayError):
        api.call("GET", f"/{status}")


@pytest.mark.parametrize("status", [403, 404, 409, 422, 500])
def test_what_it_says_of_one_object_is_not(api: KubernetesApi, status: int) -> None:
    with pytest.raises(KubernetesError) as refused:
        api.call("GET", f"/{status}")
    assert not isinstance(refused.value, KubernetesAwayError)
    assert refused.value.status == status


def test_objects_may_be_out_of_date_until_their_watch_is_open() -> None:
    """Their list is not enough."""
    opens, looked = threading.Event(), threading.Event()

    class Api:
        def items(self, path: str) -> tuple[list[Any], str]:
            return [], "7"

        def watch(self, path: str, version: str, opened: Any) -> Iterator[Any]:
            looked.set()
            assert opens.wait(60)
            opened(lambda: None)
            looked.set()
            yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}
            closes.wait(60)

    closes = threading.Event()
    watched = Watched(cast("Any", Api()), "/jobs", lambda one: one)
    watched.start()
    assert looked.wait(60)
    assert watched.failure
    looked.clear()
    opens.set()
    assert looked.wait(60)
    assert not watched.failure
    watched.close()
    closes.set()


def test_a_kubeconfig_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    path = tmp_path / "config"
    path.write_text("a: [b")
    with pytest.raises(KubernetesError, match="config"):
        KubernetesApi(str(path))
