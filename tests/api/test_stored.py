"""Lists of all stored configs and modes, in pages."""

from __future__ import annotations

from urllib.parse import quote

from tests.api.driver import Api


def test_each_is_reported_as_its_own_resource_reports_it(api: Api) -> None:
    assert api.get("/admin/configs").json == []
    assert api.get("/admin/modes").json == []
    api.put("/config", {"compatibility": "NONE"})
    api.put("/config/s", {"normalize": True})
    api.put("/config/:.c:", {"compatibility": "FULL"})
    api.put("/mode/s", {"mode": "READONLY"})
    found = api.get("/admin/configs").json
    assert [each["subject"] for each in found] == ["", "s", ":.c:"]
    for each in found:
        name = f"/{each['subject']}" if each["subject"] else ""
        assert each["config"] == api.get(f"/config{name}").json
    assert api.get("/admin/modes").json == [{"subject": "s", "mode": {"mode": "READONLY"}}]


def test_the_next_page_is_behind_the_last_name(api: Api) -> None:
    names = ["", "a", "a/b", "ab", "ä" * 300, ":.c:a"]
    for name in names:
        api.put(f"/config/{quote(name, safe='')}".rstrip("/"), {"compatibility": "FULL"})
    for limit in (1, 2, 5):
        found = []
        page = api.get(f"/admin/configs?limit={limit}").json
        while page:
            assert len(page) <= limit
            found += [each["subject"] for each in page]
            page = api.get(f"/admin/configs?limit={limit}&after={quote(found[-1], safe='')}").json
        assert found == names
