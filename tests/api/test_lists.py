"""Pages of lists: joined, they are the whole list, by cursor and by offset, whatever is written meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.types import Message

from registry.api.app import create_app
from registry.api.backend import ApiSettings, Slicing
from registry.api.listing import STEP, Cursor, PositionCache
from registry.api.parameters import CURSOR
from registry.domain.log_format.records import clear_subject_key, config_key, context_key, schema_key
from registry.domain.log_format.subject_values import config_value
from registry.domain.log_format.values import clear_subject_value, schema_value
from registry.domain.model import Subject
from registry.domain.rows.memory_views import DictView
from registry.domain.rows.view import View
from registry.store.create import NewStore, Origin
from registry.store.layout import State
from registry.store.lmdb import Store
from tests.api.driver import Api, ListBackend, Reply, record
from tests.api.test_usage import CENSUS

AT_ONCE = Slicing(slice_s=1, first_s=1)
ROW_BY_ROW = Slicing(slice_s=0, slice_bytes=1, first_s=0, first_bytes=1)
# What a client may put into a cursor in place of its members.
FORGED: dict[type, list[Any]] = {
    str: ["", "zz", "0", "é", "\0", ":", ":.c", ":*:", "s\0\uffff", "ff" * 2000, "s" * 2000],
    int: [0, -1, 2**31, 2**32, -(2**63), 2**63 - 1, 2**63, 2**64 - 1, 10**40, -(10**40)],
}
LISTS = [
    "/subjects?subjectPrefix=:*:",
    "/subjects?deleted=true",
    "/subjects?deletedOnly=true&subjectPrefix=:*:",
    "/subjects?subjectPrefix=:.c",
    "/subjects?subjectPrefix=:*:s1",
    "/subjects?lifecycle=NONE",
    "/subjects?lifecycle=WEAK&associationType=value",
    "/subjects?detail=true",
    "/subjects?detail=true&deleted=true&subjectPrefix=:*:",
    "/subjects?detail=true&compatibilityLevel=NONE&schemaType=AVRO",
    "/subjects?compatibilityLevel=NONE&sort=-id",
    "/subjects?mode=readwrite&schemaType=AVRO&sort=-name",
    "/subjects?mode=READWRITE&compatibilityLevel=BACKWARD&subjectPrefix=:*:&deleted=true",
    "/subjects?sort=-name",
    "/subjects?sort=-name&deleted=true&subjectPrefix=:*:s",
    "/subjects?sort=id&subjectPrefix=:*:",
    "/subjects?sort=-id&deleted=true",
    "/subjects?sort=-id&deletedOnly=true&detail=true",
    "/subjects?detail=true&sort=-id&schemaType=AVRO",
    "/subjects?detail=true&sort=id",
    "/contexts/.c/subjects?sort=-id",
    "/contexts/.c/subjects",
    "/contexts/.c/subjects?detail=true",
    "/schemas?subjectPrefix=:*:",
    "/schemas?deleted=true",
    "/schemas?latestOnly=true&deleted=true",
    "/schemas?ruleType=CEL",
    "/schemas?aliases=true",
    "/schemas?aliases=true&subjectPrefix=alias",
    "/schemas?resourceType=topic",
    "/schemas/ids/1/subjects",
    "/schemas/ids/1/subjects?deleted=true",
    "/schemas/ids/1/versions?subject=s1",
    "/subjects/s1/versions",
    "/subjects/s1/versions?deleted=true",
    "/subjects/s1/versions?deletedOnly=true",
    "/subjects/s1/versions?deletedAsNegative=true",
    "/subjects/base/versions/1/referencedby",
    "/subjects/base/versions/1/referencedby?deleted=true",
    "/contexts",
    "/contexts?contextPrefix=.c",
    "/associations/subjects/s2",
    "/associations/resources/id-t1",
    "/associations/resources/-/-",
    "/associations/resources/-/t1?associationType=value",
    "/admin/configs",
    "/admin/modes",
    "/admin/ids",
    "/admin/ids?contextPrefix=.c",
    "/quarantine",
    "/quarantine?clashes=true",
]
# Also those whose answer is an object.
PAGED = [
    *(*LISTS, "/subjects/s1/history", "/subjects/s1/history?order=asc", "/subjects/:.c:/history"),
    *("/usage/sources", "/usage/unknown", "/usage/subjects"),
]


def api_with(slicing: Slicing, backend: ListBackend | None = None) -> Api:
    settings = ApiSettings(slicing=slicing)
    return Api(backend or ListBackend(settings), settings)


@pytest.fixture(scope="module")
def filled() -> Iterator[Api]:
    """Create some of everything that can be listed."""
    with api_with(AT_ONCE) as api:
        api.put("/config", {"compatibility": "NONE"})
        api.register("s1", '"string"')
        for name in ("s2", "s3", "s4", ":.c:s1", ":.c-d:s1", "gone"):
            api.register(name, '"string"')
        for number in range(4):
            api.register("s1", record("R", *"abcd"[:number]))
        api.register(
            "s3", '"int"', ruleSet={"domainRules": [{"name": "r", "type": "CEL", "kind": "CONDITION"}]}
        )
        api.register("base", record("Base"))
        for number in range(5):
            text = orjson.dumps(
                {"type": "record", "name": f"U{number}", "fields": [{"name": "f", "type": "Base"}]}
            )
            references = [{"name": "Base", "subject": "base", "version": 1}]
            api.register(f"user{number}", text.decode(), references=references)
        for gone in ("gone", "user3", "s1/versions/2", "s1/versions/4"):
            assert api.delete(f"/subjects/{gone}").status == 200
        for number, subject in enumerate(("s1", "s2", ":.c:s1")):
            assert api.put(f"/config/alias{number}", {"alias": subject}).status == 200
            assert api.put(f"/mode/s{number}", {"mode": "READWRITE"}).status == 200
        for number in range(5):
            body = {
                "resourceName": f"t{number % 3}", "resourceNamespace": f"n{number}",
                "resourceId": f"id-t{number}", "resourceType": "topic",
                "associations": [
                    {"subject": "s2", "associationType": "value", "lifecycle": "WEAK"},
                    {"subject": "s3", "associationType": "key", "lifecycle": "WEAK"},
                ],
            }  # fmt: skip
            reply = api.post("/associations", body)
            assert reply.status == 200, reply.body
        for number in range(3):
            subject = Subject.parse(f"foreign{number}")
            api.backend.append(schema_key(subject, 1), schema_value(subject, 1, 1, f'"f{number}"'))
            api.backend.append(b'{"keytype":"SCHEMA","subject":"bad%d","version":1,"magic":1}' % number, b"{")
        used = {"census": CENSUS["id"], "state": "read", "ms": 9, "messages": 4}
        for number in range(3):
            uses = [["value", "id", each, 3, 60, 5, 7, True] for each in (1, 2, 900 + number)]
            source = {**used, "uses": uses}
            assert api.put(f"/usage/sources/t{number}", source, content_type="application/json").status == 204
        census = {**CENSUS, "sources": 3}
        assert api.put("/usage/census", census, content_type="application/json").status == 204
        yield api


def paged(target: str, **args: Any) -> str:
    given = "&".join(f"{name}={value}" for name, value in args.items())
    return f"{target}{'&' if '?' in target else '?'}{given}"


def successor(reply: Reply) -> str | None:
    if "link" not in reply.headers:
        return None
    found = re.fullmatch(r'<([^>]+)>; rel="next"', reply.headers["link"])
    assert found is not None
    return found[1]


def by_cursor(api: Api, target: str, limit: int) -> Iterator[list[Any]]:
    following: str | None = paged(target, limit=limit)
    while following is not None:
        reply = api.get(following)
        assert reply.status == 200, reply.body
        assert len(reply.json) <= limit
        yield reply.json
        following = successor(reply)


def by_offset(api: Api, target: str, limit: int) -> Iterator[list[Any]]:
    pages = (api.get(paged(target, limit=limit, offset=offset)).json for offset in count(0, limit))
    return takewhile(bool, pages)


@pytest.mark.parametrize("slicing", [AT_ONCE, ROW_BY_ROW], ids=["at once", "row by row"])
@pytest.mark.parametrize("target", LISTS)
def test_pages_joined_are_the_whole_list(filled: Api, target: str, slicing: Slicing) -> None:
    whole = filled.get(target).json
    assert len(whole) >= 1
    with api_with(slicing, filled.backend) as api:
        assert api.get(target).json == whole
        for limit in (1, 2, 3, len(whole), len(whole) + 1):
            assert [each for page in by_cursor(api, target, limit) for each in page] == whole
            assert [each for page in by_offset(api, target, limit) for each in page] == whole


@pytest.mark.parametrize("target", LISTS)
def test_an_offset_counts_from_the_cursor(filled: Api, target: str) -> None:
    whole = filled.get(target).json
    following = successor(filled.get(paged(target, limit=1)))
    assert (following is None) == (len(whole) == 1)
    if following is not None:
        assert filled.get(paged(following, offset=1).replace("limit=1&", "")).json == whole[2:]


@pytest.mark.parametrize("slicing", [AT_ONCE, ROW_BY_ROW], ids=["at once", "row by row"])
def test_what_stays_is_listed_once_whatever_comes_and_goes_between_pages(slicing: Slicing) -> None:
    with api_with(slicing) as api:
        for number in range(30):
            api.register(f"s{number:02}", '"string"')
        found, pages = [], by_cursor(api, "/subjects", 4)
        for number, page in enumerate(pages):
            found += page
            api.delete(f"/subjects/s{number * 3:02}")
            api.register(f"s{number * 4:02}-new", '"string"')
        stayed = [f"s{number:02}" for number in range(30) if number % 3 or number >= 3 * (number + 1)]
        assert [each for each in found if each in stayed] == stayed
        assert found == sorted(set(found))


@pytest.mark.parametrize("slicing", [AT_ONCE, ROW_BY_ROW], ids=["at once", "row by row"])
@pytest.mark.parametrize("sort", ["-name", "id", "-id"])
def test_in_each_order_what_stays_is_listed_once_while_others_come_and_go(
    slicing: Slicing, sort: str
) -> None:
    names = [f"s{number:02}" for number in range(30)]
    with api_with(slicing) as api:
        for number, name in enumerate(names):
            api.register(name, record(f"R{number}"))
        found: list[str] = []
        for number, page in enumerate(by_cursor(api, f"/subjects?sort={sort}", 4)):
            found += page
            for name in names[number * 3 : number * 3 + 1]:
                api.delete(f"/subjects/{name}")
                api.register(f"{name}-new", record(f"N{number}"))
        stayed = [each for each in names if api.get(f"/subjects/{each}/versions").status == 200]
        listed = [each for each in found if each in stayed]
        assert listed == (stayed[::-1] if sort.startswith("-") else stayed)
        assert len(found) == len(set(found))


def test_an_offset_is_counted_again_after_a_write() -> None:
    with api_with(AT_ONCE) as api:
        for number in range(STEP + 10):
            subject = Subject(".", f"s{number:05}")
            api.backend.append(schema_key(subject, 1), schema_value(subject, 1, 1, '"string"'))
        assert api.get(f"/subjects?offset={STEP + 5}&limit=1").json == [f"s{STEP + 5:05}"]
        assert api.get(f"/subjects?offset={STEP + 6}&limit=1").json == [f"s{STEP + 6:05}"]
        api.delete("/subjects/s00000")
        assert api.get(f"/subjects?offset={STEP + 5}&limit=1").json == [f"s{STEP + 6:05}"]


@pytest.mark.parametrize(
    ("cursor", "message"),
    [
        ("x", "cursor is not from a Link header"),
        ("%C3%A9", "cursor is not from a Link header"),
        (Cursor("").text(), "cursor belongs to another list or to another filter"),
    ],
)
def test_a_cursor_of_nobody_is_422(filled: Api, cursor: str, message: str) -> None:
    assert filled.get(f"/subjects?cursor={cursor}").error == (422, 422, message)


def test_a_cursor_belongs_to_a_list_and_its_filter(filled: Api) -> None:
    following = successor(filled.get("/subjects?limit=1")) or ""
    for other in (paged(following, deleted="true"), following.replace("/subjects", "/contexts")):
        assert filled.get(other).status == 422


@pytest.mark.parametrize("number", [0, 2**31, 2**63 - 1])
def test_a_cursor_with_numbers_of_nobody_leads_to_a_page(filled: Api, number: int) -> None:
    link = successor(filled.get("/subjects?limit=1&sort=-id")) or ""
    given = Cursor.parse(link.rpartition("=")[2])
    assert given.mark is not None
    for place in range(1, len(given.mark)):
        mark = (*given.mark[:place], number, *given.mark[place + 1 :])
        target = link.replace(given.text(), given._replace(mark=mark).text())
        assert filled.get(target).status == 200


@pytest.fixture(scope="module")
def stored(filled: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Return an API over a store on disk that holds the same: only its keys are limited in length."""
    counted = Counted(filled.backend.rows, tmp_path_factory.mktemp("store"), 4)
    with api_with(AT_ONCE, counted) as api:
        yield api
    counted.store.close()


