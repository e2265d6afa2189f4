"""All configs and modes that are stored, in pages: who compares registries need not ask for each subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import orjson

from registry.domain.model import Subject
from registry.domain.queries import entities, scope
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan

from .listing import Listing
from .operations import Call, Operation
from .paging import page
from .parameters import LIST_MAX, PAGE, Parameter

_JSON = b"application/json"
Stored = tuple[str, bytes]  # a qualified name, and the JSON of what is stored under it


def configs(call: Call, view: View) -> Listing[Stored]:
    """``GET /admin/configs``: each as ``GET /config/{subject}`` shows it."""

    def shown(view: View, subject: Subject) -> bytes | None:
        config = scope.exact_config(view, subject, call.settings.defaults)
        return None if config is None else entities.config_entity(config)

    return _listing(call, layout.CONFIG, "config", shown)


def modes(call: Call, view: View) -> Listing[Stored]:
    """``GET /admin/modes``: each as ``GET /mode/{subject}`` shows it."""

    def shown(view: View, subject: Subject) -> bytes | None:
        mode = scope.exact_mode(view, subject)
        return None if mode is None else entities.mode_entity(mode)

    return _listing(call, layout.MODE, "mode", shown)


def _listing(
    call: Call, table: bytes, what: str, shown: Callable[[View, Subject], bytes | None]
) -> Listing[Stored]:
    """A page of them by context and subject, behind the one named last."""
    named = call.args["after"]

    def walk(view: View, mark: tuple[str] | None) -> Iterator[Stored | None]:
        after = named if mark is None else mark[0]
        begin = table if after is None else layout.scope_key(table, Subject.parse(after)) + b"\0"
        for key, value in scan(view, table, begin):
            subject = layout.scope_of(key, value)
            text = shown(view, subject)
            yield None if text is None else (subject.qualified, text)

    def printed(each: Stored) -> bytes:
        return orjson.dumps({"subject": each[0], what: orjson.Fragment(each[1])})

    listing = page(call, walk, printed, lambda each: (each[0],), (str,), limit_max=LIST_MAX)
    return replace(listing, media_type=_JSON)


_PAGE = (
    Parameter("after", "text", "The name that the page before ended with; nothing: the first page"),
    *PAGE,
)
OPERATIONS = tuple(
    Operation(
        method="GET",
        path=f"/admin/{what}",
        summary=f"The {what} that are stored, in pages",
        handler=handler,
        parameters=_PAGE,
        gives=what.capitalize(),
    )
    for what, handler in (("configs", configs), ("modes", modes))
)
