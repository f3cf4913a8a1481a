"""KubernetesApi: calls to an API server, and copies of its objects that watches keep current.

The official client reads the credentials (kubeconfig, service account, plugins) and keeps the
connections. Objects stay plain JSON: its models and its watch are not used, because they parse each
pod of the cluster into objects and hide the errors of a watch.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar
from urllib.parse import urlencode

logger = logging.getLogger("agenda.kubernetes")

#: An object of the API server as JSON.
Json: TypeAlias = dict[str, Any]

#: Source of the credentials in a pod: its service account.
IN_CLUSTER: Final = "in-cluster"

#: Timeouts of a connection and of an answer, s.
_CONNECT_S, _ANSWER_S = 5.0, 15.0

#: How long the API server keeps a watch open, s; then a new one continues at the same version.
_WATCH_S: Final = 50

#: Objects of one page of a list.
_PAGE: Final = 500

#: Pauses after failed calls of a watch, s: the first, and the longest. While a watch pauses after
#: the API server is back, new pods of a slot that has begun are not seen.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0

#: Statuses of an API server that has no time, or of a proxy that does not reach it. Others, such as
#: 500 of an admission webhook, are about one object.
_AWAY: Final = frozenset({429, 502, 503, 504})

_MERGE: Final = "application/merge-patch+json"


class KubernetesError(Exception):
    """An API server that refuses a call.

    Attributes
    ----------
    status
        HTTP status: 403 forbidden, 404 gone, 409 changed meanwhile, 410 too old, 422 invalid.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class KubernetesAwayError(KubernetesError):
    """An API server that does not answer, or has no time (`_AWAY`): the call may be repeated."""


class KubernetesApi:
    """An API server, with the credentials of a kubeconfig or of the pod's service account.

    Parameters
    ----------
    source
        Path of a kubeconfig, of which the current context counts, or `IN_CLUSTER`.

    Raises
    ------
    KubernetesError
        If there are no such credentials, or the official client is not installed.
    """

    def __init__(self, source: str) -> None:
        try:
            from kubernetes import client, config
        except ImportError as error:
            needed = "pip install 'cluster-agenda[kubernetes]'"
            raise KubernetesError(0, f"Kubernetes needs its client: {needed}") from error
        settings = client.Configuration()
        settings.connection_pool_maxsize = 16
        settings.retries = False
        try:
            if source == IN_CLUSTER:
                config.load_incluster_config(client_configuration=settings)
            else:
                config.load_kube_config(source, client_configuration=settings)
        except Exception as error:  # whatever the parsers and plugins of the client raise
            raise KubernetesError(0, f"{source}: {error}") from error
        self._client = client.ApiClient(settings)
        self._host: str = settings.host

    def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        query: Mapping[str, str | int] = MappingProxyType({}),
    ) -> Json:
        """Return the answer to a call; the body of a PATCH is a merge patch.

        Raises
        ------
        KubernetesAwayError
            If the API server does not answer.
        KubernetesError
            If it refuses.
        """
        response = self._open(method, path, body, query, _ANSWER_S)
        try:
            answer: Json = json.loads(response.data)
        except _transport_errors() as error:
            raise KubernetesAwayError(0, f"the API server broke off: {error}") from error
        return answer

    def text(self, path: str, query: Mapping[str, str | int]) -> bytes:
        """Return an answer that is not JSON, such as the log of a pod.

        Raises
        ------
        KubernetesError
            As `call`.
        """
        response = self._open("GET", path, None, query, _ANSWER_S)
        try:
            return bytes(response.data)
        except _transport_errors() as error:
            raise KubernetesAwayError(0, f"the API server broke off: {error}") from error

    def items(self, path: str, label: str = "") -> tuple[list[Json], str]:
        """Return all objects of a kind, or those with a label, and the version of the list.

        Raises
        ------
        KubernetesError
            As `call`; 410 if the list changed too much between two pages.
        """
        found: list[Json] = []
        query: dict[str, str | int] = {"limit": _PAGE} | ({"labelSelector": label} if label else {})
        while True:
            answer = self.call("GET", path, None, query)
            found += answer["items"]
            token = answer["metadata"].get("continue")
            if not token:
                return found, answer["metadata"]["resourceVersion"]
            query["continue"] = token

    def watch(
        self, path: str, version: str, opened: Callable[[Callable[[], None]], None]
    ) -> Iterator[Json]:
        """Yield the events after a version of a list, until the API server closes the watch.

        Parameters
        ----------
        opened
            Receives a function with which another thread ends the watch.

        Raises
        ------
        KubernetesError
            As `call`; 410 if the version is too old.
        """
        query: dict[str, str | int] = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": _WATCH_S,
        }
        response = self._open("GET", path, None, query, _WATCH_S + _ANSWER_S)
        opened(response.shutdown)
        rest = b""
        try:
            for chunk in response.stream(1 << 16):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event: Json = json.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise KubernetesError(status.get("code", 500), status.get("message", ""))
                    yield event
        except _transport_errors() as error:
            raise KubernetesAwayError(0, f"a watch of {path} broke off: {error}") from error
        finally:
            response.close()

    def _open(
        self,
        method: str,
        path: str,
        body: Json | None,
        query: Mapping[str, str | int],
        answer_s: float,
    ) -> Any:
        """Return the open response to a call that the API server accepted."""
        import urllib3

        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = _MERGE if method == "PATCH" else "application/json"
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = f"{self._host}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            response = self._client.rest_client.pool_manager.request(
                method,
                url,
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=answer_s),
                preload_content=False,
            )
            if response.status < 300:
                return response
            text = response.data.decode(errors="replace")
        except _transport_errors() as error:
            raise KubernetesAwayError(0, f"the API server does not answer: {error}") from error
        raise (KubernetesAwayError if response.status in _AWAY else KubernetesError)(
            response.status, _message_of(text) or f"{method} {path}: {response.status}"
        )


