"""Client: a server's reservations from a program, call by call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, TypeVar, Unpack
from uuid import uuid4

from agenda.connection import DEFAULT_TIMEOUT_S, Reply, connection_of, entry_path
from agenda.errors import (
    ForeignAnswerError,
    ProblemError,
    SettingError,
    WaitTimeoutError,
    problem_of,
)
from agenda.event_stream import EventStream
from agenda.records import Event, Hold, Offer, OfferAnswer, RequestFields, Reservation
from agenda.retries import Repeatable, Retries

#: A request in RDL: text, its JSON form, or YARN's; or an offer that is taken up.
Rdl: TypeAlias = str | Mapping[str, Any] | Offer

#: What is waited for: that it runs, or that nothing more will become of it.
Until: TypeAlias = Literal["begun", "ended"]

T = TypeVar("T")

_RESERVATIONS: Final = "/v1/reservations"
_HOLDS: Final = "/v1/holds"

#: Entries that a page of a list holds at most.
_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class ListFilter:
    """What a list of reservations is narrowed to; None does not narrow.

    `start` and `end` are instants, durations from now (``+2h``) or seconds from the origin: those
    that hold something in that time.
    """

    tenant: str | None = None
    queue: str | None = None
    state: str | None = None
    start: datetime | str | float | None = None
    end: datetime | str | float | None = None

    def query(self) -> dict[str, object]:
        """Return the parameters of ``GET /v1/reservations``."""
        return {
            "tenant": self.tenant,
            "queue": self.queue,
            "state": self.state,
            "from": _moment(self.start),
            "to": _moment(self.end),
        }


class Client:
    """A server, by its URL; each call is one HTTP request, sent again where that is safe.

    Parameters
    ----------
    url
        The server's; AGENDA_SERVER or this machine's port 8080 when absent.
    token
        The one it asks for; AGENDA_TOKEN, or what AGENDA_TOKEN_FILE holds, when absent.
    retries
        How often a call is sent again while the server is unavailable (a restart, say) or full.
    timeout_s
        Longest wait for an answer, seconds.

    Raises
    ------
    SettingError
        For a URL or a token that cannot be used.

    Notes
    -----
    Every method raises `ServerAwayError` where nothing answers, and a `ProblemError` of the kind
    that the answer has. A client may be shared by threads.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: Retries | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._connection = connection_of(url, token, timeout_s)
        self._retries = retries or Retries()

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._connection.url

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send any call of docs/api.md and return the body of its answer."""
        return self._reply(method, path, body, query, headers).body

    def submit(
        self,
        rdl: Rdl,
        *,
        key: str | None = None,
        dry_run: bool = False,
        offers: int | None = None,
        bound: bool = False,
        **fields: Unpack[RequestFields],
    ) -> Reservation:
        """Ask for a reservation.

        Parameters
        ----------
        key
            Idempotency-Key: the same key with the same request is one reservation, in this process
            or the next. Each call makes its own when absent, which holds for its retries.
        dry_run
            Say what the answer would be, and change nothing.
        offers
            How many offers a refusal is to hold, 0 to 10; 3 when absent.
        bound
            Let the answer hold `plan_bound` in its `raw`: what `plan_bound` returns.

        Raises
        ------
        RefusedError
            If there is no place; it holds the offers.
        """
        query = {
            "dry_run": "true" if dry_run else None,
            "offers": offers,
            "bound": "true" if bound else None,
        }
        body = {**_asked(rdl), **fields}
        return _read(Reservation.of, self._posted(_RESERVATIONS, body, query, key))

    def submit_batch(
        self,
        requests: Iterable[Mapping[str, Any]],
        *,
        atomic: bool = False,
        key: str | None = None,
        dry_run: bool = False,
        offers: int | None = None,
    ) -> Sequence[Reservation | ProblemError]:
        """Ask for many reservations in one call.

        Parameters
        ----------
        requests
            Each with `rdl` and whatever `RequestFields` has.
        atomic
            Admit all or none.

        Returns
        -------
        sequence
            In order, each reservation, or the problem that stands in its place.

        Raises
        ------
        RefusedError
            Of an atomic batch, if one of it has no place.
        """
        query = {
            "dry_run": "true" if dry_run else None,
            "atomic": "true" if atomic else None,
            "offers": offers,
        }
        asked = [dict(one) for one in requests]
        return _read(_results, self._posted(f"{_RESERVATIONS}:batch", asked, query, key))

    def get(self, id_: str) -> Reservation:
        """Return one reservation, or refusal, as it is now."""
        return _read(Reservation.of, self.call("GET", entry_path(_RESERVATIONS, id_)))

    def list(
        self, filter_: ListFilter | None = None, *, limit: int | None = None
    ) -> Iterator[Reservation]:
        """Yield reservations by admission, then refusals, page after page."""
        query = (filter_ or ListFilter()).query()
        for entry in self.entries(_RESERVATIONS, "reservations", query, limit):
            yield _read(Reservation.of, entry)

    def update(
        self,
        id_: str,
        rdl: Rdl,
        *,
        revision: int | None = None,
        dry_run: bool = False,
        **fields: Unpack[RequestFields],
    ) -> Reservation:
        """Swap the request of a reservation, or leave all as it was.

        Parameters
        ----------
        revision
            The one that the change is meant for; any when absent.

        Raises
        ------
        RefusedError
            If the new request has no place; the old one stands.
        StaleRevisionError
            If it has changed since that revision.
        """
        headers = {"If-Match": "*" if revision is None else f'"{revision}"'}
        body = {name: one for name, one in _asked(rdl).items() if name not in ("id", "tenant")}
        query = {"dry_run": "true" if dry_run else None}
        path = entry_path(_RESERVATIONS, id_)
        return _read(Reservation.of, self.call("PUT", path, {**body, **fields}, query, headers))

    def cancel(self, id_: str, *, revision: int | None = None) -> Reservation:
        """Give a reservation up: its future is released, its past kept."""
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        path = entry_path(_RESERVATIONS, id_)
        return _read(Reservation.of, self.call("DELETE", path, headers=headers))

    def close(self, id_: str) -> Reservation:
        """End a reservation as completed, and release the rest."""
        return _read(Reservation.of, self.call("POST", f"{entry_path(_RESERVATIONS, id_)}/close"))

    def explain(self, id_: str) -> Mapping[str, Any]:
        """Return why it stands where it does, or who holds what it needed."""
        path = f"{entry_path(_RESERVATIONS, id_)}/explanation"
        explanation: Mapping[str, Any] = self.call("GET", path)
        return explanation

    def plan_bound(self) -> Mapping[str, Any]:
        """Return what the Plan holds, and the most that any plan of the same requests could.

        Its members are `value`, `bound`, `gap`, `better` and others of docs/api.md.
        """
        found: Mapping[str, Any] = self.call("GET", "/v1/plan/bound")
        return found

    def wait(
        self, id_: str, until: Until = "ended", *, timeout_s: float | None = None
    ) -> Reservation:
        """Wait until a reservation has begun, or until nothing more will become of it.

        Who waits for its begin is notified of its end too: look at `state`.

        Raises
        ------
        WaitTimeoutError
            If it takes longer than `timeout_s`.
        """
        for _ in self.watch(reservation=id_, timeout_s=timeout_s):
            now = self.get(id_)
            if has_reached(now, until):
                return now
        raise WaitTimeoutError(f"{id_} has not {until} within {timeout_s:g} s")

    def watch(
        self,
        *,
        tenant: str | None = None,
        reservation: str | None = None,
        kinds: Iterable[str] = (),
        after: str | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Event]:
        """Yield what happens, as it happens, each once and none missed.

        Parameters
        ----------
        tenant, reservation, kinds
            Only of these; the stream also tells when it begins (`start`) and when too much was
            missed (`reset`).
        after
            Begin behind this version or id of an event; now when absent.
        timeout_s
            Seconds after which it ends; None: never.
        """
        return iter(self.event_stream(tenant, reservation, kinds, after, timeout_s))

    def event_stream(
        self,
        tenant: str | None,
        reservation: str | None,
        kinds: Iterable[str],
        after: str | None,
        timeout_s: float | None,
    ) -> EventStream:
        """Return what `watch` reads; another thread may close it."""
        asked = {
            "tenant": tenant,
            "reservation": reservation,
            "kinds": ",".join(kinds),
            "after": after,
        }
        query = {name: value for name, value in asked.items() if value}
        return EventStream(self._connection, query, timeout_s)

    def offers(
        self, rdl: Rdl, *, most: int | None = None, **fields: Unpack[RequestFields]
    ) -> OfferAnswer:
        """Return whether a request would be accepted, and what would be instead; change nothing."""
        body: dict[str, Any] = {**_asked(rdl), **fields}
        if most is not None:
            body["most"] = most
        reply = self._sent("POST", "/v1/offers", body, None, None, Repeatable.HARMLESS)
        return _read(OfferAnswer.of, reply.body)

    def accept(self, offer: Offer, *, key: str | None = None) -> Reservation:
        """Submit what an offer holds; it takes the place of the refusal that it was made for."""
        return self.submit(offer, key=key)

    def hold(
        self, rdl: Rdl, *, time_s: float | None = None, **fields: Unpack[RequestFields]
    ) -> Hold:
        """Place a request and keep its capacity for up to 60 s."""
        body: dict[str, Any] = {**_asked(rdl), **fields}
        if time_s is not None:
            body["time"] = time_s
        return _read(Hold.of, self.call("POST", _HOLDS, body))

    def holds(self) -> Sequence[Hold]:
        """Return what is held for this client's tenants, the first to end first."""
        return _read(lambda body: [Hold.of(one) for one in body["holds"]], self.call("GET", _HOLDS))

    def accept_hold(self, id_: str) -> Reservation:
        """Keep what is held: it is a reservation like others from now on."""
        return _read(Reservation.of, self.call("POST", f"{entry_path(_HOLDS, id_)}/accept"))

    def release_hold(self, id_: str) -> Reservation:
        """Release what is held."""
        return _read(Reservation.of, self.call("DELETE", entry_path(_HOLDS, id_)))

    def entries(
        self,
        path: str,
        key: str,
        query: Mapping[str, object] | None = None,
        limit: int | None = None,
    ) -> Iterator[Mapping[str, Any]]:
        """Yield what a server lists under `key`, page after page, at most `limit` entries."""

        def page(asked: Mapping[str, object]) -> Mapping[str, Any]:
            body = self.call("GET", path, query=asked)
            return _read(lambda body: {key: body[key], "next": body["next"]}, body)

        return iter(Pages(page, key, query or {}, limit))

    def _posted(
        self, path: str, body: object, query: Mapping[str, object], key: str | None
    ) -> Mapping[str, Any]:
        """Post a change that is made once, however often it has to be sent."""
        headers = {"Idempotency-Key": key or uuid4().hex}
        answer: Mapping[str, Any] = self._sent(
            "POST", path, body, query, headers, Repeatable.HARMLESS
        ).body
        return answer

    def _reply(
        self,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, object] | None,
        headers: Mapping[str, str] | None,
    ) -> Reply:
        repeatable = Repeatable.HARMLESS if method == "GET" else Repeatable.UNKNOWN
        return self._sent(method, path, body, query, headers, repeatable)

    def _sent(
        self,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, object] | None,
        headers: Mapping[str, str] | None,
        repeatable: Repeatable,
    ) -> Reply:
        def send() -> Reply:
            return self._connection.call(method, path, body, query, headers)

        reply = self._retries.answer(send, repeatable)
        if not reply.ok:
            raise problem_of(reply.status, reply.body)
        return reply


