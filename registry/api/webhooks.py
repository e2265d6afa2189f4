"""Webhooks: register, list, change and test them. The primary delivers, and answers questions about it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from registry.domain import errors as e
from registry.domain.commands import (
    AskWebhooks,
    DeleteWebhook,
    MoveWebhook,
    PingWebhook,
    PrimaryQuery,
    PutWebhook,
    RotateWebhook,
    WebhookCommand,
)
from registry.domain.rows.view import View
from registry.webhooks.destinations import Destinations, NotAllowed
from registry.webhooks.message import Signer

from .answers import Answer, Header
from .json_input import boolean, document, listing, refuse, text
from .operations import BODY_ERRORS, WRITE_ERRORS, Call, Freshness, Operation, RowHandler, Write
from .permissions import ADMINS

PATH = "/admin/webhooks"
KINDS_MAX = 100
NOW = "now"
_ONE = f"{PATH}/{{webhook}}"
_NO_STORE: tuple[Header, ...] = ((b"cache-control", b"no-store"),)
_OFFSET_MAX = 2**63 - 1


def list_webhooks(call: Call, view: View) -> Write:
    """``GET /admin/webhooks``: by name."""
    return _answer_with(AskWebhooks())


def get_webhook(call: Call, view: View) -> Write:
    """``GET /admin/webhooks/{webhook}``."""
    asked = AskWebhooks(call.path["webhook"])
    return Write(asked, _NO_STORE, _with_etag)


def _with_etag(answer: Answer) -> Answer:
    etag = orjson.loads(answer.body)["etag"].encode()
    return answer._replace(headers=(*answer.headers, (b"etag", etag)))


def put_webhook(call: Call, view: View) -> Write:
    """``PUT /admin/webhooks/{webhook}``: the answer to a new one shows its secret, this once."""
    signer, destinations = _signer(call), call.settings.destinations
    body = document(call.body)
    kinds = listing(text)(body.get("kinds"), "kinds") or []
    if len(kinds) > KINDS_MAX:
        raise e.INVALID_WEBHOOK(f"it has more than {KINDS_MAX} kinds")
    enabled = boolean(body.get("enabled"), "enabled")
    command = PutWebhook(
        call.path["webhook"],
        _check_url(text(body.get("url"), "url") or "", destinations),
        kinds,
        text(body.get("subjectPrefix"), "subjectPrefix") or "",
        enabled is not False,
        _offset(body, "from"),
        secrets.token_hex(16),
        signer.fingerprint,
    )
    return _answer_with(command, partial(_with_secret_of, command.id, signer))


def delete_webhook(call: Call, view: View) -> Write:
    """``DELETE /admin/webhooks/{webhook}``."""
    return _answer_with(DeleteWebhook(call.path["webhook"]))


def rotate_webhook(call: Call, view: View) -> Write:
    """``POST /admin/webhooks/{webhook}/rotate``: the answer shows the new secret, this once."""
    signer = _signer(call)
    command = RotateWebhook(call.path["webhook"], signer.fingerprint, time.time_ns() // 1_000_000)
    return _answer_with(command, partial(_with_secret_of, "", signer))


def move_webhook(call: Call, view: View) -> Write:
    """``POST /admin/webhooks/{webhook}/position``."""
    body = document(call.body)
    if body.get("offset") is None:
        refuse("offset", f"an offset, or {NOW!r}", None)
    return _answer_with(MoveWebhook(call.path["webhook"], _offset(body, "offset")))


def ping_webhook(call: Call, view: View) -> Write:
    """``POST /admin/webhooks/{webhook}/test``: the result is in the body, also if the receiver failed."""
    return _answer_with(PingWebhook(call.path["webhook"]))


def _answer_with(command: WebhookCommand | PrimaryQuery, finished: Callable[[bytes], bytes] = bytes) -> Write:
    """Return the command or query, whose reply ``finished`` completes."""
    return Write(command, _NO_STORE, lambda answer: answer._replace(body=finished(answer.body)))


def _signer(call: Call) -> Signer:
    if call.settings.webhook_signer is None:
        raise e.WEBHOOKS_UNSIGNED("set webhooks_secret_file to the same secret on all nodes")
    return call.settings.webhook_signer


def _with_secret_of(webhook_id: str, signer: Signer, body: bytes) -> bytes:
    """Add its secret to a webhook, if it has this id; an empty one stands for all."""
    members = orjson.loads(body)
    if members["id"] != (webhook_id or members["id"]):
        return body
    return orjson.dumps(members | {"secret": signer.encoded_secret(members["id"], members["rotations"])})


def _check_url(url: str, destinations: Destinations) -> str:
    try:
        destinations.check_url(url)
    except (NotAllowed, ValueError) as error:
        raise e.INVALID_WEBHOOK(f"its url is not allowed: {error}") from None
    return url


def _offset(body: dict[str, Any], member: str) -> int:
    """Return an offset, or -1 for the log's end, which is the default."""
    value = body.get(member)
    if value is None or value == NOW:
        return -1
    if type(value) is not int or not 0 <= value <= _OFFSET_MAX:
        refuse(member, f"an offset, or {NOW!r}", value)
    return value


def _operation(
    method: str, path: str, summary: str, handler: RowHandler, *errors: e.ErrorKind, **more: Any
) -> Operation:
    return Operation(
        method=method,
        path=path,
        summary=summary,
        permission=ADMINS,
        handler=handler,
        freshness=Freshness.NEVER,
        errors=(*errors, *WRITE_ERRORS),
        **more,
    )


OPERATIONS = (
    _operation(
        "GET", PATH, "List the webhooks and the state of their deliveries", list_webhooks,
        response_schema="Webhooks",
    ),
    _operation(
        "GET", _ONE, "One webhook and the state of its deliveries", get_webhook, e.WEBHOOK_NOT_FOUND,
        response_schema="Webhook", tagged=True,
    ),
    _operation(
        "PUT", _ONE, "Create or change a webhook; the response for a new one contains its "
            "secret", put_webhook,
        e.BAD_REQUEST, e.INVALID_WEBHOOK, e.WEBHOOKS_LIMIT, e.WEBHOOKS_UNSIGNED, *BODY_ERRORS,
        request_schema="WebhookRequest", response_schema="Webhook", conditional=True,
    ),
    _operation(
        "DELETE", _ONE, "Delete a webhook", delete_webhook, e.WEBHOOK_NOT_FOUND, status=204,
        conditional=True,
    ),
    _operation(
        "POST", f"{_ONE}/rotate", "Rotate a webhook's secret; the response contains the new "
            "one", rotate_webhook,
        e.WEBHOOK_NOT_FOUND, e.WEBHOOKS_UNSIGNED, response_schema="Webhook", conditional=True,
    ),
    _operation(
        "POST", f"{_ONE}/position", "Set the next event that a webhook receives", move_webhook,
        e.BAD_REQUEST, e.WEBHOOK_NOT_FOUND, *BODY_ERRORS,
        request_schema="WebhookPosition", response_schema="Webhook", conditional=True,
    ),
    _operation(
        "POST", f"{_ONE}/test", "Send a test event to a webhook and return the receiver's "
            "answer", ping_webhook,
        e.WEBHOOK_NOT_FOUND, e.WEBHOOKS_UNSIGNED, e.TOO_MANY_REQUESTS, response_schema="WebhookTest",
    ),
)  # fmt: skip
