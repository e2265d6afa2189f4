"""Compatibility checks over HTTP."""

from __future__ import annotations

import pytest

from tests.api.driver import Api, record

A, AB = record("R", "a"), record("R", "a", "b")
OTHER = '{"type":"record","name":"R","fields":[{"name":"x","type":"int"}]}'


@pytest.fixture
def two(api: Api) -> Api:
    api.register("s", A)
    api.register("s", AB)
    return api


def test_against_the_latest_one_and_all(two: Api) -> None:
    for version in ("latest", "-1", "1", "2"):
        url = f"/compatibility/subjects/s/versions/{version}"
        assert two.post(url, {"schema": A}).body == b'{"is_compatible":true}'
        assert two.post(url, {"schema": OTHER}).body == b'{"is_compatible":false}'
    assert two.post("/compatibility/subjects/s/versions", {"schema": A}).json == {"is_compatible": True}
    assert two.backend.submitted[2:] == []


def test_the_reasons_are_reported(two: Api) -> None:
    url = "/compatibility/subjects/s/versions/1?verbose=true"
    assert two.post(url, {"schema": A}).json == {
        "is_compatible": True, "messages": [], "changes": [],
    }  # fmt: skip
    found = two.post(url, {"schema": OTHER}).json
    assert found["is_compatible"] is False
    assert found["messages"][0].startswith("{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE'")
    assert found["messages"][1:] == [
        "{oldSchemaVersion: 1}",
        f"{{oldSchema: '{A}'}}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]


def test_what_is_no_schema(two: Api) -> None:
    for url in ("/compatibility/subjects/s/versions/1", "/compatibility/subjects/s/versions"):
        assert two.post(url, {"schema": "nonsense"}).error[:2] == (422, 42201)
        assert two.post(url, {}).error == (422, 42201, "Empty schema")
        found = two.post(f"{url}?verbose=true", {"schema": "nonsense"}).json
        assert found["is_compatible"] is False
        assert len(found["messages"]) == 1


def test_missing_versions_and_subjects(two: Api) -> None:
    body = {"schema": A}
    assert two.post("/compatibility/subjects/s/versions/9", body).error == (
        404,
        40402,
        "Version 9 not found.",
    )
    assert two.post("/compatibility/subjects/t/versions/1", body).error == (
        404,
        40402,
        "Version 1 not found.",
    )
    assert two.post("/compatibility/subjects/t/versions/latest", body).json == {"is_compatible": True}
    assert two.post("/compatibility/subjects/t/versions", body).json == {"is_compatible": True}
    assert two.post("/compatibility/subjects/s/versions/x", body).error[:2] == (422, 42202)
    two.delete("/subjects/s/versions/1")
    assert two.post("/compatibility/subjects/s/versions/1", body).error == (
        404,
        40402,
        "Version 1 not found.",
    )


def test_the_level_counts(two: Api) -> None:
    two.put("/config/s", {"compatibility": "NONE"})
    assert two.post("/compatibility/subjects/s/versions/1", {"schema": OTHER}).json == {"is_compatible": True}
    two.put("/config/s", {"compatibility": "FORWARD"})
    assert two.post("/compatibility/subjects/s/versions/1", {"schema": OTHER}).json == {"is_compatible": True}
    two.put("/config/s", {"compatibility": "FULL"})
    assert two.post("/compatibility/subjects/s/versions/1", {"schema": OTHER}).json == {
        "is_compatible": False
    }


def test_read_only_is_no_hindrance(two: Api) -> None:
    two.put("/mode/s", {"mode": "READONLY"})
    assert two.post("/compatibility/subjects/s/versions/1", {"schema": A}).json == {"is_compatible": True}
