"""Writes through a primary that is one of Confluent's nodes: plain HTTP to its public URL.

Requests are those that a client would make, marked ``X-Forward: true``, as Confluent 8.x's own secondaries
send them. Blocking calls in threads are good enough, because such a primary exists only during a migration.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, get_args
from urllib.parse import quote, urlencode

import msgspec
import orjson

from election.contract import Identity
from registry.base.processes.tls_connections import client_context
from registry.domain.commands import (
    Associate,
    ChangeAssociations,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Dissociate,
    Done,
    NotPrimary,
    Outcome,
    PrimaryQuery,
    PutConfig,
    PutMode,
    Refused,
    Register,
    ReleaseIds,
    RequestSnapshot,
    Submitted,
    TagVersion,
    Unknown,
    UsageCommand,
    WebhookCommand,
    refusal,
)
from registry.domain.errors import FORWARD_FAILED, NO_PRIMARY, OUTCOME_UNKNOWN, UNAVAILABLE, outcome_unknown
from registry.domain.model import DEFAULT_CONTEXT, Subject
from registry.domain.pending_command import CommandRequest, PendingCommand

from .confluent_bodies import association_body, registration, tag_body
from .http2_connection import NotSent
from .node_port import NodePort

CALLS_MAX = 32
# Seconds to connect for a call that has waited until its deadline; zero would mean not to block.
_SHORTEST_S = 0.001
_KIND = "application/vnd.schemaregistry.v1+json"
_DONE = (200, 204, 207)
_SERVER_ERROR = 500
_CODE_TAIL = re.compile(r"; error code: \d+$")
_BUSY = "The primary takes too long to accept requests; nothing was written"
_NO_WEBHOOKS = "This node cannot ask the primary about webhooks; send the request to the primary itself"
_NO_CONDITIONS = "The primary is not a Registrar node and would ignore If-Match; nothing was written"
_NO_CENSUS = "This node cannot publish a census through the primary; send the request to the primary itself"
# Why commands cannot be forwarded that Confluent's API does not have.
_NOT_FORWARDED: dict[type, str] = {
    RequestSnapshot: "The primary is not a Registrar node; use registrar snapshot build, which needs no node",
    ReleaseIds: "This node cannot ask the primary to release ids; send the request to the primary itself",
    **dict.fromkeys(get_args(WebhookCommand | PrimaryQuery), _NO_WEBHOOKS),
    **dict.fromkeys(get_args(UsageCommand), _NO_CENSUS),
}


class PlainRequest(NamedTuple):
    """A command as one of Confluent's clients would send it."""

    method: str
    # Path and query, percent-encoded.
    target: str
    body: bytes


class _Permit:
    """The permission to send one request, for the first that takes it: the thread, or who gives up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Return true for the first caller only."""
        return self._lock.acquire(blocking=False)


class ConfluentClient:
    """The counterpart of :class:`.primary_client.PrimaryClient` for Confluent's nodes."""

    def __init__(self, identity: Identity, node_port: NodePort) -> None:
        self.identity = identity
        self.last_error = ""
        self.end = 0
        self._node_port = node_port
        self._pool = ThreadPoolExecutor(CALLS_MAX, "plain")
        self._calls: dict[asyncio.Future[tuple[int, bytes]], _Permit] = {}

    async def ask(self, pending: PendingCommand) -> Outcome:
        """As :meth:`.primary_client.PrimaryClient.ask`; returns once the effect is in this node's store, too.

        Confluent's nodes do not know idempotency keys, so ``pending.repeats`` stays false.
        """
        command = pending.command
        if pending.in_doubt and not pending.repeatable:
            return Unknown(
                outcome_unknown("The primary cannot determine whether an earlier attempt was executed")
            )
        if type(command) in _NOT_FORWARDED:
            return refusal(UNAVAILABLE(_NOT_FORWARDED[type(command)]))
        if pending.request.condition is not None:
            return refusal(UNAVAILABLE(_NO_CONDITIONS))
        loop = asyncio.get_running_loop()
        permit, headers = _Permit(), _origin_headers(pending.request)
        call = partial(
            _call, self.identity, plain_request(command), headers, pending.deadline, permit
        )  # fmt: skip
        answer = loop.run_in_executor(self._pool, call)
        self._calls[answer] = permit
        try:
            async with asyncio.timeout_at(pending.deadline):
                status, body = await answer
        except NotSent as error:
            self.last_error = str(error)
            return NotPrimary()
        except TimeoutError:
            if permit.take():
                return refusal(UNAVAILABLE(_BUSY))
            return Unknown(outcome_unknown("The primary did not answer in time"))
        except (OSError, http.client.HTTPException):
            return Unknown(outcome_unknown("The connection to the primary was lost"))
        except asyncio.CancelledError:
            if answer in self._calls:
                raise
            return NotPrimary()  # retired
        finally:
            self._calls.pop(answer, None)
        self.last_error = ""
        outcome = outcome_of(status, body)
        if isinstance(outcome, Done):
            # Its answers name no offset: the log's end, asked after it, is not before the write.
            await self._node_port.confirm(max(0.0, pending.deadline - loop.time()))
            outcome = Done(outcome.body, self._node_port.applied())
        return outcome

    async def retire(self, grace_s: float) -> None:
        """Cancel calls that were not sent; those in flight end by themselves."""
        for answer, permit in tuple(self._calls.items()):
            if permit.take():
                del self._calls[answer]
                answer.cancel()
        self._pool.shutdown(wait=False)