@pytest.mark.parametrize("target", PAGED)
def test_a_cursor_with_a_forged_mark_leads_to_a_page_or_to_422(filled: Api, stored: Api, target: str) -> None:
    for api in (filled, stored):
        link = successor(api.get(paged(target, limit=1)))
        given = Cursor.parse((link or "").rpartition("=")[2]) if link else None
        if link is None or given is None or given.mark is None:
            continue
        marks = [
            (*given.mark[:place], forged, *given.mark[place + 1 :])
            for place, member in enumerate(given.mark)
            for forged in FORGED[type(member)]
        ]
        for forged in [given._replace(mark=mark) for mark in marks] + [
            given._replace(skip=skip) for skip in FORGED[int]
        ]:
            # By hand: an encoder of integers would refuse the largest.
            text = urlsafe_b64encode(json.dumps(forged).encode()).rstrip(b"=").decode()
            reply = api.get(link.replace(given.text(), text))
            assert reply.status in (200, 422), (forged, reply.body)


def test_a_forged_mark_of_every_list_is_tried(filled: Api) -> None:
    described = filled.get("/openapi.json").json["paths"]
    with_cursor = {
        path
        for path, found in described.items()
        if any(each.get("name") == CURSOR.name for each in found.get("get", {}).get("parameters", ()))
    }
    # tests/api/test_search.py tries those of the search, which needs an index.
    with_cursor.remove("/search")
    # tests/unit/audit/test_tail.py tries those of files.
    with_cursor.remove("/admin/audit")
    tried = [re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)) for path in with_cursor]
    paths = [target.partition("?")[0] for target in PAGED]
    assert [each.pattern for each in tried if not any(map(each.fullmatch, paths))] == []


