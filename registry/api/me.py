"""``GET /me``: who sends the request, how to sign in, and what is permitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from registry.domain.model import Subject
from registry.domain.queries import scope
from registry.security.gate import Access, Permission, SignIn

from .answers import Answer
from .backend import Backend
from .operations import Call, Operation
from .parameters import word
from .permissions import OPEN

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
    }
    return Answer(orjson.dumps(found), headers=((b"cache-control", b"no-store"),))


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
        return dict.fromkeys((asked, scope.aliased(view, asked)))


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
)
