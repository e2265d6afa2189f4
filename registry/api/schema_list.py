"""The list of all schemas, and of the types of schemas."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import orjson

from registry.domain.model import Subject
from registry.domain.queries import association_entities, entities, lists
from registry.domain.queries.association_rules import AssociationRules
from registry.domain.queries.lists import Listed
from registry.domain.queries.versions import Registered
from registry.domain.rows.view import Skip, View
from registry.domain.schemas import FORMATS

from .answers import Answer, json_answer
from .listing import Listing
from .operations import Call, Freshness, Operation
from .paging import page
from .parameters import ASSOCIATED, DELETED, LIST_MAX, PAGE, associated, flag, word
from .permissions import OPEN, SHOWN


def list_schemas(call: Call, view: View) -> Listing[Listed]:
    """``GET /schemas``."""
    args = call.args
    chosen = lists.Schemas(
        args["subjectPrefix"],
        args["deleted"],
        args["latestOnly"],
        args["ruleType"],
        args["aliases"],
        associated(args),
    )

    def walk(view: View, mark: tuple[str, int] | None, skip: Skip | None = None) -> Iterator[Listed | None]:
        return chosen.walk(view, (Subject.parse(mark[0]), mark[1]) if mark else None, skip)

    printed = partial(_print_item, rules=call.settings.defaults.association_rules)
    return page(
        call,
        walk,
        printed,
        lambda each: _version_mark(each.found),
        (str, int),
        limit_max=LIST_MAX,
        skipping=walk,
    )


def _print_item(each: Listed, rules: AssociationRules) -> bytes:
    aliases = b',"aliases":' + orjson.dumps(each.aliases) if each.aliases else b""
    tail = aliases + association_entities.tail_of(each.associations, rules)
    return entities.schema_entity(each.found.row, tail=tail)


def _version_mark(found: Registered) -> tuple[str, int]:
    return found.subject.qualified, found.version


def list_types(call: Call, view: View) -> Answer:
    """``GET /schemas/types``: the formats that can be registered."""
    return json_answer([*FORMATS])


OPERATIONS = (
    Operation(
        method="GET",
        path="/schemas",
        summary="List schemas by subject and version",
        permission=SHOWN,
        handler=list_schemas,
        response_schema="Schemas",
        parameters=(
            word("subjectPrefix", "Prefix of the qualified name; empty: the default context"),
            flag("aliases", "Include the subjects that aliases refer to"),
            DELETED,
            flag("latestOnly", "Only the latest version of each subject"),
            word("ruleType", "Only schemas with a rule of this type"),
            *ASSOCIATED,
            *PAGE,
        ),
    ),
    Operation(
        method="GET",
        path="/schemas/types",
        summary="The schema types that can be registered",
        permission=OPEN,
        handler=list_types,
        response_schema="Names",
        freshness=Freshness.NEVER,
    ),
)
