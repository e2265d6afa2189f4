"""Comparisons in one answer: a schema with a subject at several levels, and two versions or texts.

Each says what several requests would say, with the same permissions and limits, and is sent as it is found.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, Final, NamedTuple

import orjson
from msgspec.structs import replace

from registry.domain import errors as e
from registry.domain.commands import Register
from registry.domain.compatibility.explanation import (
    ExplainOptions,
    ExplainRequest,
    explain,
    explain_version,
)
from registry.domain.log_format.subject_values import LEVELS, USED_LEVELS
from registry.domain.model import Subject
from registry.domain.parsing.querying import Querying
from registry.domain.parsing.schema_queries import Source
from registry.domain.queries import by_subject, entities, versions
from registry.domain.queries.scope import effective_config
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows.view import View
from registry.domain.schemas import FORMATS
from registry.security.gate import Permission

from .answers import Answer, json_answer
from .bodies import schema_members
from .checks import check_all, find_pair, lint_members, wanted_targets
from .json_input import document, required_members
from .operations import (
    BODY_ERRORS,
    VERSION_MISSING,
    Call,
    Computation,
    Member,
    Operation,
    Parts,
    PendingSearch,
)
from .parameters import AGAINST, CONTEXT, DELETED, NORMALIZE, TARGET, flag, split_names, word, words
from .past import PAST, PAST_ERRORS
from .permissions import in_handler, on_subject, require_references, require_resolved
from .timeline import answer_differences

# Versions of another subject that are named.
NUMBERS_MAX: Final = 500
# Characters of two schemas whose fields are compared.
CHARACTERS_MAX: Final = 2 * 1024 * 1024
_NULL: Final = Answer(b"null")


def explain_schema(call: Call, view: View) -> Parts:
    """``POST /compatibility/subjects/{subject}/explain``."""
    in_force = _level_in_force(call, view)
    asked = [name.upper() for name in split_names(call.args["level"])]
    if not {*asked} <= {*LEVELS, *USED_LEVELS}:
        raise e.INVALID_COMPATIBILITY()
    wanted_targets(call.args[TARGET.name])
    return Parts(_verdicts(call, in_force, list(dict.fromkeys(asked or [in_force]))))


def _level_in_force(call: Call, view: View) -> str:
    config = effective_config(view, call.place, call.settings.defaults)
    level = config.compatibility_level or ""
    used = (name for name, stored in USED_LEVELS.items() if stored == level)
    return next(used, level) if config.compatibility_used else level


def _verdicts(call: Call, in_force: str, levels: list[str]) -> Generator[Member, bytes, bytes]:
    verdict = yield Member(b'{"level":%b,"lint":' % orjson.dumps(in_force), partial(_lint, call))
    if not orjson.loads(verdict)["valid"]:
        return b"}"
    head = b',"levels":{'
    for level in levels:
        # Only the level in force falls back to all versions if no census can decide.
        asked = _asking(call, level="" if level == in_force else level, target=())
        yield Member(b'%b"%b":' % (head, level.encode()), partial(check_all, asked))
        head = b","
    if call.args[TARGET.name]:
        tables = _asking(call, level="", target=call.args[TARGET.name])
        yield Member(b'},"tables":', partial(check_all, tables))
        return b"}"
    return b"}}"


def _lint(call: Call, view: View) -> Querying[Answer]:
    """Return what ``POST /schemas/lint`` does without the texts."""
    found = yield from lint_members(call, view, call.subject)
    return json_answer({name: found[name] for name in ("valid", "message", "findings") if name in found})


def _asking(call: Call, **args: Any) -> Call:
    return replace(call, args={**call.args, "verbose": True, **args})


class _Pair(NamedTuple):
    """A version, and the one to compare it with; None: no other is asked for or comes before it."""

    version: Registered
    against: Registered | None
    # Of another subject, the numbers of its newest versions, soft-deleted ones negative.
    numbers: list[int] | None = None


def compare_versions(call: Call, view: View) -> PendingSearch[_Pair]:
    """``GET /subjects/{subject}/versions/{version}/comparison``."""
    number, deleted = by_subject.parse_version(call.path["version"]), call.args["deleted"]
    named, name = call.args["against"], call.args["againstSubject"]
    against = by_subject.parse_version(named) if named else None
    other = require_resolved(call.access, Permission.READ, view, Subject.parse(name)) if name else None

    def search(view: View) -> Search[_Pair]:
        if other is None:
            return _Pair(*(yield from find_pair(view, call.subject, number, against, deleted=deleted)))
        found = yield from by_subject.version_anywhere(view, call.subject, number, deleted=deleted)
        numbers = yield from _newest_numbers(view, other, deleted=deleted)
        return _Pair(found, (yield from _find_other(view, other, against, deleted=deleted)), numbers)

    return PendingSearch(search, lambda _, pair: Parts(_comparison(call, pair)))


def _newest_numbers(view: View, subject: Subject, *, deleted: bool) -> Search[list[int]]:
    yield from by_subject.require(view, subject, deleted=deleted)
    found: list[int] = []
    for each in versions.walk(view, subject, deleted=deleted, newest_first=True):
        yield
        if each is not None:
            found.append(-each.version if each.row.deleted else each.version)
            if len(found) == NUMBERS_MAX:
                break
    return found


def _find_other(view: View, subject: Subject, number: int | None, *, deleted: bool) -> Search[Registered]:
    """Search for a version of another subject; without a number for the latest one."""
    if number is None:
        newest = yield from versions.find_latest(view, subject)
        assert newest is not None
        return newest
    return (yield from by_subject.find_version(view, subject, number, deleted=deleted))


def _comparison(call: Call, pair: _Pair) -> Generator[Member, bytes, bytes]:
    old, new = _sides(call, pair)
    yield Member(b'{"old":', lambda _: _entity(old))
    yield Member(b',"new":', lambda _: _entity(new))
    yield Member(b',"explanation":', lambda view: _explanation(call, view, old, new))
    yield Member(b',"differences":', lambda _: _differences(_source_of(old), _source_of(new)))
    if pair.numbers is None:
        return b"}"
    return b',"versions":%b}' % orjson.dumps(pair.numbers)


def _sides(call: Call, pair: _Pair) -> tuple[Registered | None, Registered | None]:
    """Return the old version and the new one: of one subject the lower number is the old one."""
    version, against, _ = pair
    turned = against is not None and against.subject == version.subject and against.version > version.version
    return (version, against) if turned != call.args["reverse"] else (against, version)


def _entity(found: Registered | None) -> Answer:
    return _NULL if found is None else Answer(entities.schema_entity(found.row))


def _explanation(call: Call, view: View, old: Registered | None, new: Registered | None) -> Computation:
    if old is None or new is None:
        return _NULL
    return _answer(explain_version(view, new, old, ExplainOptions(), strict=call.strict_references))


def _answer(steps: Querying[bytes]) -> Querying[Answer]:
    return Answer((yield from steps))


def _source_of(found: Registered | None) -> Source | None:
    return None if found is None else Source(entities.schema_type(found.row), entities.text(found.row))


def _differences(old: Source | None, new: Source | None) -> Computation:
    if old is None or new is None:
        return _NULL
    if len(old.text) + len(new.text) > CHARACTERS_MAX:
        raise e.UNPROCESSABLE("The schemas are too large to compare their fields")
    return answer_differences(old, new)


def compare_texts(call: Call, view: View) -> Parts:
    """``POST /schemas/comparison``."""
    body = document(call.body)
    context = Subject(Subject.parse(call.args["context"]).context, "")
    old, new = (_side(body, name) for name in ("old", "new"))
    return Parts(_text_comparison(call, old, new, context))


def _side(body: dict[str, Any], name: str) -> Register:
    found = required_members(body.get(name), name)
    side = schema_members({each: found.get(each) for each in ("schema", "schemaType", "references")}, name)
    if side.type_name not in FORMATS:
        raise e.INVALID_SCHEMA(f"Invalid schema type {side.type_name}")
    return side


def _text_comparison(
    call: Call, old: Register, new: Register, context: Subject
) -> Generator[Member, bytes, bytes]:
    def explanation(view: View) -> Computation:
        for each in (old, new):
            require_references(call.access, view, context, each.references or ())
        if old.type_name != new.type_name:
            return _NULL
        return _answer(explain(view, ExplainRequest(old, new, context), ExplainOptions()))

    def differences(_: View) -> Computation:
        return _differences(*(Source(each.type_name, each.schema) for each in (old, new)))

    yield Member(b'{"types":', lambda _: json_answer({"old": old.type_name, "new": new.type_name}))
    yield Member(b',"explanation":', explanation)
    yield Member(b',"differences":', differences)
    return b"}"


OPERATIONS = (
    Operation(
        method="POST",
        path="/compatibility/subjects/{subject}/explain",
        summary="Check a schema for a subject: if it is valid, its lint, and the verdicts of several levels",
        permission=on_subject(Permission.COMPATIBILITY),
        sees_all=True,
        handler=explain_schema,
        request_schema="RegisterSchemaRequest",
        response_schema="SubjectExplained",
        parameters=(
            NORMALIZE,
            words("level", "A level to check at, repeatable; by default the one in force"),
            TARGET,
        ),
        errors=(e.INVALID_COMPATIBILITY, *BODY_ERRORS),
    ),
    Operation(
        method="GET",
        path="/subjects/{subject}/versions/{version}/comparison",
        summary="Compare a version with another one: both texts, fields that differ, verdict at each level",
        permission=on_subject(Permission.READ),
        handler=compare_versions,
        response_schema="VersionComparison",
        parameters=(
            AGAINST,
            word("againstSubject", "The subject of that version; then empty means its latest one"),
            flag("reverse", "Take the new version for the old one"),
            DELETED,
            *PAST,
        ),
        errors=(*VERSION_MISSING, e.UNPROCESSABLE, *PAST_ERRORS),
    ),
    Operation(
        method="POST",
        path="/schemas/comparison",
        summary="Compare two schemas: the fields that differ, and the verdict at each level",
        permission=in_handler(Permission.READ),
        sees_all=True,
        handler=compare_texts,
        request_schema="ComparisonRequest",
        needs_json=True,
        response_schema="Comparison",
        parameters=(CONTEXT,),
        errors=(e.INVALID_SCHEMA, *BODY_ERRORS),
    ),
)
