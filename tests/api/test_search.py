"""``GET /search``: what is found, by whom, in which pages."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from registry.api.listing import Cursor
from registry.domain import errors as e
from registry.domain.lookup.matching import IndexState, WordRows
from registry.search.index import SearchIndex
from tests.api.driver import Api
from tests.api.permitting import RulesGate, rule
from tests.api.searching import Searching
from tests.api.test_lists import FORGED


def schema(name: str, *fields: str, **more: Any) -> str:
    members = [{"name": each, "type": "string", **more} for each in fields]
    return json.dumps({"type": "record", "name": name, "fields": members})


@pytest.fixture
def searching(tmp_path: Path) -> Iterator[Searching]:
    found = Searching(tmp_path / "data")
    yield found
    found.close()


def register(api: Api, subject: str, text: str, **more: Any) -> None:
    reply = api.post(f"/subjects/{quote(subject, safe='')}/versions", {"schema": text, **more})
    assert reply.status == 200, reply.body


def search(api: Api, query: str, more: str = "") -> list[str]:
    found = api.get(f"/search?query={quote(query)}{more}").json
    assert found["complete"]
    return [each["subject"] for each in found["hits"]]


def test_a_subject_is_found_by_each_kind_of_word(searching: Searching) -> None:
    api = searching.api
    text = schema("Invoice", "customerEmail", doc="Where the reminder goes", **{"confluent:tags": ["PII"]})
    meta = {
        "properties": {"owner": "team-billing", "secret": "hunter2"}, "sensitive": ["secret"],
        "tags": {"Invoice.customerEmail": ["GDPR"]},
    }  # fmt: skip
    register(api, "billing.orders-value", text, metadata=meta)
    register(api, "other", schema("Other", "x"))
    searching.fill()
    kinds = {
        "orders": "subject", "customer": "field", "EMAIL": "field", "customeremail": "field",
        "cust ema": "field",
        "invoice": "type", "pii": "tag", "gdpr": "tag", "team billing": "property", "owner": "property",
        "reminder": "doc",
    }  # fmt: skip
    for query, kind in kinds.items():
        [hit] = api.get(f"/search?query={quote(query)}&kind={kind}").json["hits"]
        assert (hit["subject"], hit["version"], hit["schemaType"]) == ("billing.orders-value", 1, "AVRO")
        assert {each["kind"] for each in hit["matches"]} == {kind}, query
        assert search(api, query) == ["billing.orders-value"], query
    [hit] = api.get("/search?query=email").json["hits"]
    assert hit["matches"] == [
        {"kind": "field", "path": "customerEmail", "text": "customerEmail", "ranges": [[8, 13]]},
    ]
    for query in ("hunter2", "secret", "mail", "orders x", "e"):
        assert search(api, query) == [], query
    assert search(api, "orders", "&kind=field") == []


def test_names_come_first_and_pages_lead_to_all(searching: Searching) -> None:
    api = searching.api
    api.request("PUT", "/config", {"compatibility": "NONE"})
    for at in range(7):
        register(api, f"plain-{at}", schema("P", "payment"))
    for at in range(4):
        register(api, f"payment-{at}", schema("Q", "amount", "payment"))
    searching.fill()
    pages, target = [], "/search?query=paym&limit=3"
    found = api.get(target).json
    pages.append([each["subject"] for each in found["hits"]])
    while found["next"]:
        register(api, "payment-0", schema("Q", "amount", f"payment{len(pages)}"), metadata=None)
        searching.fill()  # what changes meanwhile keeps its place
        found = api.get(f"{target}&cursor={found['next']}").json
        pages.append([each["subject"] for each in found["hits"]])
    listed = [each for page in pages for each in page]
    assert [len(page) for page in pages] == [3, 3, 3, 2]
    assert sorted(listed[:4]) == [f"payment-{at}" for at in range(4)]
    assert sorted(listed[4:]) == [f"plain-{at}" for at in range(7)]
    other = api.get(f"/search?query=payment&limit=3&cursor={api.get(target).json['next']}")
    assert other.error == (422, 422, "cursor belongs to another list or to another filter")


def test_a_cursor_with_a_forged_mark_leads_to_a_page_or_to_422(searching: Searching) -> None:
    for at in range(3):
        register(searching.api, f"own-{at}", schema("R", "salary"))
    searching.fill()
    target = "/search?query=salary&limit=1"
    given = Cursor.parse(searching.api.get(target).json["next"])
    assert given is not None
    assert given.mark is not None
    forged_marks = [(part, given.mark[1]) for part in FORGED[int]] + [(0, text) for text in FORGED[str]]
    for mark in forged_marks:
        # By hand: an encoder of integers would refuse the largest.
        text = urlsafe_b64encode(json.dumps(given._replace(mark=mark)).encode()).rstrip(b"=").decode()
        reply = searching.api.get(f"{target}&cursor={text}")
        assert reply.status in (200, 422), (mark, reply.body)


def test_what_one_may_not_read_is_neither_named_nor_counted(searching: Searching) -> None:
    api = searching.api
    for at in range(5):
        register(api, f"own-{at}", schema("R", "salary"))
        register(api, f"hidden-{at}", schema("R", "salary"))
    searching.fill()
    gate = RulesGate(rule("clerk", "reader", "own-*"))
    with Api(api.backend, index=searching.index, gate=gate) as mine:
        clerk = {"authorization": "clerk"}
        whole = mine.get("/search?query=salary", **clerk).json
        assert sorted(each["subject"] for each in whole["hits"]) == [f"own-{at}" for at in range(5)]
        assert whole["next"] is None
        first = mine.get("/search?query=salary&limit=3", **clerk).json
        rest = mine.get(f"/search?query=salary&limit=3&cursor={first['next']}", **clerk).json
        assert first["hits"] + rest["hits"] == whole["hits"]
        assert rest["next"] is None
        assert mine.get("/search?query=hidden", **clerk).json["hits"] == []


def test_the_newest_version_counts_and_deleted_subjects_are_not_found(searching: Searching) -> None:
    api = searching.api
    api.request("PUT", "/config", {"compatibility": "NONE"})
    register(api, "s", schema("R", "former"))
    searching.fill()
    assert search(api, "former") == ["s"]
    register(api, "s", schema("R", "present"))
    searching.fill()
    assert (search(api, "former"), search(api, "present")) == ([], ["s"])
    api.request("DELETE", "/subjects/s/versions/2")
    searching.fill()
    assert (search(api, "former"), search(api, "present")) == (["s"], [])
    api.request("DELETE", "/subjects/s")
    assert search(api, "former") == []  # even before the index follows
    searching.fill()
    assert search(api, "s") == []
    register(api, "s", schema("R", "former"))
    searching.fill()
    assert search(api, "former") == ["s"]


def test_who_registered_a_subject_is_found_by_those_who_may_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    rules = rule("alice", "operator", "own-*", "hidden-*") + rule("clerk", "reader", "own-*")
    with closing(Searching(folder, RulesGate(rules))) as made:
        for subject, user in (("own-1", "alice"), ("hidden-1", "alice"), ("own-2", "root")):
            body = {"schema": schema("R", "field")}
            reply = made.api.request("POST", f"/subjects/{subject}/versions", body, {"authorization": user})
            assert reply.status == 200, reply.body
        made.fill()
        asked = {"root": ["hidden-1", "own-1"], "clerk": ["own-1"]}
        for user, wanted in asked.items():
            answer = made.api.get("/search?query=alice&kind=principal", authorization=user).json
            assert sorted(each["subject"] for each in answer["hits"]) == wanted
            for hit in answer["hits"]:
                shown = {"kind": "principal", "path": "", "text": "alice", "ranges": [[0, 5]]}
                assert hit["matches"] == [shown]
        # It goes with the version, as its other words do.
        made.api.request("DELETE", "/subjects/own-1", headers={"authorization": "root"})
        made.fill()
        assert made.api.get("/search?query=alice", authorization="clerk").json["hits"] == []
        with made.index.view() as view:
            assert view is not None
            assert view.progress().stale == 0


def test_parts_of_texts_without_borders_are_found(searching: Searching) -> None:
    api = searching.api
    register(api, "customer", schema("R", "x", doc="顧客メールアドレス"))
    register(api, "other", schema("R", "x", doc="顧客番号と電話"))
    searching.fill()
    for query, wanted in (("顧客", 2), ("メール", 1), ("ドレス", 1), ("客", 2), ("番", 1), ("ル客", 0)):
        assert len(search(api, query)) == wanted, query
    [hit] = api.get(f"/search?query={quote('メール')}").json["hits"]
    assert hit["matches"][0]["ranges"] == [[2, 5]]


def test_a_search_that_finds_nothing_is_bounded(
    searching: Searching, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(60):
        register(searching.api, f"s{at}", schema("R", "left" if at % 2 else "right"))
    searching.fill()
    monkeypatch.setattr("registry.domain.lookup.matching.LOOKS", 10)
    assert search(searching.api, "left right") == []
    monkeypatch.setattr("registry.api.search.LOOKS_MAX", 12)
    found = searching.api.get("/search?query=left+right").json
    assert (found["hits"], found["next"], found["cut"], found["complete"]) == ([], None, True, True)


def test_bad_requests_are_refused(searching: Searching) -> None:
    api = searching.api
    long, many = f"?query={'x' * 501}", f"?query={'+'.join(f'w{at}' for at in range(13))}"
    for target in (
        "", "?query=", "?query=%20.-", "?query=%E2%80%8B*", long, many,
        "?query=a&kind=color", "?query=a&limit=0", "?query=a&limit=101",
        "?query=a&cursor=x",
    ):  # fmt: skip
        assert api.get(f"/search{target}").error[:2] == (422, 422), target
    with Api() as without:
        assert without.get("/search?query=a").error[:2] == (501, 501)


def test_a_list_of_subjects_is_filtered_by_words(
    searching: Searching, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = searching.api
    owner = {"properties": {"owner": "team-a"}}
    for name in ("c", "a", ":.x:b", "b"):
        register(api, name, schema("R", "email"), metadata=owner if name != "b" else None)
    register(api, "z", schema("Other", "x"))
    api.request("PUT", "/config/c", {"compatibility": "FULL"})
    assert api.get("/subjects?query=email").error == (503, 503, e.INDEX_INCOMPLETE.template)
    searching.fill()
    for query, names in {
        "email": [":.x:b", "a", "b", "c"], "email&sort=-id": ["b", "a", "c", ":.x:b"],
        "team&kind=property": [":.x:b", "a", "c"], "team&kind=field": [], "nothing": [],
        "EMAIL+team&sort=-name": ["c", "a", ":.x:b"], "email&compatibilityLevel=full": ["c"],
        "email&subjectPrefix=:.x:": [":.x:b"], "email&limit=2": [":.x:b", "a"], "email&offset=3": ["c"],
    }.items():  # fmt: skip
        assert api.get(f"/subjects?query={query}").json == names, query
        details = api.get(f"/subjects?detail=true&query={query}").json
        assert [each["subject"] for each in details] == names, query
    for target in ("?query=%20", "?query=a&kind=color", "?kind=field", f"?query={'x' * 501}"):
        assert api.get(f"/subjects{target}").error[:2] == (422, 422), target
    gate = RulesGate(rule("clerk", "reader", "a*"))
    with Api(api.backend, index=searching.index, gate=gate) as mine:
        assert mine.get("/subjects?query=email", authorization="clerk").json == ["a"]
    with Api() as without:
        assert without.get("/subjects?query=a").error[:2] == (501, 501)


def fill(searching: Searching, names: list[str]) -> None:
    """Register subjects with these names, and index them."""
    for name in names:
        register(searching.api, name, schema("R", "amount"))
    searching.fill()


def test_names_of_several_words_do_not_make_their_first_word_broad(
    searching: Searching, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = searching.api
    names = [f"topic-{at}a-value" for at in range(12)]
    fill(searching, names)
    monkeypatch.setattr("registry.domain.lookup.matching.KEYS_MAX", 3)
    for query in ("topic", "top", "value topic", "amount value"):
        found = api.get(f"/search?query={quote(query)}&limit=5").json
        assert (len(found["hits"]), found["cut"]) == (5, False), query
        assert found["next"], query
        listed = api.get(f"/subjects?query={quote(query)}")
        assert sorted(listed.json) == sorted(names), query
        assert "warning" not in listed.headers, query
    for query in ("topic7", "topic7aval", "TOPIC-7a"):
        assert api.get(f"/subjects?query={quote(query)}").json == ["topic-7a-value"], query


def test_a_list_filtered_by_broad_words_has_the_first_subjects_and_says_that_there_may_be_more(
    searching: Searching, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = searching.api
    names = [f"topic-1{at:02}-value" for at in range(12)]
    fill(searching, names)
    with monkeypatch.context() as patch:
        patch.setattr("registry.domain.lookup.matching.KEYS_MAX", 3)
        for detail in ("", "&detail=true"):
            listed = api.get(f"/subjects?query=10{detail}")
            assert [each["subject"] if detail else each for each in listed.json] == names[:3]
            assert listed.headers["warning"].startswith('299 - "There may be more subjects')
    # Of as many subjects as one request finds, those of whole looks into the index.
    monkeypatch.setattr("registry.api.search._AT_ONCE", 2)
    monkeypatch.setattr("registry.api.search.LISTED_MAX", 7)
    listed = api.get("/subjects?query=amount")
    assert (len(listed.json), "warning" in listed.headers) == (6, True)
    pages, target = [], "/subjects?query=amount&limit=4"
    while target:
        page = api.get(target)
        pages += page.json
        target = page.headers.get("link", "").partition(">")[0][1:]
    assert pages == listed.json


def test_a_search_says_that_the_index_is_not_complete(searching: Searching) -> None:
    api = searching.api
    register(api, "s", schema("R", "field"))
    found = api.get("/search?query=field").json
    assert (found["hits"], found["complete"], found["built"]) == ([], False, 0.0)
    searching.fill()
    found = api.get("/search?query=field").json
    assert (len(found["hits"]), found["complete"], found["built"]) == (1, True, 1.0)
    assert found["offset"] == len(api.backend.log)


class Replaced:
    """An index that another one replaces while a search reads it."""

    def __init__(self, index: SearchIndex, *, is_there: bool) -> None:
        self._index, self._is_there = index, is_there
        self._views = 0

    @contextmanager
    def view(self) -> Iterator[WordRows | None]:
        self._views += 1
        with self._index.view() as rows:
            assert rows is not None
            if self._views == 2:
                yield Beginning(rows) if self._is_there else None
            else:
                yield rows


class Beginning:
    """An index with nothing in it yet."""

    def __init__(self, rows: WordRows) -> None:
        self.keys, self.seek, self.subject = rows.keys, rows.seek, rows.subject

    def state(self) -> IndexState:
        return IndexState(0, complete=False, built=0.25)


@pytest.mark.parametrize(("is_there", "built"), [(True, 0.25), (False, 0.0)])
def test_a_search_during_which_the_index_was_replaced_is_not_complete(
    searching: Searching, monkeypatch: pytest.MonkeyPatch, is_there: bool, built: float
) -> None:
    for name in ("a", "b", "c"):
        register(searching.api, name, schema("R", "email"))
    searching.fill()
    monkeypatch.setattr("registry.api.search._AT_ONCE", 1)
    backend = searching.api.backend
    with Api(backend, index=Replaced(searching.index, is_there=is_there)) as api:
        found = api.get("/search?query=email&kind=field").json
        assert (found["complete"], found["built"], found["offset"]) == (False, built, 0)
    with Api(backend, index=Replaced(searching.index, is_there=is_there)) as api:
        assert api.get("/subjects?query=email&kind=field").error[:2] == (503, 503)