def _transport_errors() -> tuple[type[Exception], ...]:
    import urllib3

    return (urllib3.exceptions.HTTPError, OSError, ValueError)


def _message_of(text: str) -> str:
    """Return the message of a Status object; empty for another answer."""
    try:
        message = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(message)


Item = TypeVar("Item")


class Watched(Generic[Item]):
    """The objects of a kind, which a thread lists, and keeps current by a watch.

    Parameters
    ----------
    path
        Path of the list, over all namespaces.
    read
        Returns what is kept of an object; None for an object that does not matter.
    heard
        Called after a change that is urgent.
    is_urgent
        Whether an object needs an answer soon.
    """

    def __init__(
        self,
        api: KubernetesApi,
        path: str,
        read: Callable[[Json], Item | None],
        heard: Callable[[], None] = lambda: None,
        is_urgent: Callable[[Item], bool] = lambda _: False,
    ) -> None:
        self._api, self._path, self._read = api, path, read
        self._heard, self._is_urgent = heard, is_urgent
        self._lock = threading.Lock()
        #: What is kept of each object, with its version, by uid.
        self._items: dict[str, tuple[int, Item | None]] = {}
        self._is_current = False
        self._failure = "it has not been read yet"
        self._closing = threading.Event()
        self._end_watch: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name=f"agenda-watch{path}", daemon=True)

    def start(self) -> None:
        """List the objects, and watch them from then on."""
        self._thread.start()

    def close(self) -> None:
        """End the watch and its thread."""
        self._closing.set()
        with contextlib.suppress(ValueError, OSError):  # it has ended already
            self._end_watch()

    @property
    def failure(self) -> str:
        """Why the objects are unknown or may be out of date; empty if a watch keeps them."""
        return self._failure

    def snapshot(self) -> dict[str, Item] | None:
        """Return the objects by uid; None before the first list."""
        if not self._is_current:
            return None
        with self._lock:
            return {uid: item for uid, (_, item) in self._items.items() if item is not None}

    def accept(self, object_: Json) -> None:
        """Take the answer to a change of an object over, before the watch reports it."""
        if object_["metadata"]["uid"] in self._items:  # else it was deleted since
            self._store(object_)

    def _run(self) -> None:
        pause_s, version = _FIRST_PAUSE_S, ""
        while not self._closing.is_set():
            try:
                version = version or self._list()
                for event in self._api.watch(self._path, version, self._watching):
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._take(event)
                    pause_s = _FIRST_PAUSE_S
            except KubernetesError as error:
                if error.status == 410:  # too old: everything is listed again
                    version = ""
                else:
                    self._failure = str(error)
                self._closing.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except Exception as error:
                logger.exception("a watch of %s failed; it lists again", self._path)
                self._failure, version = str(error), ""
                self._closing.wait(_LONGEST_PAUSE_S)

    def _watching(self, end_watch: Callable[[], None]) -> None:
        self._end_watch, self._failure = end_watch, ""
        if self._closing.is_set():
            end_watch()

    def _list(self) -> str:
        """Replace all objects by those of a new list; return its version."""
        objects, version = self._api.items(self._path)
        items = {one["metadata"]["uid"]: (_version_of(one), self._kept(one)) for one in objects}
        with self._lock:
            self._items, self._is_current = items, True
        self._heard()
        return version

    def _take(self, event: Json) -> None:
        object_ = event["object"]
        match event["type"]:
            case "DELETED":
                with self._lock:
                    item = self._items.pop(object_["metadata"]["uid"], None)
                if item is not None and item[1] is not None:
                    self._heard()
            case "ADDED" | "MODIFIED":
                item_ = self._store(object_)
                if item_ is not None and self._is_urgent(item_):
                    self._heard()

    def _store(self, object_: Json) -> Item | None:
        """Store an object unless a newer version of it is known; return what is kept of it."""
        uid, version = object_["metadata"]["uid"], _version_of(object_)
        item = self._kept(object_)
        with self._lock:
            known = self._items.get(uid)
            if known is None or known[0] <= version:
                self._items[uid] = (version, item)
        return item

    def _kept(self, object_: Json) -> Item | None:
        """Return what is kept of an object; one that cannot be read does not stop the others."""
        try:
            return self._read(object_)
        except Exception:
            meta = object_["metadata"]
            whose = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
            logger.exception("%s: %s cannot be read and is ignored", self._path, whose)
            return None


def _version_of(object_: Json) -> int:
    """Return the version of an object: versions of one kind are numbers that grow."""
    return int(object_["metadata"]["resourceVersion"])