def test_a_cursor_that_is_nested_deeply_is_422(filled: Api) -> None:
    given = Cursor.parse((successor(filled.get("/subjects?limit=1")) or "").rpartition("=")[2])
    text = given.text()
    deep = json.dumps(given._replace(mark=None)).replace("null", "[" * 20_000 + "]" * 20_000)
    for forged in (deep, deep.replace("]", "")):
        target = urlsafe_b64encode(forged.encode()).rstrip(b"=").decode()
        assert filled.get(f"/subjects?limit=1&cursor={target}").status == 422, text


@pytest.mark.parametrize("mark", [[], [1], ["a", 1], [None]])
def test_a_cursor_with_a_mark_of_another_kind_is_422(filled: Api, mark: list[Any]) -> None:
    given = Cursor.parse((successor(filled.get("/subjects?limit=1")) or "").rpartition("=")[2])
    for wrong in (given._replace(mark=tuple(mark)), given._replace(skip=-1)):
        assert filled.get(f"/subjects?cursor={wrong.text()}").status == 422


def test_the_next_page_has_the_same_path_and_filters(filled: Api) -> None:
    link = successor(
        filled.get("/contexts/.c%2Dd/subjects/?deleted=true&offset=0&limit=1&subjectPrefix=s%31")
    )
    assert link is None
    link = successor(filled.get("/contexts/%2E/subjects/?deleted=true&offset=1&limit=1&subjectPrefix=s%31"))
    assert link is None
    link = successor(filled.get("/contexts/%2E/subjects/?deleted=true&offset=1&limit=1&subjectPrefix=%73"))
    assert link is not None
    assert link.startswith("/contexts/%2E/subjects/?deleted=true&limit=1&subjectPrefix=%73&cursor=")


