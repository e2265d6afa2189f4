"""``/usage``: the census, and what it found in each source. Only the job that ran the census writes these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import orjson

from registry.domain import errors as e
from registry.domain.commands import Command, DeleteUsage, PutCensus, PutUsage
from registry.domain.log_format import usage
from registry.domain.log_format.usage import Usage
from registry.domain.rows.view import View
from registry.security.gate import Permission

from .answers import Answer, Header
from .json_input import document
from .listing import Listing
from .operations import BODY_ERRORS, WRITE_ERRORS, Call, Freshness, Operation, PendingSearch, RowHandler
from .paging import page
from .parameters import PAGE, number
from .permissions import ADMINS, SHOWN
from .version_usage import EXAMINED_MAX, find_unused

# Subjects with unused versions that one answer names.
UNUSED_MAX = 100
# Sources in one page; each has up to :data:`.usage.USES_MAX` uses.
SOURCES_MAX = 100
_CENSUS, _SOURCES = "/usage/census", "/usage/sources"
_SOURCE = f"{_SOURCES}/{{source}}"
_NO_STORE: tuple[Header, ...] = ((b"cache-control", b"no-store"),)
# Of a census, only for administrators: where files lie, and names of topics.
_PLACES = ("location", "sha256", "patterns")


def get_census(call: Call, view: View) -> Answer | PendingSearch[dict[str, Any]]:
    """``GET /usage/census``: 404 before the first one."""
    found = usage.census(view)
    if found is None:
        raise e.CENSUS_NOT_FOUND()
    members = usage.members(found)
    if not call.access.everywhere(Permission.ADMIN):
        members = {name: value for name, value in members.items() if name not in _PLACES}
    most = min(call.args["unused"], UNUSED_MAX)
    if most <= 0 or not found.complete:
        return _answer(members)
    return PendingSearch(
        lambda view: find_unused(view, call.access, most), lambda _, unused: _answer({**members, **unused})
    )


def _answer(members: dict[str, Any]) -> Answer:
    return Answer(msgspec.json.encode(members), headers=_NO_STORE)


def put_census(call: Call, view: View) -> Command:
    """``PUT /usage/census``, after the usage of all its sources."""
    return PutCensus(orjson.dumps(document(call.body)))


def list_sources(call: Call, view: View) -> Listing[Usage]:
    """``GET /usage/sources``: in the order of their names, with all uses."""

    def walk(view: View, mark: tuple[str] | None) -> Iterator[Usage]:
        return usage.sources(view, mark[0] if mark else "")

    return page(call, walk, _print_source, lambda each: (each.source,), (str,), limit_max=SOURCES_MAX)


def get_source(call: Call, view: View) -> Answer:
    """``GET /usage/sources/{source}``."""
    found = usage.source(view, call.path["source"])
    if found is None:
        raise e.SOURCE_NOT_FOUND(call.path["source"])
    return Answer(_print_source(found), headers=_NO_STORE)


def put_source(call: Call, view: View) -> Command:
    """``PUT /usage/sources/{source}``."""
    return PutUsage(call.path["source"], orjson.dumps(document(call.body)))


def delete_source(call: Call, view: View) -> Command:
    """``DELETE /usage/sources/{source}``."""
    return DeleteUsage(call.path["source"])


def _print_source(each: Usage) -> bytes:
    return msgspec.json.encode(usage.members(each))


def _read(path: str, summary: str, handler: RowHandler, schema: str, **more: Any) -> Operation:
    return Operation(
        method="GET",
        path=path,
        summary=summary,
        handler=handler,
        response_schema=schema,
        sees_all=True,
        **more,
    )


def _write(method: str, path: str, summary: str, handler: RowHandler, **more: Any) -> Operation:
    return Operation(
        method=method, path=path, summary=summary, handler=handler, permission=ADMINS,
        freshness=Freshness.NEVER, status=204, **more,
    )  # fmt: skip


UNUSED = number(
    "unused",
    f"Name up to so many subjects (at most {UNUSED_MAX}) with unused versions, among the first "
    f"{EXAMINED_MAX} by name",
    0,
)

OPERATIONS = (
    _read(
        _CENSUS, "The newest census of the data: when it ran, and whether it is complete", get_census,
        "NewestCensus", permission=SHOWN, errors=(e.CENSUS_NOT_FOUND,), parameters=(UNUSED,),
    ),
    _write(
        "PUT", _CENSUS, "Publish a census, after the usage of its sources", put_census,
        request_schema="Census", errors=(e.INVALID_USAGE, *BODY_ERRORS, *WRITE_ERRORS),
    ),
    _read(
        _SOURCES, "List the sources of the census and the schemas that they use", list_sources,
        "Usages", permission=ADMINS, parameters=PAGE, errors=(e.UNPROCESSABLE,),
    ),
    _read(
        _SOURCE, "The schemas that one source uses", get_source,
        "Usage", permission=ADMINS, errors=(e.SOURCE_NOT_FOUND,),
    ),
    _write(
        "PUT", _SOURCE, "Publish the schemas that a source uses", put_source,
        request_schema="Usage", errors=(e.INVALID_USAGE, *BODY_ERRORS, *WRITE_ERRORS),
    ),
    _write(
        "DELETE", _SOURCE, "Remove a source that no longer exists", delete_source,
        errors=(e.SOURCE_NOT_FOUND, *WRITE_ERRORS),
    ),
)  # fmt: skip
