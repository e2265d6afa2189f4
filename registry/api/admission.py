"""Admission of requests by their credentials, and ``GET /me``: who sends them, and what is permitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from registry.domain.errors import BAD_REQUEST, NOT_FOUND
from registry.domain.model import Subject
from registry.domain.queries import scope
from registry.security.gate import (
    OPEN_GATE,
    SESSION,
    STRANGER,
    Access,
    Admission,
    Credentials,
    Gate,
    NoCredentials,
    NotAdmitted,
    Permission,
    SessionGate,
    SignIn,
)

from .answers import Answer
from .backend import Backend
from .browsers import is_own_page
from .operations import Call, Operation
from .parameters import word
from .permissions import OPEN
from .request_context import RequestContext

# For load balancers, monitoring and tools that read the API's description, by their segments.
OPEN_PATHS = frozenset({
    ("health", "live"), ("health", "started"), ("health", "ready"), ("_health",), ("master_available",),
    ("metrics",), ("openapi.json",),
})  # fmt: skip

# Says to clients without credentials how to authenticate; wrong credentials are refused here too.
WELCOME_PATH = ("me",)


class Entrance:
    """Admits requests by the gate, unless their path is open."""

    def __init__(self, gate: Gate, *, open_paths: bool, sessions: SessionGate | None = None) -> None:
        """``sessions``: whose cookies are accepted from pages of this origin."""
        self._gate = gate
        self._cookie = b"" if sessions is None else sessions.cookie.encode() + b"="
        self._open = OPEN_PATHS if open_paths else frozenset()

    async def admit(self, context: RequestContext, segments: tuple[str, ...]) -> Admission:
        """Return the admission of a request. Raises :class:`~registry.domain.errors.RegistryError`."""
        if segments in self._open:
            return await OPEN_GATE.admit(Credentials())
        if self._cookie and not context.peer.authorization and is_own_page(context.fields):
            token = _cookie_in(context.fields, self._cookie)
            if token:
                context.peer = context.peer._replace(authorization=SESSION + token)
        known = self._gate.cached_admission(context.peer)
        if known is not None:
            return known
        try:
            return await self._gate.admit(context.credentials)
        except NotAdmitted as error:
            if isinstance(error, NoCredentials) and segments == WELCOME_PATH:
                return STRANGER
            raise _for_pages(error) if _from_script(context.fields) else error from None


def _cookie_in(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    """Return the value of a cookie; empty without it, or if there are several."""
    cookies = (part.strip() for name, value in headers if name == b"cookie" for part in value.split(b";"))
    found = [each.removeprefix(wanted) for each in cookies if each.startswith(wanted)]
    return found[0] if len(found) == 1 else b""


def _from_script(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"x-requested-with" for name, _ in headers)


def _for_pages(refused: NotAdmitted) -> NotAdmitted:
    """Return a refusal at which browsers open no dialog of their own, for pages that ask for passwords."""
    headers = tuple((name, value.replace(b"Basic ", b"X-Basic ", 1)) for name, value in refused.headers)
    return NotAdmitted(refused.code, refused.message, headers)


async def begin_session(call: Call, backend: Backend) -> Answer:
    """``POST /me/session``: exchange the credentials of the request for a cookie, or renew the session."""
    sessions, context = call.settings.sessions, call.context
    if sessions is None:
        raise NOT_FOUND()
    signed_in = sessions.begin(context.credentials, call.sender)
    value = signed_in.token.decode()
    return Answer(
        orjson.dumps({"lasts": signed_in.lasts_s}),
        headers=(_set_cookie(context, signed_in.cookie, value, signed_in.lasts_s), _NO_STORE),
    )


async def end_session(call: Call, backend: Backend) -> Answer:
    """``DELETE /me/session``: end the session of the request, also for copies of its cookie."""
    sessions, context = call.settings.sessions, call.context
    if sessions is None:
        raise NOT_FOUND()
    sessions.end(context.credentials)
    return Answer(b"{}", headers=(_set_cookie(context, sessions.cookie, "", 0), _NO_STORE))


_NO_STORE = (b"cache-control", b"no-store")


def _set_cookie(context: RequestContext, name: str, value: str, lasts_s: int) -> tuple[bytes, bytes]:
    """Return the header that sets a cookie, which no script sees and no other site sends."""
    # Behind a proxy that ends TLS, only the page's origin says that the browser speaks https.
    secure = "; Secure" if context.headers.get("origin", "").startswith("https://") else ""
    text = f"{name}={value}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", text.encode()


PATH = "/me"
_READS = frozenset({Permission.READ, Permission.COMPATIBILITY})


async def me(call: Call, backend: Backend) -> Answer:
    """``GET /me``: the principal, ways to sign in and permitted operations; never 401 without credentials."""
    access = call.access
    somewhere = _operations(lambda each: access.everywhere(each) or bool(access.ranges(each)))
    operations = {"everywhere": _operations(access.everywhere), "somewhere": somewhere}
    if call.args["subject"] is not None:
        subjects = _with_alias(Subject.parse(call.args["subject"]), access, backend)
        operations["subject"] = _operations(lambda each: all(access.may(each, one) for one in subjects))
    found: dict[str, Any] = {
        "principal": call.sender.principal.name or None,
        "groups": sorted(call.sender.principal.groups),
        "kind": call.sender.kind or None,
        "method": call.sender.method or None,
        "readOnly": _READS.issuperset(map(Permission, somewhere)),
        "operations": operations,
        "signIn": _sign_in(call.settings.sign_in),
        **_session_time(call),
    }
    return Answer(orjson.dumps(found), headers=((b"cache-control", b"no-store"),))


def _session_time(call: Call) -> dict[str, dict[str, int]]:
    sessions = call.settings.sessions
    found = None if sessions is None else sessions.time_of(call.context.credentials)
    return {} if found is None else {"session": found._asdict()}


def _sign_in(sign_in: SignIn) -> dict[str, Any]:
    oidc = sign_in.oidc
    found = None if oidc is None else {
        "issuer": oidc.issuer, "clientId": oidc.client_id, "scopes": oidc.scopes,
        "audience": oidc.audience, "token": oidc.token,
    }  # fmt: skip
    return {**sign_in._asdict(), "oidc": found}


def _operations(permitted: Callable[[Permission], bool]) -> list[str]:
    return [each.value for each in Permission if permitted(each)]


def _with_alias(asked: Subject, access: Access, backend: Backend) -> Iterable[Subject]:
    """Return a subject and the one that it is an alias of: operations need to be permitted on both."""
    if asked.is_context or all(map(access.everywhere, Permission)):
        return (asked,)
    with backend.view() as view:
        return dict.fromkeys((asked, scope.resolve_alias(view, asked)))


OPERATIONS = (
    Operation(
        method="GET",
        path=PATH,
        summary="The principal of the request, its permissions, and the ways to sign in",
        permission=OPEN,
        node_handler=me,
        response_schema="Me",
        parameters=(
            word(
                "subject",
                "Also list the permissions on this subject, or on a context as :.ctx:; it need not exist",
                None,
            ),
        ),
    ),
    Operation(
        method="POST",
        path=f"{PATH}/session",
        summary="Exchange a password or token for a session of the console, in a cookie, or renew it",
        permission=OPEN,
        node_handler=begin_session,
        response_schema="Session",
        errors=(BAD_REQUEST, NOT_FOUND),
    ),
    Operation(
        method="DELETE",
        path=f"{PATH}/session",
        summary="End the session of the console",
        permission=OPEN,
        node_handler=end_session,
        response_schema="Empty",
        errors=(NOT_FOUND,),
    ),
)