def test_errors_come_before_the_first_byte(filled: Api) -> None:
    with api_with(ROW_BY_ROW, filled.backend) as api:
        assert api.get("/subjects/none/versions").error[:2] == (404, 40401)
        assert api.get("/schemas/ids/99/subjects").error[:2] == (404, 40403)
        assert api.get("/schemas?offset=-1").error[:2] == (422, 422)
        assert api.get("/schemas?lifecycle=NO").error[:2] == (404, 404)


def test_an_answer_in_pieces_is_compressed_where_the_client_takes_that(filled: Api) -> None:
    with api_with(ROW_BY_ROW, filled.backend) as api:
        reply = api.get("/schemas?deleted=true", accept_encoding="gzip")
        assert reply.headers["content-encoding"] == "gzip"
        assert "content-length" not in reply.headers
        assert orjson.loads(gzip.decompress(reply.body)) == filled.get("/schemas?deleted=true").json


def test_head_answers_without_a_body(filled: Api) -> None:
    with api_with(ROW_BY_ROW, filled.backend) as api:
        reply = api.request("HEAD", "/schemas?deleted=true")
        assert (reply.status, reply.body) == (200, b"")


class Streaming:
    """Read an answer piece by piece, and count how many views were opened by then."""

    def __init__(self, slicing: Slicing) -> None:
        self.backend = ListBackend()
        self.app = create_app(self.backend, ApiSettings(slicing=slicing))
        self.pieces: asyncio.Queue[Message] = asyncio.Queue(1)
        self.gone = asyncio.Event()
        self.bodies: list[bytes] = []

    def fill(self, subjects: int, size: int = 0) -> None:
        for number in range(subjects):
            subject = Subject(".", f"s{number:05}")
            text = orjson.dumps({"type": "string", "doc": "x" * size}).decode()
            self.backend.append(schema_key(subject, 1), schema_value(subject, 1, number + 1, text))

    async def receive(self) -> Message:
        if self.bodies:
            return {"type": "http.request", "body": self.bodies.pop()}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def get(self, target: str) -> None:
        path, _, query = target.partition("?")
        scope = {
            "type": "http", "method": "POST" if self.bodies else "GET", "path": path,
            "raw_path": path.encode(), "query_string": query.encode(), "headers": [], "root_path": "",
        }  # fmt: skip
        await self.app(scope, self.receive, self.pieces.put)


