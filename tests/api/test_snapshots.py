"""Answers of the API about snapshots."""

from __future__ import annotations

from tests.api.driver import Api

PATH = "/admin/snapshots"


def test_asking_says_where_to_look() -> None:
    with Api() as api:
        asked = api.post(PATH)
        assert (asked.status, asked.headers["location"]) == (202, f"{PATH}/s1")
        assert asked.headers["content-type"] == "application/json"
        assert asked.headers["x-registry-offset"] == "1"
        entry = asked.json
        assert (entry["id"], entry["state"], entry["offset"], entry["uri"]) == (
            "s1",
            "requested",
            1,
            "/snapshots",
        )
        assert api.get(asked.headers["location"]).json == entry
        assert api.get(PATH).json == [entry]
        assert api.post(PATH).json["id"] == "s1"


def test_a_body_is_not_looked_at() -> None:
    with Api() as api:
        for body in (b"", b"{", b"\xff" * 100, {"offset": 5}):
            assert api.post(PATH, body, content_type="application/json").status == 202


def test_one_that_is_not_there() -> None:
    with Api() as api:
        for method in ("GET", "DELETE"):
            refused = api.request(method, f"{PATH}/none")
            assert refused.error == (404, 40480, "Snapshot 'none' not found.")


def test_deleting() -> None:
    with Api() as api:
        place = api.post(PATH).headers["location"]
        deleted = api.delete(place)
        assert (deleted.status, deleted.body) == (204, b"")
        assert api.delete(place).status == 404
        assert api.get(PATH).json == []


def test_other_methods() -> None:
    with Api() as api:
        assert api.put(PATH).error[:2] == (405, 405)
        assert api.request("OPTIONS", PATH).headers["allow"] == "GET, HEAD, OPTIONS, POST"
        assert api.post(f"{PATH}/x").error[:2] == (405, 405)
