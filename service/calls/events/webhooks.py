"""Create, list, try and delete webhooks; one function for each call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from rdl.durations import rfc3339_text
from service.access.actor import present_actor
from service.access.user import User
from service.clock import instant_of
from service.commits.screening.ownership import tenant_of
from service.problems import ApiError, malformed_problem, problem
from service.runtime import Runtime
from service.store import AuditRow
from service.store.rows.webhooks import DeliveryRow, TooManyWebhooksError, WebhookRow
from service.webhooks.addresses import AddressError, read_networks, read_url, require_allowed
from service.webhooks.collection import trial_delivery
from service.webhooks.delivery import new_secret

#: Most webhooks of one database.
MOST: Final = 200


def create(runtime: Runtime, user: User, values: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a webhook that is told what happens from now on; return it, with its secret.

    Raises
    ------
    ApiProblemError
        ``malformed`` for an address that is not told anything, or where none of several tenants
        is named; ``forbidden`` for a tenant that `user` does not act for; ``too_many``.
    """
    try:
        require_allowed(read_url(values["url"]), read_networks(runtime.config.webhook_networks))
    except AddressError as error:
        raise malformed_problem([ApiError(str(error), pointer="/url")]) from error
    tenant = tenant_for(user, values["tenant"])
    with runtime.reading():
        newest = runtime.recent.newest
    row = WebhookRow(
        f"w-{os.urandom(10).hex()}",
        values["url"],
        new_secret(),
        ",".join(values["kinds"]),
        tenant,
        values["reservation"],
        round(1000 * values["lead"]),
        runtime.clock_ms(),
        newest.version,
        newest.number,
        present_actor().key,
    )
    try:
        runtime.store.webhooks.add(row, MOST, _audit_row(runtime, row, "create_webhook"))
    except TooManyWebhooksError as error:
        detail = f"{MOST} webhooks are kept, half of them for one tenant: {error}; delete one"
        raise problem("too_many", detail) from error
    return {**_json_of(runtime, row), "secret": row.secret}


def tenant_for(user: User, tenant: str | None) -> str | None:
    """Return the tenant that somebody asks for, or its only one; None: all, for who sees all.

    Raises
    ------
    ApiProblemError
        As `tenant_of`.
    """
    return None if tenant is None and user.sees_all else tenant_of(user, tenant, "")


def page(runtime: Runtime, user: User) -> dict[str, Any]:
    """Return the webhooks that somebody may see, oldest first."""
    rows = [one for one in runtime.store.webhooks.page() if _is_seen(one, user)]
    return {"webhooks": [_json_of(runtime, row) for row in rows]}


def one(runtime: Runtime, user: User, id_: str) -> dict[str, Any]:
    """Return a webhook, with what could not be delivered.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    row = _webhook_row(runtime, user, id_)
    failures = [_failure(each) for each in runtime.store.webhooks.failures(id_)]
    return {**_json_of(runtime, row), "failures": failures}


def delete(runtime: Runtime, user: User, id_: str) -> None:
    """Tell a webhook nothing more.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    row = _webhook_row(runtime, user, id_)
    runtime.store.webhooks.delete(id_, _audit_row(runtime, row, "delete_webhook"))


def send_test(runtime: Runtime, user: User, id_: str) -> dict[str, Any]:
    """Have an event of kind ``test`` delivered; return its id.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    row = _webhook_row(runtime, user, id_)
    event = f"test-{os.urandom(8).hex()}"
    runtime.store.webhooks.note([trial_delivery(row, event, runtime.clock_ms())])
    return {"event": event}


def _audit_row(runtime: Runtime, row: WebhookRow, kind: str) -> AuditRow:
    """Return the row of the audit; without the address, which may hold a secret."""
    whose = row.tenant or ""
    return AuditRow(present_actor(), runtime.clock_ms(), kind, row.id, whose, row.kinds)


def _webhook_row(runtime: Runtime, user: User, id_: str) -> WebhookRow:
    row = runtime.store.webhooks.get(id_)
    if row is None or not _is_seen(row, user):
        raise problem("not_found", f"there is no webhook {id_!r}")
    return row


def _is_seen(row: WebhookRow, user: User) -> bool:
    return user.sees_all if row.tenant is None else user.acts_for(row.tenant)


def _json_of(runtime: Runtime, row: WebhookRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "url": row.url,
        "kinds": row.kinds.split(","),
        "tenant": row.tenant,
        "reservation": row.reservation,
        "lead": row.lead_ms / 1000,
        "created_at": rfc3339_text(instant_of(row.created_ms)),
        "stopped": runtime.token_book.maker_fault(row.maker, row.tenant, runtime.clock_ms()),
        "deliveries": runtime.store.webhooks.counts(row.id),
    }


def _failure(row: DeliveryRow) -> dict[str, Any]:
    """Return a delivery that was not taken: when it was given up, or is tried again."""
    return {
        "event": row.event,
        "kind": msgspec.json.decode(row.body)["kind"],
        "state": row.state,
        "attempts": row.attempts,
        "error": row.error,
        "at": rfc3339_text(instant_of(row.due_ms)),
    }