def test_pieces_are_bounded_whatever_the_schemas_are() -> None:
    async def scenario() -> list[int]:
        streaming = Streaming(Slicing(slice_s=1, slice_bytes=10_000, first_s=1, first_bytes=10_000))
        streaming.fill(40, 4_000)
        task = asyncio.create_task(streaming.get("/schemas"))
        await streaming.pieces.get()
        sizes, more = [], True
        while more:
            message = await streaming.pieces.get()
            sizes.append(len(message["body"]))
            more = message.get("more_body", False)
        await task
        return sizes

    sizes = asyncio.run(scenario())
    assert sum(sizes) > 160_000
    assert max(sizes) < 15_000


def test_a_list_stops_when_its_client_has_gone() -> None:
    async def scenario() -> None:
        streaming = Streaming(ROW_BY_ROW)
        streaming.fill(100)
        task = asyncio.create_task(streaming.get("/subjects"))
        for _ in range(3):
            await streaming.pieces.get()
        streaming.gone.set()
        while not task.done():
            if not streaming.pieces.empty():
                assert streaming.pieces.get_nowait()["type"] == "http.response.body"
            await asyncio.wait([task], timeout=0)
        await task

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_others_are_served_between_the_slices_of_a_list_that_finds_nothing() -> None:
    async def scenario() -> int:
        streaming = Streaming(Slicing(slice_s=0))
        streaming.fill(300)
        task = asyncio.create_task(streaming.get("/schemas?ruleType=NONE"))
        turns = 0
        while not task.done():
            turns += 1
            if not streaming.pieces.empty():
                streaming.pieces.get_nowait()
            await asyncio.wait([task], timeout=0)
        return turns

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) > 100


def turns_of(streaming: Streaming, target: str) -> tuple[int, list[Message]]:
    """Return how many turns of the event loop an answer took, and its messages."""

    async def scenario() -> tuple[int, list[Message]]:
        streaming.pieces, streaming.gone = asyncio.Queue(1), asyncio.Event()
        task = asyncio.create_task(streaming.get(target))
        turns, messages = 0, list[Message]()
        while not task.done() or not streaming.pieces.empty():
            turns += 1
            if not streaming.pieces.empty():
                messages.append(streaming.pieces.get_nowait())
            await asyncio.wait([task], timeout=0)
        await task
        return turns, messages

    return asyncio.run(asyncio.wait_for(scenario(), 30))


