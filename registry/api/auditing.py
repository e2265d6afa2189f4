"""Audit entries of requests: writes, and refusals of those who may not do what they ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import zip_longest
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.types import Scope

from registry.audit.entry import RequestEntry
from registry.domain.errors import RegistryError
from registry.domain.principal import ANONYMOUS

from .json_input import document
from .operations import Call

# Keys in the request's state.
WRITES = "writes"  # true for a write, unless it was answered from rows and nothing was to be done
ERROR_CODE = "error_code"
CALL = "call"  # the request as its handler saw it, for writes
RESULTS = "results"  # the answer to a batch of writes
MADE = "made"  # the id of the object that a write has created

# Takes the entries of a request. What it returns is awaited before the request is answered.
Audit = Callable[[Sequence[RequestEntry]], Awaitable[None] | None]
# Not admitted, not permitted, too many: recorded for reads as well.
_REFUSALS = frozenset({401, 403, 429})
# Paths of operations whose bodies name what they change, and the members with the names.
_NAMING = ("/associations", "/admin/webhooks/", "/config", "/mode")
_NAMES = ("resourceId", "resourceName", "resourceNamespace", "alias", "mode")
# Characters of a name, and names of subjects, that are kept.
NAME_MAX, SUBJECTS_MAX = 256, 16


def entries(scope: Scope, state: Mapping[str, Any], status: int, address: str) -> list[RequestEntry]:
    """Return the entries of a request: one, or one for each part of a batch; none if it is not recorded.

    ``status``: of the answer; 0 if the client disconnected before there was one.
    """
    if not (state.get(WRITES) or status in _REFUSALS):
        return []
    admission, call = state.get("admission"), state.get(CALL)
    principal = ANONYMOUS if admission is None else admission.principal
    options = {} if call is None else _options(call)
    body = {} if call is None else _body(call)
    places = {
        name: _short(value) for name, value in scope.get("path_params", {}).items() if name != "subject"
    }
    if MADE in state:
        places[MADE] = state[MADE]
    one = RequestEntry(
        # Without a route the path is the client's own text, which the entry cuts.
        operation=f"{scope['method']} {state.get('route') or scope['path']}",
        request_id=state["request_id"],
        principal=principal.name,
        address=address,
        subject=scope.get("path_params", {}).get("subject", ""),
        status=status,
        error_code=state.get(ERROR_CODE, 0),
        offset=None if options.get("dryRun") else state.get("offset"),
        target={**places, **_named_in_body(body)},
        options=options,
        admitted=admission is not None,
        kind="" if admission is None else admission.kind,
    )
    if RESULTS not in state:
        return [one]
    return list(_parts(one, body, orjson.loads(state[RESULTS])["results"]))


def _parts(one: RequestEntry, body: Mapping[str, Any], results: Sequence[Any]) -> Iterator[RequestEntry]:
    """Yield the entries of a batch that was answered: each part succeeds or fails on its own."""
    pairs: Iterator[tuple[Any, Any]] = zip_longest(body.get("requests", ()), results, fillvalue={})
    for number, (request, result) in enumerate(pairs):
        code = result.get("error", {}).get("error_code", 0)
        offset = None if code else one.offset
        target = {"request": number, **_named_in_body(request)}
        yield one._replace(error_code=code, offset=offset, target=target)


def _options(call: Call) -> dict[str, Any]:
    """Return the parameters of the query that are set, of those that the operation knows."""
    return {name: _short(value) for name, value in call.args.items() if value}


def _body(call: Call) -> dict[str, Any]:
    if not call.operation.startswith(_NAMING):
        return {}
    try:
        return document(call.body)  # as the handler reads it, so that no spelling hides a name
    except RegistryError:
        return {}


def _named_in_body(body: Any) -> dict[str, Any]:
    """Return what a body names: a resource and subjects to associate, an alias or mode, a webhook's address.

    Of an address only the server is shown, because the rest can be a secret; a hash of it all shows a change.
    """
    if type(body) is not dict:
        return {}
    found = {name: _short(body[name]) for name in _NAMES if type(body.get(name)) is str}
    listed = body.get("associations")
    subjects = [
        _short(each["subject"])
        for each in (listed if type(listed) is list else ())
        if type(each) is dict and type(each.get("subject")) is str
    ]
    if subjects:
        found["subjects"] = subjects[:SUBJECTS_MAX]
    if type(body.get("url")) is str:
        found |= {"server": _server(body["url"]), "url_sha256": _hash(body["url"])}
    return found


def _server(url: str) -> str:
    try:
        found = urlsplit(url)
        return f"{found.scheme}://{found.netloc.rpartition('@')[2]}"[:NAME_MAX]
    except ValueError:
        return ""


def _hash(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value[:NAME_MAX]
    return [_short(each) for each in value[:SUBJECTS_MAX]] if isinstance(value, list | tuple) else value
