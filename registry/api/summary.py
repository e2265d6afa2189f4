"""``GET /subjects/{subject}/summary``: what a subject is, where it is used, and by whom, in one answer.

Each part says shortly what another resource says at length, with the same permissions. None costs more where
a subject has more versions, uses or referrers than it counts: it then says that there are more. What the log
holds of a past moment is also shown as of then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, NamedTuple

from registry.domain import errors as e
from registry.domain.events import Event, encode_event
from registry.domain.history import moment
from registry.domain.log_format import usage as stored_usage
from registry.domain.lookup import usage
from registry.domain.lookup.usage import SubjectUses
from registry.domain.parsing.stored import referrers
from registry.domain.queries import by_subject, entities, lists, scope, subject_list, versions
from registry.domain.queries.subject_list import SubjectDetails
from registry.domain.queries.versions import Registered
from registry.domain.queries.walks import Search
from registry.domain.rows.view import Skip, View
from registry.security.gate import Permission

from .answers import Answer, json_answer
from .askers import askers_members
from .asks import Askers, AskersOf
from .node_queries import ASKERS
from .operations import Call, Computation, Member, Operation, Parts, PendingQuery, PendingSearch
from .parameters import limit, number, split_names, word, words
from .past import PAST, PAST_ERRORS
from .permissions import on_subject, readable
from .version_usage import as_of

# Of each part, what is named; and what is counted: versions that refer to the subject, and versions of it.
LIMIT_MAX: Final = 100
REFERRERS_MAX, VERSIONS_MAX = 1_000, 1_000
NUMBERS_MAX: Final = 10_000
_NULL = Answer(b"null")


def get_summary(call: Call, view: View) -> Parts:
    """Return the parts that the request names, or the usual ones; of the past those that are known."""
    named = {*split_names(call.args["include"])}
    if not named <= _PARTS.keys():
        raise e.UNPROCESSABLE(f"include must be some of {', '.join(_PARTS)}")
    if call.past is None:
        return Parts(_members(call, _in_order(named or _USUAL)))
    if not named <= _OF_THE_PAST:
        raise e.UNPROCESSABLE(f"As of the past, include must be some of {', '.join(_in_order(_OF_THE_PAST))}")
    return Parts(_members(call, _in_order(named or _USUAL & _OF_THE_PAST)))


def _in_order(names: Collection[str]) -> list[str]:
    return [name for name in _PARTS if name in names]


def _members(call: Call, wanted: list[str]) -> Generator[Member, bytes, bytes]:
    yield Member(b'{"subject":', lambda _: _require(call))
    for name in wanted:
        yield Member(b',"%b":' % name.encode(), partial(_PARTS[name], call))
    return b"}"


def _require(call: Call) -> Computation:
    return PendingSearch(
        lambda view: by_subject.require(view, call.subject, deleted=True),
        lambda _, __: json_answer(call.subject.qualified),
    )


def _details(call: Call, _: View) -> Computation:
    def answer(_: View, found: SubjectDetails | None) -> Answer:
        return _NULL if found is None else Answer(found.print_json())

    defaults, past = call.settings.defaults, call.past is not None
    return PendingSearch(
        lambda view: subject_list.find_details(view, call.subject, defaults, past=past), answer
    )


def _numbers(call: Call, _: View) -> Computation:
    def search(view: View) -> Search[list[int]]:
        live, deleted = yield from subject_list.count(view, call.subject)
        found, skip = list[int](), Skip(max(0, live + deleted - NUMBERS_MAX))
        for each in lists.version_numbers(view, call.subject, None, skip, deleted_as_negative=True):
            yield
            if each is not None and not skip.left:
                found.append(each)
            elif each is not None:
                skip.left -= 1
        return found

    return PendingSearch(search, lambda _, found: json_answer(found))


def _config(call: Call, view: View) -> Computation:
    config = scope.config_in_scope(view, call.subject, call.settings.defaults)
    return Answer(entities.config_entity(config))


def _entity(call: Call, _: View) -> Computation:
    name = call.args["version"]
    number = by_subject.parse_version(name) if name else None

    def search(view: View) -> Search[Registered | None]:
        if number is None:
            return (yield from versions.find_latest(view, call.subject))
        return (yield from by_subject.find_version(view, call.subject, number, deleted=True))

    def answer(_: View, found: Registered | None) -> Answer:
        return _NULL if found is None else Answer(entities.schema_entity(found.row))

    return PendingSearch(search, answer)


def _last_change(call: Call, view: View) -> Computation:
    return _event(_changes_around(call, view).last)


def _changes(call: Call, view: View) -> Computation:
    found = _changes_around(call, view)._asdict().items()
    members = (b'"%b":%b' % (name.encode(), _event(each).body) for name, each in found)
    return Answer(b"{%b}" % b",".join(members))


class _Changes(NamedTuple):
    """The last change up to a moment, and those before and after it; None: none, or not known."""

    previous: Event | None = None
    last: Event | None = None
    next: Event | None = None


def _changes_around(call: Call, view: View) -> _Changes:
    """Return the changes around the moment that is asked for. Rows of the past come without their history."""
    past, subject = call.past, call.subject
    with nullcontext(view) if past is None else past.now() as now:
        if not call.settings.history or now.history() is None:
            return _Changes()
        end = None if past is None else past.applied
        older = moment.walk(now, subject, end)
        last, previous = next(older, None), next(older, None)
        newer: Iterator[Event] = iter(())
        if end is not None:
            newer = moment.walk(now, subject, end - 1 if end else None, ascending=True)
        return _Changes(previous, last, next(newer, None))


def _event(found: Event | None) -> Answer:
    return _NULL if found is None else Answer(encode_event(found))


def _usage(call: Call, _: View) -> Computation:
    def answer(view: View, found: SubjectUses) -> Answer:
        uses = [use for each in found.by_source.values() for use in each]
        firsts = [each.first for each in uses if each.first >= 0]
        totals = {source: sum(use.messages for use in each) for source, each in found.by_source.items()}
        most = sorted(totals.items(), key=lambda each: (-each[1], each[0]))[: _most(call)]
        return json_answer(
            {
                "census": as_of(call, stored_usage.census(view)),
                "messages": sum(totals.values()),
                "first": min(firsts, default=-1),
                "last": max((each.last for each in uses), default=-1),
                "exact": all(each.exact for each in uses),
                "sources": [{"source": source, "messages": messages} for source, messages in most],
                "sourceCount": len(totals),
                "complete": found.complete,
            }
        )

    return PendingSearch(lambda view: usage.find_subject_uses(view, call.subject), answer)


def _askers(call: Call, _: View) -> Computation:
    def answer(_: View, found: Askers) -> Answer:
        return json_answer(askers_members(call, found, _most(call), by_version=False))

    return PendingQuery(ASKERS, AskersOf(subject=call.subject.qualified), answer)


class _Referrers(NamedTuple):
    """Versions that refer to one of the subject, each with that, and if these are all."""

    found: list[tuple[Registered, int]]
    complete: bool


def _referrers(call: Call, _: View) -> Computation:
    def search(view: View) -> Search[_Referrers]:
        shown, found = readable(view, call.access), list[tuple[Registered, int]]()
        walk = versions.walk(shown, call.subject, deleted=True, newest_first=True)
        for count, each in enumerate(walk):
            yield
            if count == VERSIONS_MAX:
                return _Referrers(found, complete=False)
            if each is None:
                continue
            for user in referrers(shown, call.subject, each.version):
                yield
                if len(found) == REFERRERS_MAX:
                    return _Referrers(found, complete=False)
                found.append((user, each.version))
        return _Referrers(found, complete=True)

    def answer(_: View, each: _Referrers) -> Answer:
        named = [_referrer(*pair) for pair in each.found[: _most(call)]]
        return json_answer({"referrers": named, "referrerCount": len(each.found), "complete": each.complete})

    return PendingSearch(search, answer)


def _referrer(user: Registered, used: int) -> dict[str, Any]:
    place = {"subject": user.subject.qualified, "version": user.version}
    return {**place, "deleted": user.row.deleted, "to": used}


def _most(call: Call) -> int:
    return limit(call.args, LIMIT_MAX)


_PARTS: Final[dict[str, Callable[[Call, View], Computation]]] = {
    "details": _details,
    "numbers": _numbers,
    "config": _config,
    "entity": _entity,
    "lastChange": _last_change,
    "changes": _changes,
    "usage": _usage,
    "referrers": _referrers,
    "askers": _askers,
}
_USUAL: Final = frozenset({"details", "lastChange", "usage", "referrers", "askers"})
# The others are indexes and counts of the present.
_OF_THE_PAST: Final = frozenset({"details", "numbers", "config", "entity", "lastChange", "changes"})

OPERATIONS = (
    Operation(
        method="GET",
        path="/subjects/{subject}/summary",
        summary="A subject in short: its latest version, level and mode, last change, use, askers, referrers",
        permission=on_subject(Permission.READ),
        sees_all=True,
        handler=get_summary,
        response_schema="SubjectSummary",
        parameters=(
            words(
                "include",
                f"Only these parts: {', '.join(_PARTS)}; by default {', '.join(_in_order(_USUAL))}. "
                f"As of the past there are {', '.join(_in_order(_OF_THE_PAST))}",
            ),
            word("version", "The version that entity shows; empty: the latest one"),
            number("limit", f"Maximum number of names in a part, at most {LIMIT_MAX}", 5),
            *PAST,
        ),
        errors=(e.SUBJECT_NOT_FOUND, e.UNPROCESSABLE, *PAST_ERRORS),
    ),
)
