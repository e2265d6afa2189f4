"""An additional schema type is one object that implements the contract: every resource serves it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from registry.domain.schemas import FORMATS, describe_formats
from registry.ui.console import Console
from tests.api.driver import Api
from tests.support.word_format import WordFormat


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setitem(FORMATS, "WORDS", WordFormat())
    with Api(console=Console(formats=describe_formats())) as api:
        yield api


def body(text: str, **members: object) -> dict[str, object]:
    return {"schema": text, "schemaType": "WORDS", **members}


def test_it_is_served_by_every_resource(api: Api) -> None:
    assert api.get("/schemas/types").json[-1] == "WORDS"
    first = api.post("/subjects/s/versions", body(" one  two "))
    assert (first.json["schema"], first.json["schemaType"]) == ("one two", "WORDS")
    assert api.get("/schemas/ids/1").json["schema"] == "one two"
    assert api.get("/schemas/ids/1/schema?format=loud").body == b"ONE TWO"
    assert api.get("/subjects/s/versions/1?format=loud").json["schema"] == "ONE TWO"
    refused = api.get("/subjects/s/versions/1?format=logical").error
    assert refused[1:] == (
        42201, "Stored schema cannot be represented as a logical type: words have no columns"
    )  # fmt: skip
    assert api.post("/subjects/s", body("two one")).json["version"] == 1
    assert api.post("/subjects/n/versions?normalize=true", body("two one")).json["schema"] == "one two"


def test_it_is_held_to_its_own_rules(api: Api) -> None:
    assert api.post("/subjects/s/versions", body("one!")).error[:2] == (422, 42201)
    api.post("/subjects/s/versions", body("one"))
    assert api.post("/subjects/s/versions", body("one two")).status == 200
    refused = api.post("/subjects/s/versions", body("two"))
    assert "details: [new lacks one, {oldSchemaVersion: 2}" in refused.error[2]
    check = api.post("/compatibility/subjects/s/versions/2?verbose=true", body("two three"))
    assert check.json["messages"][0] == "new lacks one"
    api.put("/config/s", {"compatibility": "FORWARD"})
    check = api.post("/compatibility/subjects/s/versions/2?verbose=true", body("one two three"))
    assert check.json["messages"][0] == "old lacks three"
    api.put("/config", {"validateFields": True})
    assert "no money here" in api.post("/subjects/t/versions", body("$$")).error[2]


def test_it_refers_to_others(api: Api) -> None:
    api.post("/subjects/base/versions", body("one"))
    listed = [{"name": "base", "subject": "base", "version": 1}]
    assert api.post("/subjects/s/versions", body("+base two")).error[:2] == (422, 42201)
    assert api.post("/subjects/s/versions", body("+base two", references=listed)).status == 200
    assert api.get("/subjects/base/versions/1/referencedby").json == [2]


def test_its_parts_carry_tags(api: Api) -> None:
    api.post("/subjects/s/versions", body("one two"))
    tags = [{"schemaEntity": {"entityPath": "two", "entityType": "sr_field"}, "tags": ["loud"]}]
    api.put("/config/s", {"compatibility": "NONE"})
    assert api.post("/subjects/s/versions/1/tags", {"tagsToAdd": tags}).json["schema"] == "one *two"
    assert api.get("/subjects/s/versions/2?findTags=loud").json["schemaTags"] == tags
