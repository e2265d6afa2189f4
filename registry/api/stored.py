"""All configs and modes that are stored, in pages: who compares registries need not ask for each subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import orjson

from registry.domain import entities, rows, scope
from registry.domain.model import Subject
from registry.domain.rows import View

from .answers import Answer
from .operations import Call, Operation
from .parameters import LIMIT, LIST_MAX, Parameter, limit

_JSON = b"application/json"


def configs(call: Call, view: View) -> Answer:
    """``GET /admin/configs``: each as ``GET /config/{subject}`` shows it."""

    def shown(subject: Subject) -> bytes | None:
        config = scope.exact_config(view, subject, call.settings.defaults)
        return None if config is None else entities.config_entity(config)

    return _page(call, view, rows.CONFIG, "config", shown)


def modes(call: Call, view: View) -> Answer:
    """``GET /admin/modes``: each as ``GET /mode/{subject}`` shows it."""

    def shown(subject: Subject) -> bytes | None:
        mode = scope.exact_mode(view, subject)
        return None if mode is None else entities.mode_entity(mode)

    return _page(call, view, rows.MODE, "mode", shown)


def _page(
    call: Call, view: View, table: bytes, what: str, shown: Callable[[Subject], bytes | None]
) -> Answer:
    """A page of them by context and subject, behind the one named last."""

    def found() -> Iterator[dict[str, Any]]:
        for key, value in rows.scan(view, table, _behind(table, call.args["after"])):
            subject = rows.scope_of(key, value)
            if (text := shown(subject)) is not None:
                yield {"subject": subject.qualified, what: orjson.Fragment(text)}

    page = islice(found(), limit(call.args, LIST_MAX))
    return Answer(orjson.dumps(list(page)), media_type=_JSON)


def _behind(table: bytes, after: str | None) -> bytes:
    return table if after is None else rows.scope_key(table, Subject.parse(after)) + b"\0"


_PAGE = (
    Parameter("after", "text", "The name that the page before ended with; nothing: the first page"),
    LIMIT,
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
