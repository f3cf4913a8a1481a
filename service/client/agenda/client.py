"""Client: call a server's API from a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
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
from agenda.jobs import PIPELINES, Job, JobFields, read_job
from agenda.records import Event, Hold, Offer, OfferAnswer, RequestFields, Reservation
from agenda.retries import Repeatable, Retries

#: A request: RDL text, its JSON form or YARN's, or an offer to accept.
Rdl: TypeAlias = str | Mapping[str, Any] | Offer

#: What to wait for: that the reservation has begun, or that its state is final.
Until: TypeAlias = Literal["begun", "ended"]

T = TypeVar("T")

_RESERVATIONS: Final = "/v1/reservations"
_HOLDS: Final = "/v1/holds"

#: The most entries of a page of a list.
_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class ListFilter:
    """The filter of a list of reservations; None matches all.

    `start` and `end` are instants, durations from now (``+2h``) or seconds from the origin; they
    select the reservations with an allocation in that time.
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
    """A client of one server; each call is one HTTP request, retried where that is safe.

    Parameters
    ----------
    url
        URL of the server; AGENDA_SERVER or this machine's port 8080 when absent.
    token
        The API token; AGENDA_TOKEN, or the content of AGENDA_TOKEN_FILE, when absent.
    retries
        Number of retries while the server is unavailable (such as on a restart) or full.
    timeout_s
        Longest wait for an answer, seconds.

    Raises
    ------
    SettingError
        If the URL or the token is invalid.

    Notes
    -----
    Every method raises `ServerAwayError` if no server answers, and the subclass of `ProblemError`
    for an answer that is a problem. A client may be shared by threads.
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
        """The URL of the server."""
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
        """Request a reservation.

        Parameters
        ----------
        key
            Idempotency-Key: the same key with the same request makes one reservation, also from
            another process. When absent, each call generates one for its retries.
        dry_run
            Return the answer without a change.
        offers
            The most offers in a refusal, 0 to 10; 3 when absent.
        bound
            Let `raw` of the answer have a member `plan_bound` with the result of `plan_bound`.

        Raises
        ------
        RefusedError
            If the request is refused; the error has the offers.
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
        """Request many reservations in one call.

        Parameters
        ----------
        requests
            Each with `rdl` and any of `RequestFields`.
        atomic
            Accept all requests or none.

        Returns
        -------
        sequence
            For each request in order, the reservation or the problem.

        Raises
        ------
        RefusedError
            If a request of an atomic batch is refused.
        """
        query = {
            "dry_run": "true" if dry_run else None,
            "atomic": "true" if atomic else None,
            "offers": offers,
        }
        asked = [dict(one) for one in requests]
        return _read(_results, self._posted(f"{_RESERVATIONS}:batch", asked, query, key))

    def get(self, id_: str) -> Reservation:
        """Return the present state of a reservation or refusal."""
        return _read(Reservation.of, self.call("GET", entry_path(_RESERVATIONS, id_)))

    def list(
        self, filter_: ListFilter | None = None, *, limit: int | None = None
    ) -> Iterator[Reservation]:
        """Yield reservations in order of admission, then refusals, fetching page after page."""
        query = (filter_ or ListFilter()).query()
        for entry in self.entries(_RESERVATIONS, "reservations", query, limit):
            yield _read(Reservation.of, entry)

    def run(
        self,
        job: Mapping[str, Any] | str | PathLike[str],
        *,
        key: str | None = None,
        check: bool = False,
        **fields: Unpack[JobFields],
    ) -> Job:
        """Reserve for a job of several stages, and run each of them in its turn.

        Parameters
        ----------
        job
            The job, or the path of a job file: a request (`rdl`), and the work of each stage
            (`stages`).
        key
            As of `submit`.
        check
            Return the promise that would be made, in `raw`, without making it.
        fields
            Replace those of the job.

        Raises
        ------
        RefusedError
            If the request is refused; nothing is stored then.
        """
        query = {"dry_run": "true" if check else None}
        made = self._posted(PIPELINES, {**read_job(job), **fields}, query, key)
        pause = self._retries.pause
        return _read(lambda body: Job(self.call, body["id"], body, pause=pause), made)

    def job(self, id_: str) -> Job:
        """Return a job that has been submitted."""
        return Job(self.call, id_, pause=self._retries.pause)

    def update(
        self,
        id_: str,
        rdl: Rdl,
        *,
        revision: int | None = None,
        dry_run: bool = False,
        **fields: Unpack[RequestFields],
    ) -> Reservation:
        """Replace the request of a reservation; if that fails, nothing changes.

        Parameters
        ----------
        revision
            The revision to change; any when absent.

        Raises
        ------
        RefusedError
            If the new request is refused; the old one stays in force.
        StaleRevisionError
            If the reservation has changed since that revision.
        """
        headers = {"If-Match": "*" if revision is None else f'"{revision}"'}
        body = {name: one for name, one in _asked(rdl).items() if name not in ("id", "tenant")}
        query = {"dry_run": "true" if dry_run else None}
        path = entry_path(_RESERVATIONS, id_)
        return _read(Reservation.of, self.call("PUT", path, {**body, **fields}, query, headers))

    def cancel(self, id_: str, *, revision: int | None = None) -> Reservation:
        """Cancel a reservation: release its future allocation and keep its past."""
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        path = entry_path(_RESERVATIONS, id_)
        return _read(Reservation.of, self.call("DELETE", path, headers=headers))

    def close(self, id_: str) -> Reservation:
        """Complete a reservation and release its remaining allocation."""
        return _read(Reservation.of, self.call("POST", f"{entry_path(_RESERVATIONS, id_)}/close"))

    def explain(self, id_: str) -> Mapping[str, Any]:
        """Explain the times and machines of a reservation, or the reason of a refusal."""
        path = f"{entry_path(_RESERVATIONS, id_)}/explanation"
        explanation: Mapping[str, Any] = self.call("GET", path)
        return explanation

    def plan_bound(self) -> Mapping[str, Any]:
        """Return the value of the Plan and an upper bound for all plans of the same requests.

        The members are `value`, `bound`, `gap`, `better` and others of docs/api.md.
        """
        found: Mapping[str, Any] = self.call("GET", "/v1/plan/bound")
        return found

    def wait(
        self, id_: str, until: Until = "ended", *, timeout_s: float | None = None
    ) -> Reservation:
        """Wait until a reservation has begun, or until its state is final.

        With `until="begun"` the method also returns if the reservation ends first: check `state`.

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
        """Yield events as they happen, each exactly once.

        Parameters
        ----------
        tenant, reservation, kinds
            Only events of these. The stream also has events for its start (`start`) and for missed
            events that the server no longer has (`reset`).
        after
            Begin after this version or id of an event; now when absent.
        timeout_s
            Seconds after which the stream ends; None: never.
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
        """Return the stream that `watch` reads; any thread may close it."""
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
        """Return whether a request would be accepted, or offers that would be, without a change."""
        body: dict[str, Any] = {**_asked(rdl), **fields}
        if most is not None:
            body["most"] = most
        reply = self._sent("POST", "/v1/offers", body, None, None, Repeatable.HARMLESS)
        return _read(OfferAnswer.of, reply.body)

    def accept(self, offer: Offer, *, key: str | None = None) -> Reservation:
        """Accept an offer; its reservation replaces the refusal for which it was made."""
        return self.submit(offer, key=key)

    def hold(
        self, rdl: Rdl, *, time_s: float | None = None, **fields: Unpack[RequestFields]
    ) -> Hold:
        """Place a request and hold its capacity for up to 60 s."""
        body: dict[str, Any] = {**_asked(rdl), **fields}
        if time_s is not None:
            body["time"] = time_s
        return _read(Hold.of, self.call("POST", _HOLDS, body))

    def holds(self) -> Sequence[Hold]:
        """Return the holds of this client's tenants, in order of their ends."""
        return _read(lambda body: [Hold.of(one) for one in body["holds"]], self.call("GET", _HOLDS))

    def accept_hold(self, id_: str) -> Reservation:
        """Turn a hold into a normal reservation."""
        return _read(Reservation.of, self.call("POST", f"{entry_path(_HOLDS, id_)}/accept"))

    def release_hold(self, id_: str) -> Reservation:
        """Release the capacity of a hold."""
        return _read(Reservation.of, self.call("DELETE", entry_path(_HOLDS, id_)))

    def entries(
        self,
        path: str,
        key: str,
        query: Mapping[str, object] | None = None,
        limit: int | None = None,
    ) -> Iterator[Mapping[str, Any]]:
        """Yield at most `limit` entries of the list `key`, fetching page after page."""

        def page(asked: Mapping[str, object]) -> Mapping[str, Any]:
            body = self.call("GET", path, query=asked)
            return _read(lambda body: {key: body[key], "next": body["next"]}, body)

        return iter(Pages(page, key, query or {}, limit))

    def _posted(
        self, path: str, body: object, query: Mapping[str, object], key: str | None
    ) -> Mapping[str, Any]:
        """Post a change that is made exactly once, even if it is sent again."""
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
    """The entries of all pages of a list.

    Parameters
    ----------
    get
        Returns the body of a page for a query.
    key
        Name of the list in the body.
    query
        Filter of the list.
    limit
        The most entries; None: all.

    Attributes
    ----------
    is_cut
        After iteration: whether the limit left out entries.
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
            If an answer is not a page of such a list.
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
    """Return whether a reservation has begun, or whether its state is final."""
    if now.is_final or until == "ended":
        return now.is_final
    # The state `degraded` does not show whether the reservation has begun.
    started = now.begin is not None and now.begin <= datetime.now(UTC)
    return now.state == "active" or (now.state == "degraded" and started)


def _asked(rdl: Rdl) -> dict[str, Any]:
    if not isinstance(rdl, Offer):
        return {"rdl": rdl}
    if rdl.request is None:
        raise SettingError("the offer has no request; submit its expression")
    return dict(rdl.request)


def _moment(value: datetime | str | float | None) -> str | None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise SettingError(f"{value} has no time zone; add one, such as datetime.UTC")
        return value.isoformat(timespec="milliseconds")
    return None if value is None else str(value)


def _results(body: Mapping[str, Any]) -> Sequence[Reservation | ProblemError]:
    return [_result(one["status"], one["body"]) for one in body["results"]]


def _result(status: int, body: Mapping[str, Any]) -> Reservation | ProblemError:
    return Reservation.of(body) if status < 400 else problem_of(status, body)


def _read(read: Callable[[Any], T], body: object) -> T:
    """Convert the body of an answer.

    Raises
    ------
    ForeignAnswerError
        If it lacks members that answers of Agenda servers have.
    """
    try:
        return read(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ForeignAnswerError(
            "the answer is not from an Agenda server; check the URL, and that this library is as "
            "new as the server"
        ) from error