class Counted(ListBackend):
    """Return an API that reads from a store on disk whose versions are counted."""

    def __init__(self, found: DictView, folder: Path, block: int) -> None:
        super().__init__()
        with NewStore(folder, 64 << 20) as new:
            pairs = list(found.rows())
            new.append(pairs)
            new.finish(Origin(1, "log", State(0, 0), 0))
        self.store = Store(folder, 64 << 20, block=block)
        while not self.store.count_step():
            pass

    @contextmanager
    def view(self) -> Iterator[View]:
        with self.store.view() as view:
            yield view


@pytest.mark.parametrize("slicing", [AT_ONCE, ROW_BY_ROW], ids=["at once", "row by row"])
def test_pages_of_counted_lists_joined_are_the_whole_list(
    filled: Api, tmp_path: Path, slicing: Slicing
) -> None:
    backend = Counted(filled.backend.rows, tmp_path / "store-1", block=2)
    with api_with(slicing, backend) as api:
        for target in (each for each in LISTS if each.startswith(("/subjects?", "/schemas?", "/contexts/"))):
            whole = filled.get(target).json
            for limit in (1, 3, len(whole) + 1):
                assert [each for page in by_offset(api, target, limit) for each in page] == whole
                assert [each for page in by_cursor(api, target, limit) for each in page] == whole
            for offset in range(len(whole)):
                # From the second page on, the cursor leads, as it does above.
                pages = islice(by_cursor(api, paged(target, offset=offset), 2), 2)
                assert [each for page in pages for each in page] == whole[offset : offset + 4]
    backend.store.close()


@pytest.mark.parametrize(
    "target",
    [
        "/subjects",
        "/subjects?deleted=true",
        "/subjects?sort=-name",
        "/subjects?detail=true",
        "/subjects?detail=true&sort=-name",
        "/schemas",
        "/schemas?latestOnly=true",
    ],
)
def test_an_offset_near_the_end_of_a_counted_list_takes_few_turns(tmp_path: Path, target: str) -> None:
    streaming = Streaming(ROW_BY_ROW)
    streaming.fill(1_000)
    streaming.backend = Counted(streaming.backend.rows, tmp_path / "store-1", block=40)
    streaming.app = create_app(streaming.backend, ApiSettings(slicing=ROW_BY_ROW))
    turns, messages = turns_of(streaming, paged(target, offset=990, limit=5))
    assert len(orjson.loads(b"".join(each.get("body", b"") for each in messages))) == 5
    assert turns < 150


def versions_under(backend: ListBackend, subject: Subject, count: int, *, deleted: bool) -> None:
    for version in range(1, count + 1):
        value = schema_value(subject, version, version, f'"{version}"', deleted=deleted)
        backend.append(schema_key(subject, version), value)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/schemas/ids/1?includeSubjects=true", 200),
        ("/schemas/ids/1?subject=elsewhere", 200),
        ("/schemas/ids/1/versions?subject=elsewhere&limit=1", 200),
        ("/schemas/ids/1/schema?subject=again", 200),
        ("/schemas/ids/2?subject=:.forgotten:", 404),
        ("/schemas/ids/2/subjects?subject=:.forgotten:s", 404),
        ("/schemas/guids/{guid}/ids", 200),
        ("/schemas/guids/00000000000000000000000000000000", 404),
        ("/subjects/gone/versions", 404),
        ("/subjects/gone/versions/latest", 404),
        ("/subjects/gone/versions/latest/schema", 404),
        ("/subjects/gone/versions/latest/referencedby", 404),
        ("/subjects/gone/metadata?key=a&value=b", 404),
        ("/subjects/none/versions/1", 404),
    ],
)
def test_others_are_served_between_the_rows_that_an_answer_needs(target: str, status: int) -> None:
    streaming = Streaming(ROW_BY_ROW)
    for number in range(150):
        for context in (".", f".c{number:03}"):
            subject = Subject(context, f"s{number:05}")
            streaming.backend.append(schema_key(subject, 1), schema_value(subject, 1, 1, '"string"'))
            streaming.backend.append(context_key(context), b"{}")
    versions_under(streaming.backend, Subject(".", "gone"), 150, deleted=True)
    for version in range(1, 151):
        for subject, schema_id in ((Subject(".", "again"), 1), (Subject(".forgotten", f"s{version}"), 2)):
            value = schema_value(subject, version, schema_id, '"string"', deleted=True)
            streaming.backend.append(schema_key(subject, version), value)
    forgotten = Subject(".forgotten", "")
    streaming.backend.append(clear_subject_key(forgotten), clear_subject_value(forgotten))
    guid = orjson.loads(turns_of(streaming, "/subjects/s00000/versions/1")[1][1]["body"])["guid"]
    turns, messages = turns_of(streaming, target.format(guid=guid))
    assert messages[0]["status"] == status
    assert turns > 50


