"""Writing through a primary that is no node of this project, but Confluent's: plain HTTP on its public URL.

As its own followers do it (Confluent 8.x): the request as a client would make it, marked ``X-Forward: true``.
Blocking calls in threads, because this lasts as long as a migration.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import ssl
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
import orjson

from election.contract import Identity
from registry.domain.commands import (
    Command,
    DeleteConfig,
    DeleteContext,
    DeleteMode,
    DeleteSubject,
    DeleteVersion,
    Done,
    NotPrimary,
    Outcome,
    PutConfig,
    PutMode,
    Refused,
    Register,
    RequestSnapshot,
    Unknown,
    refused,
    repeatable,
)
from registry.domain.errors import FORWARD_FAILED, NO_PRIMARY, OUTCOME_UNKNOWN, UNAVAILABLE
from registry.domain.model import Subject

from .host import Host
from .line import Unsent
from .messages import Wanted

CALLS_MAX = 32
_KIND = "application/vnd.schemaregistry.v1+json"
_DONE = (200, 204)
_CODE_TAIL = re.compile(r"; error code: \d+$")
_UNKNOWN = "the outcome of the write is unknown and it is safe to repeat it"
_NO_SNAPSHOTS = "The primary is no node of this project; run registrar snapshot build, which needs none"


class PlainRequest(NamedTuple):
    """A command as a client of Confluent's would send it."""

    method: str
    target: str
    """Path and query, percent-encoded."""
    body: bytes


class PlainPrimary:
    """Stands where a :class:`.line.Line` stands for the nodes of this project."""

    def __init__(self, identity: Identity, host: Host) -> None:
        self.identity = identity
        self.trouble = ""
        self.end = 0
        self.repeats = False
        """It knows of no tickets."""
        self._host = host
        self._pool = ThreadPoolExecutor(CALLS_MAX, "plain")

    async def ask(self, wanted: Wanted, deadline: float, *, doubt: bool = False) -> Outcome:
        """As :meth:`.line.Line.ask`; returns once the effect is in the own store, too."""
        if doubt and not repeatable(wanted.command):
            return Unknown(f"The primary knows of no earlier try; {_UNKNOWN}")
        if isinstance(wanted.command, RequestSnapshot):
            return refused(UNAVAILABLE(_NO_SNAPSHOTS))
        loop = asyncio.get_running_loop()
        left = deadline - loop.time()
        call = partial(_call, self.identity, plain_request(wanted.command), wanted.request_id, left)
        try:
            async with asyncio.timeout_at(deadline):
                status, body = await loop.run_in_executor(self._pool, call)
        except Unsent as error:
            self.trouble = str(error)
            raise
        except TimeoutError:
            return Unknown(f"The primary did not answer in time; {_UNKNOWN}")
        except (OSError, http.client.HTTPException):
            return Unknown(f"The connection to the primary was lost; {_UNKNOWN}")
        self.trouble = ""
        outcome = outcome_of(status, body)
        if isinstance(outcome, Done):
            # Its answers name no offset: the log's end, asked after it, is not before the write.
            await self._host.confirm(max(0.0, deadline - loop.time()))
            outcome = Done(outcome.body, self._host.applied())
        return outcome

    async def retire(self, grace_s: float) -> None:
        """Calls under way end by themselves."""
        self._pool.shutdown(wait=False)


def plain_request(command: Command) -> PlainRequest:
    """The request that asks for ``command``, which is none for a snapshot."""
    match command:
        case Register(subject=subject):
            flags = {"normalize": command.normalize, "force": command.force}
            return PlainRequest("POST", _target("subjects", subject, "versions", **flags), _register(command))
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
        case RequestSnapshot():
            raise ValueError(command)


def _target(*segments: str | None, **flags: bool) -> str:
    path = "".join("/" + quote(each, safe="") for each in segments if each is not None)
    query = urlencode({name: "true" for name, value in flags.items() if value})
    return f"{path}?{query}" if query else path


def _register(command: Register) -> bytes:
    body: dict[str, Any] = {"schema": command.schema}
    given = {
        "schemaType": command.schema_type,
        "references": command.references,
        "metadata": command.metadata,
        "ruleSet": command.rule_set,
        "version": command.version or None,
        "id": command.schema_id if command.schema_id >= 0 else None,
    }
    body |= {name: value for name, value in given.items() if value is not None}
    return msgspec.json.encode(body)


def outcome_of(status: int, body: bytes) -> Outcome:
    """What an answer of Confluent's says; the offset of what was done is not in it, and is 0 here."""
    if status in _DONE:
        return Done(body, 0)
    try:
        said = orjson.loads(body)
        code, message = int(said["error_code"]), _CODE_TAIL.sub("", str(said["message"]))
    except (ValueError, TypeError, KeyError):
        return Refused(
            FORWARD_FAILED.code, f"The primary answered with status {status}, and not as a registry"
        )
    if code in (FORWARD_FAILED.code, NO_PRIMARY.code):
        return NotPrimary()
    return Unknown(message) if code == OUTCOME_UNKNOWN.code else Refused(code, message)


def _call(identity: Identity, request: PlainRequest, request_id: str, timeout_s: float) -> tuple[int, bytes]:
    """Ask and read the answer. Raises :class:`Unsent`, :class:`OSError`, ``HTTPException``."""
    connection = _connection(identity, timeout_s)
    try:
        try:
            connection.connect()
        except OSError as error:
            raise Unsent(f"the primary cannot be reached at {identity.url}: {error}") from None
        headers = {"Content-Type": _KIND, "Accept": _KIND, "X-Forward": "true"}
        if request_id:
            headers["X-Request-ID"] = request_id
        connection.request(request.method, request.target, request.body or None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _connection(identity: Identity, timeout_s: float) -> http.client.HTTPConnection:
    host = identity.host.strip("[]")
    if identity.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, identity.port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(host, identity.port, timeout=timeout_s)
