"""Config, mode and contexts; and all stored configs and modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import orjson

from registry.domain import errors as e
from registry.domain.commands import Command, DeleteConfig, DeleteContext, DeleteMode, PutConfig, PutMode
from registry.domain.errors import NO_SUBJECT_COMPATIBILITY, NO_SUBJECT_MODE, UNPROCESSABLE
from registry.domain.model import TOP, Subject
from registry.domain.queries import entities, scope, versions
from registry.domain.rows import layout
from registry.domain.rows.view import View, scan
from registry.security.gate import Permission

from .answers import Answer
from .bodies import config_patch, mode_request
from .listing import Listing
from .operations import BODY_ERRORS, WRITE_ERRORS, Call, Freshness, Operation
from .paging import page
from .parameters import CONTEXT_PREFIX, DEFAULT_TO_GLOBAL, FORCE, LIST_MAX, PAGE, Parameter, flag
from .past import PAST, PAST_ERRORS
from .permissions import ADMINS, SHOWN, in_handler, on_subject, require, require_alias, require_all


def get_config(call: Call, view: View) -> Answer:
    """``GET /config`` and ``GET /config/{subject}``."""
    if call.args["defaultToGlobal"]:
        return Answer(
            entities.config_entity(scope.config_in_scope(view, call.subject, call.settings.defaults))
        )
    config = scope.exact_config(view, call.subject, call.settings.defaults)
    if config is None:
        raise NO_SUBJECT_COMPATIBILITY(call.subject.qualified)
    return _with_tag(entities.config_entity(config))


def _with_tag(body: bytes) -> Answer:
    """Return an answer with the entity tag on which its scope can be changed."""
    return Answer(body, headers=((b"etag", b'"%s"' % entities.body_tag(body).encode()),))


def put_config(call: Call, view: View) -> Command:
    """``PUT /config`` and ``PUT /config/{subject}``."""
    patch = config_patch(call.body)
    if patch.get("alias"):
        require_alias(call.access, call.subject, Subject.within(call.subject.context, patch["alias"]))
    return PutConfig(_owner(call), patch)


def delete_config(call: Call, view: View) -> Command:
    """``DELETE /config`` and ``DELETE /config/{subject}``."""
    return DeleteConfig(_owner(call))


def get_mode(call: Call, view: View) -> Answer:
    """``GET /mode`` and ``GET /mode/{subject}``."""
    if call.args["defaultToGlobal"]:
        return Answer(entities.mode_entity(scope.mode_in_scope(view, call.subject)))
    mode = scope.exact_mode(view, call.subject)
    if mode is None:
        raise NO_SUBJECT_MODE(call.subject.qualified)
    return _with_tag(entities.mode_entity(mode))


def put_mode(call: Call, view: View) -> Command:
    """``PUT /mode`` and ``PUT /mode/{subject}``. A body without ``mode`` is 422; Confluent answers 500."""
    given, mode = mode_request(call.body)
    if not given:
        raise UNPROCESSABLE("mode must not be missing; null removes it")
    return PutMode(_owner(call), None if mode is None else mode.upper(), mode, call.args["force"])


def delete_mode(call: Call, view: View) -> Command:
    """``DELETE /mode`` and ``DELETE /mode/{subject}``."""
    if call.args["recursive"] and call.subject.is_context:
        require_all(call.access, Permission.MODE, call.subject.context)
    return DeleteMode(_owner(call), call.args["recursive"])


def list_contexts(call: Call, view: View) -> Listing[str]:
    """``GET /contexts``."""
    prefix = call.args["contextPrefix"]

    def walk(view: View, mark: tuple[str] | None) -> Iterator[str | None]:
        return versions.contexts(view, prefix, mark[0] if mark else None)

    return page(call, walk, orjson.dumps, lambda each: (each,), (str,))


def delete_context(call: Call, view: View) -> Command:
    """``DELETE /contexts/{context}``; path rewriting has turned the name into the form ``:.ctx:``."""
    context = Subject(Subject.parse(call.path["context"]).context, "")
    require(call.access, Permission.DELETE, context)
    return DeleteContext(context.context)


def _owner(call: Call) -> str | None:
    return None if call.subject == TOP else call.subject.qualified


# Those who may read a subject also see what is in force for it, but not the settings of its context.
_SEE_CONFIG = (Permission.CONFIG, Permission.ADMIN)
_SEE_MODE = (Permission.MODE, Permission.ADMIN)


def scope_operations(path: str, whose: str) -> tuple[Operation, ...]:
    """Return the operations on config and mode at ``path``, a template for both words."""
    config, mode = path.format("config"), path.format("mode")
    one = "{" in config
    return (
        Operation(
            method="GET",
            path=config,
            tagged=True,
            summary=f"The config of {whose}",
            permission=on_subject(Permission.READ, *_SEE_CONFIG, of_context=_SEE_CONFIG),
            handler=get_config,
            response_schema="Config",
            parameters=(DEFAULT_TO_GLOBAL, *PAST),
            errors=(*((e.NO_SUBJECT_COMPATIBILITY,) if one else ()), *PAST_ERRORS),
        ),
        Operation(
            method="PUT",
            path=config,
            conditional=True,
            summary=f"Change the config of {whose}",
            permission=on_subject(Permission.CONFIG),
            handler=put_config,
            freshness=Freshness.DECIDED,
            request_schema="ConfigUpdateRequest",
            response_schema="ConfigUpdateRequest",
            errors=(
                e.INVALID_COMPATIBILITY,
                e.INVALID_RULE_SET,
                e.INVALID_SUBJECT,
                *WRITE_ERRORS,
                *BODY_ERRORS,
            ),
        ),
        Operation(
            method="DELETE",
            path=config,
            conditional=True,
            summary=f"Remove the config of {whose}",
            permission=on_subject(Permission.CONFIG),
            handler=delete_config,
            freshness=Freshness.DECIDED,
            response_schema="Config",
            errors=(*((e.SUBJECT_NOT_FOUND,) if one else ()), *WRITE_ERRORS),
        ),
        Operation(
            method="GET",
            path=mode,
            tagged=True,
            summary=f"The mode of {whose}",
            permission=on_subject(Permission.READ, *_SEE_MODE, of_context=_SEE_MODE),
            handler=get_mode,
            response_schema="Mode",
            parameters=(DEFAULT_TO_GLOBAL, *PAST),
            errors=(*((e.NO_SUBJECT_MODE,) if one else ()), *PAST_ERRORS),
        ),
        Operation(
            method="PUT",
            path=mode,
            conditional=True,
            summary=f"Set the mode of {whose}",
            permission=on_subject(Permission.MODE),
            handler=put_mode,
            freshness=Freshness.DECIDED,
            request_schema="ModeUpdateRequest",
            response_schema="ModeUpdated",
            parameters=(FORCE,),
            errors=(
                e.INVALID_SUBJECT,
                e.INVALID_MODE,
                e.FORWARD_ONLY_GLOBAL,
                e.REFERENCE_EXISTS,
                e.DATA_NEEDS_VERSION,
                *WRITE_ERRORS,
                *BODY_ERRORS,
            ),
        ),
        Operation(
            method="DELETE",
            path=mode,
            conditional=True,
            summary=f"Remove the mode of {whose}",
            permission=on_subject(Permission.MODE),
            handler=delete_mode,
            freshness=Freshness.DECIDED,
            response_schema="Mode",
            parameters=(flag("recursive", "Include the modes of a context's subjects"),),
            errors=(*((e.SUBJECT_NOT_FOUND,) if one else ()), *WRITE_ERRORS),
        ),
    )


CONTEXT_OPERATIONS = (
    Operation(
        method="GET",
        path="/contexts",
        summary="List the contexts",
        permission=SHOWN,
        handler=list_contexts,
        response_schema="Names",
        parameters=(CONTEXT_PREFIX, *PAGE),
    ),
    Operation(
        method="DELETE",
        path="/contexts/{context}",
        summary="Delete an empty context",
        permission=in_handler(Permission.DELETE),
        handler=delete_context,
        freshness=Freshness.DECIDED,
        status=204,
        errors=(e.CONTEXT_NOT_EMPTY, *WRITE_ERRORS),
    ),
)


# --- All stored configs and modes, so that comparing two registries takes no request for each subject.

Stored = tuple[str, bytes]  # a qualified name, and the JSON of its config or mode


def list_configs(call: Call, view: View) -> Listing[Stored]:
    """``GET /admin/configs``: each as ``GET /config/{subject}`` shows it."""

    def show(view: View, subject: Subject) -> bytes | None:
        config = scope.exact_config(view, subject, call.settings.defaults)
        return None if config is None else entities.config_entity(config)

    return _list_stored(call, layout.CONFIG, "config", show)


def list_modes(call: Call, view: View) -> Listing[Stored]:
    """``GET /admin/modes``: each as ``GET /mode/{subject}`` shows it."""

    def show(view: View, subject: Subject) -> bytes | None:
        mode = scope.exact_mode(view, subject)
        return None if mode is None else entities.mode_entity(mode)

    return _list_stored(call, layout.MODE, "mode", show)


def _list_stored(
    call: Call, table: bytes, what: str, show: Callable[[View, Subject], bytes | None]
) -> Listing[Stored]:
    """Return a page of the rows of a table, by context and subject."""
    named = call.args["after"]

    def walk(view: View, mark: tuple[str] | None) -> Iterator[Stored | None]:
        after = named if mark is None else mark[0]
        begin = table if after is None else layout.scope_key(table, Subject.parse(after)) + b"\0"
        for key, value in scan(view, table, begin):
            subject = layout.scope_of(key, value)
            text = show(view, subject)
            yield None if text is None else (subject.qualified, text)

    def print_item(each: Stored) -> bytes:
        return orjson.dumps({"subject": each[0], what: orjson.Fragment(each[1])})

    return page(call, walk, print_item, lambda each: (each[0],), (str,), limit_max=LIST_MAX)


_STORED_PAGE = (
    Parameter("after", "text", "The last name of the previous page; empty: the first page"),
    *PAGE,
)
STORED_OPERATIONS = tuple(
    Operation(
        method="GET",
        path=f"/admin/{what}",
        summary=f"List the stored {what}",
        permission=ADMINS,
        sees_all=True,
        handler=handler,
        parameters=_STORED_PAGE,
        response_schema=what.capitalize(),
    )
    for what, handler in (("configs", list_configs), ("modes", list_modes))
)
