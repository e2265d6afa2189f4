"""Config, mode and contexts."""

from __future__ import annotations

from registry.domain import entities, queries, scope
from registry.domain.commands import Command, DeleteConfig, DeleteContext, DeleteMode, PutConfig, PutMode
from registry.domain.errors import NO_SUBJECT_COMPATIBILITY, NO_SUBJECT_MODE, UNPROCESSABLE
from registry.domain.model import TOP, Subject
from registry.domain.rows import View

from .answers import Answer, json_answer
from .bodies import config_patch, mode_request
from .operations import Call
from .parameters import page


def get_config(call: Call, view: View) -> Answer:
    """``GET /config`` and ``GET /config/{subject}``."""
    if call.args["defaultToGlobal"]:
        return Answer(
            entities.config_entity(scope.config_in_scope(view, call.subject, call.settings.defaults))
        )
    config = scope.exact_config(view, call.subject, call.settings.defaults)
    if config is None:
        raise NO_SUBJECT_COMPATIBILITY(call.subject.qualified)
    return Answer(entities.config_entity(config))


def put_config(call: Call, view: View) -> Command:
    """``PUT /config`` and ``PUT /config/{subject}``."""
    return PutConfig(_owner(call), config_patch(call.body))


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
    return Answer(entities.mode_entity(mode))


def put_mode(call: Call, view: View) -> Command:
    """``PUT /mode`` and ``PUT /mode/{subject}``. A body without ``mode`` is 422, where Confluent answers 500."""
    given, mode = mode_request(call.body)
    if not given:
        raise UNPROCESSABLE("mode must not be missing; null removes it")
    return PutMode(_owner(call), None if mode is None else mode.upper(), mode, call.args["force"])


def delete_mode(call: Call, view: View) -> Command:
    """``DELETE /mode`` and ``DELETE /mode/{subject}``."""
    return DeleteMode(_owner(call), call.args["recursive"])


def list_contexts(call: Call, view: View) -> Answer:
    """``GET /contexts``."""
    return json_answer(queries.contexts(view, call.args["contextPrefix"])[page(call.args)])


def delete_context(call: Call, view: View) -> Command:
    """``DELETE /contexts/{context}``; the path's rewriting has brought the name into the form ``:.ctx:``."""
    return DeleteContext(Subject.parse(call.path["context"]).context)


def _owner(call: Call) -> str | None:
    return None if call.subject == TOP else call.subject.qualified