class Pages:
    """What a server lists, as one run of entries.

    Parameters
    ----------
    get
        Returns the body of a page, given its query.
    key
        Name of the list in the body.
    query
        What narrows the list.
    limit
        Most entries; None is all.

    Attributes
    ----------
    is_cut
        Once all are read: whether the limit left some out.
    """

    def __init__(
        self,
        get: Callable[[Mapping[str, object]], Mapping[str, Any]],
        key: str,
        query: Mapping[str, object],
        limit: int | None = None,
    ) -> None:
        self._get, self._key, self._query, self._limit = get, key, query, limit
        self.is_cut = False

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield the entries.

        Raises
        ------
        KeyError, TypeError
            If an answer is no page of such a list.
        """
        cursor: str | None = None
        left = self._limit
        while left is None or left > 0:
            page = _PAGE if left is None else min(_PAGE, left)
            body = self._get({**self._query, "cursor": cursor, "limit": page})
            entries, cursor = body[self._key], body["next"]
            yield from entries
            left = None if left is None else left - len(entries)
            if cursor is None:
                return
        self.is_cut = cursor is not None


def has_reached(now: Reservation, until: Until) -> bool:
    """Return whether what is waited for has happened."""
    if now.is_final or until == "ended":
        return now.is_final
    # What lacks machines says so instead of whether it runs.
    started = now.begin is not None and now.begin <= datetime.now(UTC)
    return now.state == "active" or (now.state == "degraded" and started)


def _asked(rdl: Rdl) -> dict[str, Any]:
    if not isinstance(rdl, Offer):
        return {"rdl": rdl}
    if rdl.request is None:
        raise SettingError("the offer holds no request; submit its expression")
    return dict(rdl.request)


def _moment(value: datetime | str | float | None) -> str | None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise SettingError(f"{value} has no zone; give it one, such as datetime.UTC")
        return value.isoformat(timespec="milliseconds")
    return None if value is None else str(value)


def _results(body: Mapping[str, Any]) -> Sequence[Reservation | ProblemError]:
    return [_result(one["status"], one["body"]) for one in body["results"]]


def _result(status: int, body: Mapping[str, Any]) -> Reservation | ProblemError:
    return Reservation.of(body) if status < 400 else problem_of(status, body)


def _read(read: Callable[[Any], T], body: object) -> T:
    """Return what an answer says.

    Raises
    ------
    ForeignAnswerError
        If it lacks what Agenda servers say.
    """
    try:
        return read(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ForeignAnswerError(
            "the answer is not that of an Agenda server; is the URL right, and is this library as "
            "new as the server?"
        ) from error