def plain_request(command: Submitted) -> PlainRequest:
    """Return the request for ``command``; those of :data:`_NOT_FORWARDED` have none."""
    match command:
        case Register(subject=subject):
            flags = {"normalize": command.normalize, "force": command.force}
            body = msgspec.json.encode(registration(command))
            return PlainRequest("POST", _target("subjects", subject, "versions", **flags), body)
        case TagVersion(subject, version):
            return PlainRequest(
                "POST", _target("subjects", subject, "versions", str(version), "tags"), tag_body(command)
            )
        case DeleteSubject(subject, permanent):
            return PlainRequest("DELETE", _target("subjects", subject, permanent=permanent), b"")
        case DeleteVersion(subject, version, permanent):
            target = _target("subjects", subject, "versions", str(version), permanent=permanent)
            return PlainRequest("DELETE", target, b"")
        case PutConfig(subject, patch):
            wire = {
                "compatibility" if name == "compatibilityLevel" else name: each
                for name, each in patch.items()
            }
            return PlainRequest("PUT", _target("config", subject), msgspec.json.encode(wire))
        case DeleteConfig(subject):
            return PlainRequest("DELETE", _target("config", subject), b"")
        case PutMode(subject, mode, echo, force):
            body = orjson.dumps({"mode": mode if echo is None else echo})
            return PlainRequest("PUT", _target("mode", subject, force=force), body)
        case DeleteMode(subject, recursive):
            return PlainRequest("DELETE", _target("mode", subject, recursive=recursive), b"")
        case DeleteContext(context):
            return PlainRequest("DELETE", _target("contexts", Subject(context, "").qualified), b"")
        case Associate() | ChangeAssociations():
            return _associating(command)
        case Dissociate(resource_id, resource_type, types, cascade, dry_run):
            wanted: dict[str, str | list[str]] = {"resourceType": resource_type, "associationType": types}
            target = _target(
                "associations", "resources", resource_id, cascadeLifecycle=cascade, dryRun=dry_run, **wanted
            )
            return PlainRequest("DELETE", target, b"")
        case _:
            raise ValueError(command)


def _associating(command: Associate | ChangeAssociations) -> PlainRequest:
    context = "" if command.context == DEFAULT_CONTEXT else f":{command.context}:"
    query: dict[str, str | bool] = {"context": context, "dryRun": command.dry_run}
    body = association_body(command)
    if isinstance(command, ChangeAssociations):
        target = _target("associations", **query).replace("associations", "associations:batchMutate", 1)
        return PlainRequest("POST", target, body)
    if command.create:
        return PlainRequest("POST", _target("associations", **query), body)
    resource_id = command.request.resource_id
    return PlainRequest("PUT", _target("associations", "resources", resource_id, **query), body)


def _target(*segments: str | None, **query: bool | str | list[str]) -> str:
    """Return path and query, without parameters that are false or empty."""
    path = "".join("/" + quote(each, safe="") for each in segments if each is not None)
    parameters = {name: "true" if value is True else value for name, value in query.items() if value}
    return f"{path}?{urlencode(parameters, doseq=True)}" if parameters else path


def outcome_of(status: int, body: bytes) -> Outcome:
    """Return the outcome in Confluent's answer, which names no offset, so it is 0 here.

    An error of a proxy in between says nothing about the write, unless it found fault with the request.
    """
    if status in _DONE:
        return Done(body, 0)
    try:
        answer = orjson.loads(body)
        code, message = int(answer["error_code"]), _CODE_TAIL.sub("", str(answer["message"]))
    except (ValueError, TypeError, KeyError):
        foreign = f"The primary answered with status {status}, but not as a registry does"
        if status >= _SERVER_ERROR:
            return Unknown(outcome_unknown(foreign))
        return refusal(FORWARD_FAILED(foreign))
    if code in (FORWARD_FAILED.code, NO_PRIMARY.code):
        return NotPrimary()
    return Unknown(message) if code == OUTCOME_UNKNOWN.code else Refused(code, message)


def _origin_headers(request: CommandRequest) -> dict[str, str]:
    """Return the headers that name the client's request and its trace."""
    named = {"X-Request-ID": request.request_id, "traceparent": request.trace}
    return {name: value for name, value in named.items() if value}


def _call(
    identity: Identity, request: PlainRequest, origin: dict[str, str], deadline: float, permit: _Permit
) -> tuple[int, bytes]:
    """Ask and read the answer. Raises :class:`NotSent`, :class:`OSError`, ``HTTPException``."""
    connection = _connection(identity, max(_SHORTEST_S, deadline - time.monotonic()))
    try:
        try:
            connection.connect()
        except OSError as error:
            raise NotSent(f"the primary cannot be reached at {identity.url}: {error}") from None
        if not permit.take():
            raise NotSent("it was given up")
        headers = {"Content-Type": _KIND, "Accept": _KIND, "X-Forward": "true", **origin}
        try:
            connection.request(request.method, request.target, request.body or None, headers)
        except OSError as error:
            # The last piece was not sent, and no node executes a request that breaks off.
            raise NotSent(f"the primary at {identity.url} closed the connection: {error}") from None
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _connection(identity: Identity, timeout_s: float) -> http.client.HTTPConnection:
    host = identity.host.strip("[]")
    if identity.scheme == "https":
        return http.client.HTTPSConnection(host, identity.port, timeout=timeout_s, context=client_context())
    return http.client.HTTPConnection(host, identity.port, timeout=timeout_s)