def test_others_are_served_between_the_resources_of_a_batch() -> None:
    streaming = Streaming(ROW_BY_ROW)
    streaming.bodies = [orjson.dumps({"requests": [{"resourceId": "none"}] * 150})]
    turns, messages = turns_of(streaming, "/associations:batchGet")
    assert messages[0]["status"] == 207
    assert len(orjson.loads(messages[1]["body"])["results"]) == 150
    assert turns > 50


def test_others_are_served_between_the_contexts_in_which_a_schema_is_looked_up() -> None:
    streaming = Streaming(ROW_BY_ROW)
    for number in range(150):
        subject = Subject(f".c{number:03}", "s")
        text = '"int"' if number == 149 else '"string"'
        streaming.backend.append(schema_key(subject, 1), schema_value(subject, 1, number + 1, text))
        streaming.backend.append(context_key(subject.context), b"{}")
    streaming.bodies = [orjson.dumps({"schema": '"int"'})]
    turns, messages = turns_of(streaming, "/subjects/s")
    assert orjson.loads(messages[1]["body"])["subject"] == ":.c149:s"
    assert turns > 100


def test_others_are_served_while_the_subjects_that_aliases_lead_to_are_sorted() -> None:
    streaming = Streaming(ROW_BY_ROW)
    for number in range(150):
        alias = Subject(".", f"alias{number * 7 % 150:03}")
        members = {"alias": f"s{number:03}"}
        streaming.backend.append(config_key(alias), config_value(alias, members))
    subject = Subject(".", "s075")
    streaming.backend.append(schema_key(subject, 1), schema_value(subject, 1, 1, '"string"'))
    turns, messages = turns_of(streaming, "/schemas?aliases=true&subjectPrefix=alias")
    found = orjson.loads(b"".join(each.get("body", b"") for each in messages))
    assert [each["subject"] for each in found] == ["s075"]
    assert turns > 120  # Each alias is read, then sorted.


def test_an_id_has_its_subjects_sorted_whatever_the_slices() -> None:
    streaming = Streaming(ROW_BY_ROW)
    names = [f"s{number * 7919 % 5000:04}" for number in range(5000)]
    for name in names:
        subject = Subject(".", name)
        streaming.backend.append(schema_key(subject, 1), schema_value(subject, 1, 1, '"string"'))
    _, messages = turns_of(streaming, "/schemas/ids/1?includeSubjects=true")
    found = orjson.loads(b"".join(each.get("body", b"") for each in messages))
    assert found["schema"] == '"string"'
    assert found["subjects"] == sorted(names)


class TestPlaces:
    def test_the_nearest_before_is_found_until_the_rows_change(self) -> None:
        positions, begin = PositionCache(), Cursor("list", 25)
        assert positions.nearest(begin, 1) == (0, None)
        for number in (30, 10, 20, 10):
            positions.put(begin, number, (f"s{number}",), 1)
        assert positions.nearest(begin, 1) == (20, ("s20",))
        assert positions.nearest(begin._replace(skip=30), 1) == (30, ("s30",))
        assert positions.nearest(begin._replace(skip=9), 1) == (0, None)
        assert positions.nearest(begin._replace(mark=("a",)), 1) == (0, ("a",))
        assert positions.nearest(begin, 2) == (0, None)

    def test_they_are_bounded_by_bytes(self) -> None:
        positions = PositionCache(bytes_max=100_000)
        for number in range(1_000):
            for step in range(10):
                positions.put(Cursor(f"list{number}"), step, ("s" * 100,), 1)
        held = sum(positions.nearest(Cursor(f"list{number}", 9), 1)[0] == 9 for number in range(1_000))
        assert 1 <= held * 10 * 400 <= 100_000
        assert positions.nearest(Cursor("list999", 9), 1) == (9, ("s" * 100,))
