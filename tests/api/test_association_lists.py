"""Lists of associations, and lists of schemas and subjects filtered by them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.associating import (
    R_WIDER,
    STRING,
    post,
    put,
    strong,
    two_subjects,
    weak,
)
from tests.api.driver import FIRST_TS, Api


@pytest.fixture
def api() -> Iterator[Api]:
    with two_subjects() as found:
        yield found


class TestLists:
    @pytest.fixture(autouse=True)
    def _some(self, api: Api) -> None:
        post(api, weak("s"), weak("t", "key"), name="b", resourceId="1")
        post(api, weak("s"), name="a", resourceId="2", resourceNamespace="other")
        post(api, strong(), name="c", resourceId="3")

    @pytest.mark.parametrize(
        ("path", "found"),
        [
            ("subjects/s", ["a-value", "b-value"]),
            ("subjects/none", []),
            ("subjects/:.ns:c-value", ["c-value"]),
            ("subjects/s?limit=1&offset=1", ["b-value"]),
            ("subjects/s?associationType=key", []),
            ("resources/1", ["b-key", "b-value"]),
            ("resources/1?associationType=value", ["b-value"]),
            ("resources/1?associationType=value&associationType=key", ["b-key", "b-value"]),
            ("resources/1?lifecycle=STRONG", []),
            ("resources/3?lifecycle=STRONG", ["c-value"]),
            ("resources/1?resourceType=queue", []),
            ("resources/1?resourceType=&lifecycle=", ["b-key", "b-value"]),
            ("resources/9", []),
            ("resources/ns/b", ["b-key", "b-value"]),
            ("resources/other/b", []),
            ("resources/-/b", ["b-key", "b-value"]),
            ("resources/other/-", ["a-value"]),
            ("resources/ns/-", ["b-key", "b-value", "c-value"]),
            ("resources/-/-", ["a-value", "b-key", "b-value", "c-value"]),
            ("resources/-/-?offset=1&limit=2", ["b-key", "b-value"]),
            ("resources/-/-?limit=1001&lifecycle=WEAK", ["a-value", "b-key", "b-value"]),
        ],
    )
    def test_they_are_sorted_chosen_and_cut(self, api: Api, path: str, found: list[str]) -> None:
        listed = api.get(f"/associations/{path}").json
        assert [f"{each['resourceName']}-{each['associationType']}" for each in listed] == found

    def test_an_unknown_lifecycle_does_not_exist(self, api: Api) -> None:
        for path in ("/associations/subjects/s?lifecycle=LOOSE", "/schemas?lifecycle=LOOSE"):
            assert api.get(path).error == (404, 404, "HTTP 404 Not Found")
        assert api.get("/associations/subjects/s?lifecycle=NONE").status == 404
        assert api.get("/associations/subjects/s?offset=-1").error[:2] == (422, 422)

    def test_an_association_is_reported_in_confluents_order(self, api: Api) -> None:
        (found,) = api.get("/associations/resources/3").json
        assert list(found) == [
            "subject", "guid", "resourceName", "resourceNamespace", "resourceId", "resourceType",
            "associationType", "lifecycle", "createTs", "updateTs",
        ]  # fmt: skip
        assert found["createTs"] == found["updateTs"] == FIRST_TS + len(api.backend.log) - 1

    def test_an_alias_leads_to_its_subject(self, api: Api) -> None:
        api.put("/config/nick", {"alias": "s"})
        assert len(api.get("/associations/subjects/nick").json) == 2

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("", [":.ns:c-value", "s", "t", "u"]),
            ("resourceType=topic", [":.ns:c-value", "s", "t"]),
            ("resourceType=queue", []),
            ("associationType=key", ["t"]),
            ("associationType=key&associationType=value", [":.ns:c-value", "s", "t"]),
            ("lifecycle=WEAK", ["s", "t"]),
            ("lifecycle=STRONG", [":.ns:c-value"]),
            ("lifecycle=NONE", ["u"]),
            ("lifecycle=NONE&associationType=key", [":.ns:c-value", "s", "u"]),
            ("lifecycle=NONE&lifecycle=STRONG&resourceType=topic", [":.ns:c-value", "u"]),
            ("associationType=value&lifecycle=WEAK&limit=1", ["s"]),
            ("associationType=&resourceType=", []),
            ("associationType=&lifecycle=NONE", [":.ns:c-value", "s", "t", "u"]),
        ],
    )
    def test_schemas_are_filtered_by_them_and_subjects_are_not(
        self, api: Api, query: str, found: list[str]
    ) -> None:
        api.register("u", STRING)
        if "limit" not in query:
            assert api.get(f"/subjects?{query}").json == [":.ns:c-value", "s", "t", "u"]
        listed = api.get(f"/schemas?subjectPrefix=:*:&{query}").json
        assert [each["subject"] for each in listed] == found

    def test_schemas_are_listed_with_the_chosen_associations(self, api: Api) -> None:
        api.put("/config/nick", {"alias": "s"})
        assert all("associations" not in each for each in api.get("/schemas?subjectPrefix=:*:").json)
        listed = api.get("/schemas?lifecycle=WEAK&aliases=true").json
        assert [len(each["associations"]) for each in listed] == [2, 1]
        assert listed[0]["associations"] == api.get("/associations/subjects/s").json
        assert listed[0]["aliases"] == ["nick"]
        (one,) = api.get("/schemas?associationType=key").json
        assert [each["resourceId"] for each in one["associations"]] == ["1"]
        api.register("u", STRING)
        (none,) = api.get("/schemas?lifecycle=NONE").json
        assert "associations" not in none

    def test_all_versions_of_a_subject_are_listed_with_them(self, api: Api) -> None:
        put(api, strong(R_WIDER), name="c", resourceId="3")
        listed = api.get("/schemas?subjectPrefix=:.ns:&lifecycle=STRONG").json
        assert [each["version"] for each in listed] == [1, 2]
        assert listed[0]["associations"] == listed[1]["associations"]
        assert len(api.get("/schemas?subjectPrefix=:.ns:&lifecycle=STRONG&latestOnly=true").json) == 1
