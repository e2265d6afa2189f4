"""``GET /scopes``: the config and mode in force for a subject, and the scopes that they come from."""

from __future__ import annotations

from typing import Any

import orjson

from registry.domain.errors import DENIED
from registry.domain.model import TOP, Subject
from registry.domain.queries import entities, scope, subject_list
from registry.domain.queries.walks import Search
from registry.domain.rows.view import View
from registry.security.gate import Permission

from .answers import Answer, json_answer
from .operations import Call, Operation, PendingSearch
from .parameters import word
from .permissions import in_handler

# As for GET /config and GET /mode: those who may read a subject also see its own settings.
_OWNERS = {"config": (Permission.CONFIG, Permission.ADMIN), "mode": (Permission.MODE, Permission.ADMIN)}


def get_scopes(call: Call, view: View) -> PendingSearch[dict[Subject, int | None]]:
    """Return what is in force for a subject or context, and what each scope stores that could decide it.

    Of an alias, also for the subject that answers for it.
    """
    asked = Subject.parse(call.args["subject"])
    if not _may_see_both(call, asked):
        raise DENIED("Read", asked.qualified)

    def search(view: View) -> Search[dict[Subject, int | None]]:
        target = scope.resolve_alias(view, asked)
        found = {asked: (yield from _count(call, view, asked))}
        if target != asked and _may_see_both(call, target):
            found[target] = yield from _count(call, view, target)
        return found

    def answer(view: View, found: dict[Subject, int | None]) -> Answer:
        shown, *answering = (_scopes(call, view, *each) for each in found.items())
        return json_answer({**shown, **({"answering": answering[0]} if answering else {})})

    return PendingSearch(search, answer)


def _count(call: Call, view: View, subject: Subject) -> Search[int | None]:
    if subject.is_context or not call.access.may(Permission.READ, subject):
        return None
    live, _ = yield from subject_list.count(view, subject)
    return live


def _scopes(call: Call, view: View, subject: Subject, versions: int | None) -> dict[str, Any]:
    defaults = call.settings.defaults
    found: dict[str, Any] = {
        "subject": subject.qualified,
        "config": orjson.Fragment(entities.config_entity(scope.config_in_scope(view, subject, defaults))),
        "mode": scope.mode_in_scope(view, subject),
        "origins": {
            name: _label(place)
            for name, place in scope.origins(view, subject).items()
            if _may_see_both(call, place)
        },
        "defaultLevel": defaults.compatibility,
        "scopes": [_entity(call, view, each) for each in scope.chain(subject)],
    }
    if versions is not None:
        found["versions"] = versions
    return found


def _may_see_both(call: Call, place: Subject) -> bool:
    return _may_see(call, place, "config") and _may_see(call, place, "mode")


def _may_see(call: Call, subject: Subject, what: str) -> bool:
    readers = () if subject.is_context else (Permission.READ,)
    return any(call.access.may(each, subject) for each in (*readers, *_OWNERS[what]))


def _entity(call: Call, view: View, place: Subject) -> dict[str, Any]:
    found: dict[str, Any] = {"scope": _label(place)}
    if not _may_see_both(call, place):
        return {**found, "hidden": True}
    config, mode = scope.stored_config(view, place), scope.stored_mode(view, place)
    shown = None if config is None else orjson.Fragment(entities.config_entity(config))
    return {**found, "config": shown, "mode": mode, "etags": _etags(call, view, place)}


def _etags(call: Call, view: View, place: Subject) -> dict[str, str | None]:
    """Return the ETags of a scope's own config and mode, as the reads of them have."""
    config = scope.exact_config(view, place, call.settings.defaults)
    mode = scope.exact_mode(view, place)
    bodies = {
        "config": None if config is None else entities.config_entity(config),
        "mode": None if mode is None else entities.mode_entity(mode),
    }
    return {what: None if body is None else f'"{entities.body_tag(body)}"' for what, body in bodies.items()}


def _label(place: Subject) -> str:
    return "" if place == TOP else place.qualified


OPERATIONS = (
    Operation(
        method="GET",
        path="/scopes",
        summary="The effective config and mode of a subject, and the scopes that set them",
        permission=in_handler(Permission.READ),
        sees_all=True,
        handler=get_scopes,
        response_schema="Scopes",
        parameters=(word("subject", "The subject, or a context as :.ctx:; empty: the top level"),),
    ),
)
