"""Webhooks, which post events to a URL: create, list, test and delete them."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from planner.placement import Code
from rdl.durations import rfc3339_text
from service.access.user import User, present_actor
from service.clock import instant_of
from service.http.kinds import Id, MemberKind, Word, choice, number
from service.http.kit import Calls, Count, Input, Instant, OpenAnswer, doc, one_of
from service.http.route import links_from
from service.ownership import tenant_of
from service.problems import ApiError, FieldError, malformed_problem, problem
from service.runtime import Runtime
from service.store import AuditRow
from service.store.webhooks import DeliveryRow, TooManyWebhooksError, WebhookRow
from service.webhooks.addresses import AddressError, read_networks, read_url, require_allowed
from service.webhooks.collection import USUAL_KINDS, WEBHOOK_KINDS, trial_delivery
from service.webhooks.messages import EVENT, FORMATS
from service.webhooks.webhook_thread import new_secret

#: The most webhooks of one database.
MOST: Final = 200


def _read_kinds(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(one in WEBHOOK_KINDS for one in value):
        raise FieldError(f"write an array of some of {', '.join(WEBHOOK_KINDS)}")
    return tuple(dict.fromkeys(value))


def _read_url(value: object) -> str:
    if not isinstance(value, str):
        raise FieldError("write a string")
    return value


_URL: Final = {
    "type": "string",
    "maxLength": 2000,
    "pattern": r"^https?://[a-z0-9.-]+(:[0-9]{1,5})?/",
}
_KINDS: Final = {
    "type": "array",
    "items": {"type": "string", "enum": list(WEBHOOK_KINDS)},
    "minItems": 1,
    "default": list(USUAL_KINDS),
}


class NewWebhook(Input):
    url: Annotated[
        str, MemberKind(_URL, _read_url), doc("URL to which events are posted: http or https.")
    ]
    kinds: Annotated[
        tuple[str, ...], MemberKind(_KINDS, _read_kinds), doc("Kinds of events to report.")
    ] = USUAL_KINDS
    tenant: Annotated[Word | None, doc("Only of this tenant's reservations.")] = None
    reservation: Annotated[Id | None, doc("Only of this reservation.")] = None
    lead: Annotated[
        float,
        number(0, 86_400.0),
        doc("Seconds between `starting_soon` and the start of the reservation."),
    ] = 300.0
    format: Annotated[
        str,
        choice(FORMATS),
        doc("The event as JSON, a message for Slack, or one line of text."),
    ] = EVENT


class Deliveries(OpenAnswer):
    waiting: Count
    delivered: Count
    dead: Count


class DeliveryFailure(OpenAnswer):
    event: str
    kind: str
    state: str
    attempts: int
    error: str
    at: Annotated[Instant, doc("Time at which delivery was abandoned, or of the next attempt.")]


class Webhook(OpenAnswer):
    id: str
    url: str
    kinds: list[str]
    tenant: str | None
    reservation: str | None
    lead: float
    format: Annotated[str, one_of(FORMATS)]
    created_at: Instant
    stopped: Annotated[
        str | None, doc("Reason why it receives nothing: its creator's token is no longer valid.")
    ]
    deliveries: Deliveries
    secret: Annotated[
        str | UnsetType,
        doc("The key that signs deliveries, shown only when the webhook is created."),
    ] = UNSET
    failures: Annotated[
        list[DeliveryFailure] | UnsetType,
        doc("Failed deliveries, shown for a single webhook; `dead` ones are not retried."),
    ] = UNSET


class WebhookList(OpenAnswer):
    webhooks: list[Webhook]


class WebhookTest(OpenAnswer):
    event: str


calls = Calls()


@calls.post(
    "/v1/webhooks",
    "The webhook; its secret is only in this answer.",
    status=201,
    fails=(Code.MALFORMED, "too_many"),
    headers={"Location": "Path of the webhook."},
    links=links_from("$response.body#/id", "getWebhook", "testWebhook", "deleteWebhook"),
)
def create_webhook(runtime: Runtime, user: User, body: NewWebhook) -> Webhook:
    """Create a webhook, which posts events to a URL."""
    try:
        require_allowed(read_url(body.url), read_networks(runtime.config.webhook_networks))
    except AddressError as error:
        raise malformed_problem([ApiError(str(error), pointer="/url")]) from error
    with runtime.reading():
        newest = runtime.recent.newest
    row = WebhookRow(
        f"w-{os.urandom(10).hex()}",
        body.url,
        new_secret(),
        ",".join(body.kinds),
        tenant_for(user, body.tenant),
        body.reservation,
        round(1000 * body.lead),
        runtime.clock_ms(),
        newest.version,
        newest.number,
        present_actor().key,
        body.format,
    )
    try:
        runtime.store.webhooks.add(row, MOST, _audit_row(runtime, row, "create_webhook"))
    except TooManyWebhooksError as error:
        detail = f"{MOST} webhooks are kept, half of them for one tenant: {error}; delete one"
        raise problem("too_many", detail) from error
    return _shown(runtime, row, secret=row.secret)


@calls.get("/v1/webhooks", "The webhooks.")
def list_webhooks(runtime: Runtime, user: User) -> WebhookList:
    """All webhooks that the caller may see, oldest first."""
    rows = runtime.store.webhooks.page()
    return WebhookList(webhooks=[_shown(runtime, row) for row in rows if _is_seen(row, user)])


@calls.get("/v1/webhooks/{id}", "The webhook.", fails=("not_found",))
def get_webhook(runtime: Runtime, user: User, id_: str) -> Webhook:
    """One webhook, with its failed deliveries."""
    row = _row(runtime, user, id_)
    failures = [_failure(each) for each in runtime.store.webhooks.failures(id_)]
    return _shown(runtime, row, failures=failures)


@calls.post(
    "/v1/webhooks/{id}/test", "The event will be delivered soon.", status=202, fails=("not_found",)
)
def test_webhook(runtime: Runtime, user: User, id_: str) -> WebhookTest:
    """Send an event of kind `test`."""
    row, event = _row(runtime, user, id_), f"test-{os.urandom(8).hex()}"
    runtime.store.webhooks.note([trial_delivery(row, event, runtime.clock_ms())])
    return WebhookTest(event=event)


@calls.delete("/v1/webhooks/{id}", "The webhook is deleted.", status=204, fails=("not_found",))
def delete_webhook(runtime: Runtime, user: User, id_: str) -> None:
    """Delete a webhook."""
    row = _row(runtime, user, id_)
    runtime.store.webhooks.delete(id_, _audit_row(runtime, row, "delete_webhook"))


def tenant_for(user: User, tenant: str | None) -> str | None:
    """Return the requested tenant or the user's only one; None: all, for users who see all.

    Raises
    ------
    ApiProblemError
        As in `tenant_of`.
    """
    return None if tenant is None and user.sees_all else tenant_of(user, tenant, "")


def _audit_row(runtime: Runtime, row: WebhookRow, kind: str) -> AuditRow:
    """Return the audit row, without the address, which may contain a secret."""
    whose = row.tenant or ""
    return AuditRow(present_actor(), runtime.clock_ms(), kind, row.id, whose, row.kinds)


def _row(runtime: Runtime, user: User, id_: str) -> WebhookRow:
    row = runtime.store.webhooks.get(id_)
    if row is None or not _is_seen(row, user):
        raise problem("not_found", f"there is no webhook {id_!r}")
    return row


def _is_seen(row: WebhookRow, user: User) -> bool:
    return user.sees_all if row.tenant is None else user.acts_for(row.tenant)


def _shown(runtime: Runtime, row: WebhookRow, **more: Any) -> Webhook:
    return Webhook(
        id=row.id,
        url=row.url,
        kinds=row.kinds.split(","),
        tenant=row.tenant,
        reservation=row.reservation,
        lead=row.lead_ms / 1000,
        format=row.form,
        created_at=rfc3339_text(instant_of(row.created_ms)),
        stopped=runtime.token_book.maker_fault(row.maker, row.tenant, runtime.clock_ms()),
        deliveries=Deliveries(**runtime.store.webhooks.counts(row.id)),
        **more,
    )


def _failure(row: DeliveryRow) -> DeliveryFailure:
    return DeliveryFailure(
        event=row.event,
        kind=msgspec.json.decode(row.body)["kind"],
        state=row.state,
        attempts=row.attempts,
        error=row.error,
        at=rfc3339_text(instant_of(row.due_ms)),
    )
