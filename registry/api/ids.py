"""The use of schema ids in each context, and releases of reserved ids."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from registry.domain import errors as e
from registry.domain.commands import Command, ReleaseIds
from registry.domain.decide.decision import check_subject
from registry.domain.model import DEFAULT_CONTEXT, ID_MAX, Subject
from registry.domain.queries import versions
from registry.domain.queries.id_space import IdUsage, id_space, id_usage
from registry.domain.rows.view import View

from .json_input import document, integer, text
from .listing import Listing
from .operations import BODY_ERRORS, WRITE_ERRORS, Call, Freshness, Operation
from .paging import page
from .parameters import CONTEXT_PREFIX, PAGE
from .permissions import ADMINS

PATH = "/admin/ids"


def list_usage(call: Call, view: View) -> Listing[IdUsage]:
    """``GET /admin/ids``: by context, the default one first."""
    prefix = call.args["contextPrefix"]

    def walk(view: View, mark: tuple[str] | None) -> Iterator[IdUsage | None]:
        for context in versions.contexts(view, prefix, mark[0] if mark else None):
            yield None if context is None else id_usage(view, context, id_space(view, context))

    return page(call, walk, msgspec.json.encode, lambda each: (each.context,), (str,))


def release(call: Call, view: View) -> Command:
    """``POST /admin/ids/release``. Raises 422, and 42208 for names that no context can have."""
    body = document(call.body)
    context = text(body.get("context"), "context") or DEFAULT_CONTEXT
    if not context.startswith(".") or ":" in context:
        raise e.UNPROCESSABLE("context must be a context's name, which starts with a dot")
    check_subject(Subject(context, ""), context)
    first, last = integer(body.get("from"), "from"), integer(body.get("to"), "to")
    last = ID_MAX if last is None else last
    if first is None or not 1 <= first <= last <= ID_MAX:
        raise e.UNPROCESSABLE(f"from and to must be ids, 1 <= from <= to <= {ID_MAX}")
    return ReleaseIds(context, first, last)


OPERATIONS = (
    Operation(
        method="GET",
        path=PATH,
        summary="The use of ids in each context",
        permission=ADMINS,
        sees_all=True,
        handler=list_usage,
        response_schema="IdUsages",
        parameters=(CONTEXT_PREFIX, *PAGE),
    ),
    Operation(
        method="POST",
        path=f"{PATH}/release",
        summary="Release reserved ids that no version has, for use by new schemas",
        permission=ADMINS,
        handler=release,
        freshness=Freshness.NEVER,
        request_schema="IdRelease",
        response_schema="IdUsage",
        errors=(e.ID_IN_USE, e.INVALID_SUBJECT, *WRITE_ERRORS, *BODY_ERRORS),
    ),
)
