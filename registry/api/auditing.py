"""Audit entries of requests: writes, and refusals of those who may not do what they ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import zip_longest
from typing import Any
from urllib.parse import urlsplit

import orjson

from registry.audit.log import RequestEntry
from registry.domain.errors import RegistryError
from registry.domain.principal import ANONYMOUS

from .json_input import document
from .request_context import RequestContext

# Takes the entries of a request. What it returns is awaited before the request is answered.
Audit = Callable[[Sequence[RequestEntry]], Awaitable[None] | None]
# Not admitted, not permitted, too many: recorded for reads as well.
_REFUSALS = frozenset({401, 403, 429})
# Paths of operations whose bodies name what they change, and the members with the names.
_NAMING = ("/associations", "/admin/webhooks/", "/config", "/mode")
_NAMES = ("resourceId", "resourceName", "resourceNamespace", "alias", "mode")
# Characters of a name, and names of subjects, that are kept.
NAME_MAX, SUBJECTS_MAX = 256, 16


def entries(context: RequestContext, status: int) -> list[RequestEntry]:
    """Return the entries of a request: one, or one for each part of a batch; none if it is not recorded.

    ``status``: of the answer; 0 if the client disconnected before there was one.
    """
    if not (context.writes or status in _REFUSALS):
        return []
    admission, options = context.admission, _options(context.args)
    principal = ANONYMOUS if admission is None else admission.principal
    body = _body(context)
    places = {name: _short(value) for name, value in context.path.items() if name != "subject"}
    if context.made:
        places["made"] = context.made
    one = RequestEntry(
        # Without a route the path is the client's own text, which the entry cuts.
        operation=f"{context.method} {context.route or context.shown_path}",
        request_id=context.request_id.decode("latin-1"),
        principal=principal.name,
        address=context.address,
        subject=context.path.get("subject", ""),
        status=status,
        error_code=context.error_code,
        offset=None if options.get("dryRun") else context.offset,
        target={**places, **_named_in_body(body)},
        options=options,
        admitted=admission is not None,
        kind="" if admission is None else admission.kind,
    )
    if not context.results:
        return [one]
    return list(_parts(one, body, orjson.loads(context.results)["results"]))


def _parts(one: RequestEntry, body: Mapping[str, Any], results: Sequence[Any]) -> Iterator[RequestEntry]:
    """Yield the entries of a batch that was answered: each part succeeds or fails on its own."""
    pairs: Iterator[tuple[Any, Any]] = zip_longest(body.get("requests", ()), results, fillvalue={})
    for number, (request, result) in enumerate(pairs):
        code = result.get("error", {}).get("error_code", 0)
        offset = None if code else one.offset
        target = {"request": number, **_named_in_body(request)}
        yield one._replace(error_code=code, offset=offset, target=target)


def _options(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the query that are set, of those that the operation knows."""
    return {name: _short(value) for name, value in args.items() if value}


def _body(context: RequestContext) -> dict[str, Any]:
    if context.body is None or not context.route.startswith(_NAMING):
        return {}
    try:
        return document(context.body)  # as the handler reads it, so that no spelling hides a name
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
