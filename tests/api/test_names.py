"""All operations, at each place where a name can stand, with names that a principal may not use."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import orjson
import pytest

from registry.api.backend import ApiSettings, Slicing
from registry.api.routes import document, operations
from registry.domain.decide.ids import Ids
from registry.domain.fold.fold import apply
from registry.domain.log_format.records import Record
from registry.security.authorization.rules import ROLES
from tests.api import naming
from tests.api.associating import FORMER
from tests.api.driver import Reply
from tests.api.naming import ALIASES, DEEP, HELD, OTHER, OTHER_ID, OTHER_VERSION, Case, Found, Request
from tests.api.permitting import PermittingApi, rule


async def metrics() -> bytes:
    return b""


TABLE = operations("1", metrics)
COMPONENTS = document(TABLE, "1")["components"]["schemas"]
# Principals that may do this to ``own-*``, and one that may write everywhere, but read nothing.
LIMITED = (*ROLES, "writer", "nobody")
WRITER = "writer-of-all"
CASES = [
    Case(each, place, name)
    for each in TABLE
    for place in naming.places(each, COMPONENTS)
    for name in naming.NAMES.get(place, ())
    if not place.startswith("query at") or "{subject}" in each.path
    # tests/api/test_search.py asks with an index, which is not kept here.
    if each.path != "/search"
]
# Where an answer does not depend on the name even for root, by what such cases begin with: why.
SILENT = {
    "GET /subjects query subject=own-": "names are listed as they are",
    "GET /schemas/ids/{id}/subjects query subject=other-value": "only its context counts",
    "GET /mode/{subject} path subject=own-": "an alias has a mode of its own",
    "GET /mode/{subject} query at": "an alias has a mode of its own",
    "PUT /mode/{subject} path subject=own-": "an alias has a mode of its own",
    "DELETE /mode/{subject} path subject=own-": "an alias has a mode of its own",
    "GET /me query subject=": "the same permissions for all names",
    "POST /schemas/lint query subject=": "there are no rules",
    "GET /associations/subjects/{subject} path subject=o": "it has no associations",
    "GET /associations/subjects/{subject} path subject=:.hidden": "it has no associations",
    "POST /associations body resourceName": "a resource is found by its id",
    "POST /associations body resourceNamespace=ns-": "a resource is found by its id",
    "PUT /associations/resources/{resource} body resourceName": "a resource is found by its id",
    "PUT /associations/resources/{resource} body resourceNamespace=ns-": "a resource is found by its id",
    "POST /associations:batchMutate body requests.resourceName": "a resource is found by its id",
    "POST /associations:batchMutate body requests.resourceNamespace=ns-": "a resource is found by its id",
    "POST /associations:batchGet body requests.resourceNamespace=hidden": "there is no such resource",
    "GET /subjects/{subject}/versions/{version}/referencedby query cursor": "nothing refers to it",
    "GET /quarantine query cursor": "for administrators",
    "PUT /admin/webhooks/{webhook} body subjectPrefix": "for administrators",
    "GET /admin/duplicates query subjectPrefix": "for administrators",
    "GET /admin/audit query": "for administrators",
    "GET /usage/sources query cursor": "for administrators",
    "GET /usage/unknown query cursor": "for administrators",
    "GET /usage/schemas/{id}/askers": "for administrators, and of ids that nobody knows too",
    "GET /changes query after": "no offset",
    "GET /schemas/lookup query after": "no context comes after it",
}


def test_every_place_in_a_request_is_known_to_hold_a_name_or_none() -> None:
    """A new route with a parameter that is in neither table of ``naming`` ends here."""
    found = {place for each in TABLE for place in naming.places(each, COMPONENTS)}
    assert {each for each in found if each not in naming.NAMES and not naming.is_nameless(each)} == set()
    assert set(naming.NAMES) <= found


@cache
def filled() -> tuple[tuple[Record, ...], Found]:
    """Return the records of a registry, and what stands in it."""
    with PermittingApi("") as api:
        api.put("/config", {"compatibility": "NONE"})
        api.register("own-value", naming.OWN)
        for name in (OTHER, HELD, DEEP):
            api.put(f"/mode/{name}", {"mode": "IMPORT"})
            api.register(name, naming.SECRET, id=OTHER_ID, version=OTHER_VERSION)
            api.put(f"/mode/{name}", {"mode": "READWRITE"})
            api.put(f"/config/{name}", {"compatibility": "NONE", "compatibilityGroup": "secret-group"})
        for name, subject, kinds in (("hid", HELD, ("key", "value")), ("own", "own-value", ("key",))):
            named = {"resourceName": f"res-{name}", "resourceNamespace": f"ns-{name}"}
            wanted = [{"subject": subject, "associationType": each} for each in kinds]
            body = {**named, "resourceId": f"id-{name}", "associations": wanted}
            assert api.post("/associations", body).status == 200
        alias, deep, former = ALIASES
        for each, target in ((alias, OTHER), (deep, DEEP), (former, OTHER), (former, "own-value")):
            assert api.put(f"/config/{each}", {"alias": target}).status == 200
        guid = api.get(f"/subjects/{OTHER}/versions/latest").json["guid"]
        return tuple(api.backend.log), Found(guid, len(api.backend.log) - 2, "")


@pytest.fixture(scope="module")
def api() -> Iterator[PermittingApi]:
    # The rules of 8.4 refuse most associations before their schemas are looked at.
    yield from serve(FORMER)


def serve(settings: ApiSettings) -> Iterator[PermittingApi]:
    own = ("own-*", ":.ns-own:*")
    rules = [rule(role, role, *own) for role in ROLES]
    rules += [rule("writer", "write", *own), rule(WRITER, "write", "*")]
    with PermittingApi("".join(rules), settings) as found:
        yield found


def send(api: PermittingApi, request: Request, user: str = "root") -> Reply:
    """Send a request to the registry as it was at first."""
    backend, records = api.backend, filled()[0]
    if len(backend.log) != len(records) or not backend.log:
        backend.rows, backend.log, backend.ids = type(backend.rows)(backend), [*records], Ids()
        for each in records:
            backend.rows.commit(apply(backend.rows, each))
    headers = {} if request.body is None else {"content-type": "application/json"}
    return api.request(request.method, request.target, request.body, headers, user=user)


def asked(api: PermittingApi, case: Case) -> list[Request]:
    """Return the requests of a case; a cursor leads behind root's first page."""
    found = filled()[1]
    if case.name == "CURSOR":
        found = found._replace(cursor=cursor_of(send(api, naming.requests(case, found)[0])))
    return naming.requests(case, found)


def following(reply: Reply) -> str:
    """Return the target of the next page, empty for the last one."""
    link = re.match(r"<([^>]*)>", reply.headers.get("link", ""))
    return link[1] if link else ""


def cursor_of(reply: Reply) -> str:
    return parse_qs(urlsplit(following(reply)).query).get("cursor", [""])[0]


def mark_of(target: str) -> list[Any]:
    """Return the position that a target's cursor names."""
    cursor = parse_qs(urlsplit(target).query).get("cursor", [""])[0]
    if not cursor:
        return []
    _, _, mark = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    return mark or []


def seen(request: Request, reply: Reply) -> set[bytes]:
    """Return what an answer shows of the other subjects that the request did not say itself.

    A page that is cut before its first item leads to the position from which the request began.
    """
    said = request.target.encode() + orjson.dumps(request.body)
    mark = mark_of(following(reply))
    text = reply.body
    if mark != mark_of(request.target):
        places = (bytes.fromhex(each) for each in mark if re.fullmatch("(?:[0-9a-f]{2}){8,}", str(each)))
        text += b" ".join((orjson.dumps(mark), *places))
    marks = {
        b"salary", b"secret-group", b"%d" % OTHER_ID, b"%d" % OTHER_VERSION, filled()[1].guid.encode(),
        b"other-", b".hidden", b"-hid",
    }  # fmt: skip
    return {each for each in marks if each in text and each.lstrip(b".") not in said}


def leaked(case: Case, request: Request, reply: Reply, user: str) -> set[bytes]:
    """Return what an answer shows that the principal may not see."""
    found = seen(request, reply)
    if user == WRITER:
        return found & {b"salary", b"secret-group"}  # what readers alone may see
    if case.operation.path in ("/config/{subject}", "/scopes") and case.name in ALIASES:
        return found - {b"other-", b".hidden"}  # the config of an alias names its target
    return found


def changed(api: PermittingApi) -> list[bytes]:
    """Return the keys of new records that concern the other subjects, or that name them unlike before."""
    records, marks = filled()[0], (b"other-", b".hidden")
    former = {each.key: each.value or b"" for each in records}
    found = []
    for _, _, key, value, *_ in api.backend.log[len(records) :]:
        named = [mark for mark in marks if mark in (value or b"")]
        if any(mark in key for mark in marks) or any(mark not in former.get(key, b"") for mark in named):
            found.append(key)
    return found


def depends(api: PermittingApi, case: Case, request: Request) -> bool:
    """Return true if the request shows or changes something, or if a name of nothing has another answer."""
    reply = send(api, request)
    if seen(request, reply) or changed(api):
        return True
    old, new = case.name, naming.absent(case.name)
    target = request.target.replace(quote(old, safe=""), quote(new, safe=""))
    body = orjson.loads(orjson.dumps(request.body).replace(old.encode(), new.encode()))
    without = send(api, Request(request.method, target, body))
    return (without.status, without.body.replace(new.encode(), old.encode())) != (reply.status, reply.body)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_name_that_is_not_permitted_shows_and_changes_nothing_at_any_place(
    api: PermittingApi, case: Case
) -> None:
    for request in asked(api, case):
        for user in (*LIMITED, WRITER):
            reply = send(api, request, user)
            assert reply.status < 500, (user, request)
            assert leaked(case, request, reply, user) == set(), (user, request, reply)
            assert user == WRITER or changed(api) == [], (user, request, reply)


@pytest.fixture(scope="module")
def row_by_row() -> Iterator[PermittingApi]:
    """The same with pages that are cut after each row, so that their cursors are made before their ends."""
    yield from serve(replace(FORMER, slicing=Slicing(slice_s=0, slice_bytes=1, first_s=0, first_bytes=1)))


@pytest.mark.parametrize("case", [each for each in CASES if each.name == "CURSOR"], ids=str)
def test_no_page_leads_to_a_name_that_is_not_permitted(row_by_row: PermittingApi, case: Case) -> None:
    """Neither where it is cut by time, nor because root has read to that position of the list before."""
    limited = naming.requests(case._replace(place="query limit", name="1"), filled()[1])[0]
    for begin in ("", "&offset=1", "&offset=2"):
        for user in ("root", *LIMITED):
            request, target = limited, limited.target + begin
            while target:
                request = request._replace(target=target)
                reply = send(row_by_row, request, user)
                assert user == "root" or leaked(case, request, reply, user) == set(), (user, request, reply)
                target = following(reply)


def test_root_reaches_the_subjects_by_their_names_at_all_places(api: PermittingApi) -> None:
    """Otherwise the test above proves nothing about a place."""
    silent = [
        str(case) for case in CASES if not any(depends(api, case, request) for request in asked(api, case))
    ]
    assert [each for each in silent if not each.startswith(tuple(SILENT))] == []
    assert [each for each in SILENT if not any(case.startswith(each) for case in silent)] == []
