"""``atOffset`` and ``atTime``: reads of a subject answer as they did then."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest

from registry.api.backend import ApiSettings
from registry.api.past import BYTES_MAX, PastRows
from registry.domain.errors import RegistryError
from registry.domain.history.moment import Moment, OwnerRows, Unloaded
from tests.api.driver import FIRST_TS, Api, ListBackend, Reply, record
from tests.api.permitting import PermittingApi, rule

SUBJECTS = ("orders", "base", "uses", "alias", ":.c:orders", ":.c:only", "only", "never", "x" * 300)
TARGETS = [
    *(f"/subjects/{each}/versions" for each in SUBJECTS),
    *(f"/subjects/{each}/versions?deleted=true" for each in ("orders", "alias", ":.c:only")),
    "/subjects/orders/versions?deletedAsNegative=true",
    "/subjects/orders/versions?limit=1",
    "/subjects/orders/versions?limit=1&offset=1",
    *(
        f"/subjects/{each}/versions/{version}"
        for each in SUBJECTS
        for version in ("latest", "1", "2", "1?deleted=true")
    ),
    "/subjects/uses/versions/1?format=resolved",
    "/subjects/uses/versions/1?referenceFormat=qualified",
    "/subjects/orders/versions/latest?findTags=*",
    *(f"/subjects/{each}/versions/latest/schema" for each in SUBJECTS),
    "/subjects/orders/metadata?key=owner&value=me",
    "/contexts/.c/subjects/orders/versions/latest",
    *(f"/{what}/{each}{more}" for what in ("config", "mode") for each in (*SUBJECTS, ":.c:", ":.__GLOBAL:")
      for more in ("", "?defaultToGlobal=true")),
    "/config", "/mode", "/config?defaultToGlobal=true",
    "/contexts/.c/config", "/contexts/.c/mode",
]  # fmt: skip


def changed(api: Api) -> None:
    """Change everything that a read of a subject can show."""
    tagged = '{"type":"record","name":"T","fields":[{"name":"a","type":"string","confluent:tags":["PII"]}]}'
    api.register("orders", record("R", "a"))
    api.put("/config/orders", {"compatibility": "FULL"})
    api.register("orders", record("R", "a", "b"), metadata={"properties": {"owner": "me"}})
    api.register("base", '{"type":"record","name":"Base","fields":[]}')
    uses = '{"type":"record","name":"Uses","fields":[{"name":"f","type":"Base"}]}'
    api.register("uses", uses, references=[{"name": "Base", "subject": "base", "version": 1}])
    api.put("/config/alias", {"alias": "orders"})
    api.delete("/subjects/orders/versions/2")
    api.register(":.c:only", record("O", "a"))
    api.register(":.c:orders", record("O", "b"))
    api.put("/config/:.c:", {"compatibility": "NONE"})
    api.put("/mode/:.c:orders", {"mode": "READONLY"})
    api.put("/config", {"compatibility": "FORWARD"})
    api.put("/mode/:.__GLOBAL:", {"mode": "READONLY"})
    api.put("/mode/:.__GLOBAL:", {"mode": "READWRITE"})
    api.put("/config/alias", {"alias": "base"})
    api.delete("/subjects/orders")
    api.delete("/subjects/orders?permanent=true")
    api.register("orders", tagged)
    api.delete("/config/orders")
    api.delete("/subjects/:.c:only")
    api.register("x" * 300, record("X", "a"))
    api.delete("/mode/:.c:orders")
    api.delete("/config")


def shown(reply: Reply) -> tuple[int, bytes, bool]:
    return reply.status, reply.body, "link" in reply.headers


def at(target: str, query: str) -> str:
    return f"{target}{'&' if '?' in target else '?'}{query}"


def test_every_read_answers_as_it_did_after_each_record(api: Api) -> None:
    """A third of the reads after each record, others after the next."""
    changed(api)
    then = Api()
    for one in api.backend.log:
        then.backend.append(one.key, one.value)
        for target in TARGETS[one.offset % 3 :: 3]:
            expected, offset = shown(then.get(target)), one.offset
            for query in (f"atOffset={offset}", f"atTime={FIRST_TS + offset}"):
                reply = api.get(at(target, query))
                assert shown(reply) == expected, (target, query)
                assert reply.headers["x-registry-offset"] == str(offset + 1)
                assert reply.headers["x-registry-at-offset"] == str(offset)
    then.close()


def test_only_answers_about_the_past_say_what_moment_they_are_of(api: Api) -> None:
    api.register("orders", record("R", "a"))
    for target, status, told in (
        ("/subjects/orders/versions", 200, None),
        ("/subjects/none/versions", 404, None),
        ("/subjects/orders/versions?atOffset=1000", 400, None),
        ("/subjects/orders/versions?atTime=1", 404, "-1"),
    ):
        reply = api.get(target)
        assert (reply.status, reply.headers.get("x-registry-at-offset")) == (status, told)


def test_only_what_a_read_needs_is_asked_for(api: Api) -> None:
    changed(api)
    end = len(api.backend.log) - 1
    assert api.get(f"/subjects/base/versions/1?atOffset={end}").status == 200
    assert api.backend.asked_past == [b".\0base\0", b".\0\0", b".__GLOBAL\0\0"]


def test_pages_of_the_past_lead_to_one_another(api: Api) -> None:
    for fields in ("a", "ab", "abc"):
        api.register("orders", record("R", *fields))
    end = len(api.backend.log) - 1
    api.delete("/subjects/orders")
    found, target = [], f"/subjects/orders/versions?limit=2&atOffset={end}"
    while target:
        reply = api.get(target)
        found += reply.json
        target = reply.headers.get("link", "").partition(">")[0][1:]
    assert found == [1, 2, 3]


def test_times_have_several_forms(api: Api) -> None:
    api.register("orders", record("R", "a"))
    first = next(each for each in api.backend.log if b'"SCHEMA"' in (each.key or b""))
    for text, found in (
        (f"{first.ts - 1}", False),
        (f"{first.ts}", True),
        ("2023-11-14T22:13:19Z", False),
        ("2023-11-14T22:13:21Z", True),
        ("2023-11-14T23:13:21+01:00", True),
        ("2023-11-14T23:13:21%2B01:00", True),
        ("2023-11-14T22:13:21", True),
        ("2023-11-14", False),
    ):
        assert (api.get(f"/subjects/orders/versions?atTime={text}").status == 200) is found, text


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("atOffset=1000", 400),
        ("atOffset=-1", 400),
        ("atOffset=x", 400),
        ("atOffset=", 400),
        ("atOffset=9999999999999999999", 400),
        ("atTime=yesterday", 400),
        ("atTime=-1", 400),
        ("atTime=0&atOffset=0", 422),
    ],
)
def test_what_is_no_moment_is_refused(api: Api, query: str, status: int) -> None:
    api.register("orders", record("R", "a"))
    reply = api.get(f"/subjects/orders/versions?{query}")
    assert reply.status == status, reply.body
    assert "atOffset" in reply.json["message"] or "atTime" in reply.json["message"]


def test_what_may_not_be_read_today_may_not_be_read_as_it_was() -> None:
    rules = rule("reads", "reader", "orders", "alias", "uses")
    with PermittingApi(rules) as api:
        changed(api)
        log = api.backend.log
        for one in log:
            target = f"/subjects/other/versions?atOffset={one.offset}"
            assert api.request("GET", target, user="reads").status == 403
            # Whatever the alias led to then: to base, it is no longer permitted.
            reply = api.request("GET", f"/subjects/alias/versions?atOffset={one.offset}", user="reads")
            assert reply.status == 403
            resolved = f"/subjects/uses/versions/1?format=resolved&atOffset={one.offset}"
            assert b"Base" not in api.request("GET", resolved, user="reads").body.replace(b'"Base"', b"")
        asked = api.backend.asked_past
        assert b".\0other\0" not in asked


def test_a_permitted_reader_sees_the_same_past() -> None:
    with PermittingApi(rule("reads", "reader", "orders", ":.c:*")) as api:
        changed(api)
        for target in (each for each in TARGETS if "/subjects/orders/" in each or ":.c:o" in each):
            for one in api.backend.log:
                there = at(target, f"atOffset={one.offset}")
                assert shown(api.request("GET", there, user="reads")) == shown(api.get(there)), there


def test_a_server_without_history_has_no_past() -> None:
    with Api(settings=ApiSettings(history=False)) as api:
        api.register("orders", record("R", "a"))
        assert api.get("/subjects/orders/versions?atOffset=0").status == 501


def test_the_past_may_be_cached_if_it_is_named_by_offset() -> None:
    with Api(settings=ApiSettings(cache_max_age_s=60)) as api:
        api.register("orders", record("R", "a"))
        end = len(api.backend.log) - 1
        kept = api.get(f"/subjects/orders/versions?atOffset={end}").headers
        assert kept["cache-control"] == "max-age=60"
        for query in ("", f"?atTime={FIRST_TS + end}", f"?atOffset={end + 1}"):
            reply = api.get(f"/subjects/orders/versions{query}")
            assert "max-age" not in reply.headers.get("cache-control", "")


def test_a_cluster_confirms_before_it_reads_the_past() -> None:
    with Api(settings=ApiSettings(cluster=True)) as api:
        api.register("orders", record("R", "a"))
        end = len(api.backend.log) - 1
        api.backend.lag()
        assert api.get(f"/subjects/orders/versions?atOffset={end}").status == 200
        api.backend.fresh = False
        assert api.get(f"/subjects/orders/versions?atOffset={end}").status == 503


def test_quoted_names_have_a_past(api: Api) -> None:
    name = quote("a/b ä", safe="")
    api.register(name, record("R", "a"))
    assert api.get(f"/subjects/{name}/versions?atOffset={len(api.backend.log) - 1}").json == [1]


class SilentBackend(ListBackend):
    """Rows of a node that never tells the past."""

    async def past(self, moment: Moment, owners: list[bytes], asker: str = "") -> OwnerRows:
        return await asyncio.get_running_loop().create_future()


def test_a_read_of_the_past_ends_in_the_time_of_a_request() -> None:
    settings = ApiSettings(request_timeout_s=0.1)
    with Api(SilentBackend(settings), settings) as api:
        api.register("orders", record("R", "a"))
        assert api.get("/subjects/orders/versions?atOffset=0").status == 503


class AskedBackend(ListBackend):
    """Rows that know by whom their past was asked for."""

    askers: set[str]

    async def past(self, moment: Moment, owners: list[bytes], asker: str = "") -> OwnerRows:
        self.askers.add(asker)
        return await super().past(moment, owners, asker)


def test_the_past_is_asked_for_by_principal_or_else_by_network() -> None:
    backend = AskedBackend()
    backend.askers = set()
    with PermittingApi(rule("alice", "reader", "*"), backend=backend) as api:
        api.register("orders", record("R", "a"))
        target = f"/subjects/orders/versions?atOffset={len(backend.log) - 1}"
        for user in ("root", "alice"):
            reply = api.request("GET", target, user=user)
            assert reply.status == 200
    assert backend.askers == {":root", ":alice"}
    with Api(backend) as anyone:
        backend.askers = set()
        assert anyone.get(target).status == 200
    assert backend.askers == {"127.0.0.0/24"}


class LargeBackend(ListBackend):
    """Rows of a node whose subjects are all large."""

    async def past(self, moment: Moment, owners: list[bytes], asker: str = "") -> OwnerRows:
        return OwnerRows(1, {owner: [(owner, bytes(1 << 20))] for owner in owners})


def test_a_read_of_the_past_holds_only_so_many_bytes_of_all_subjects_together() -> None:
    rows = PastRows(LargeBackend(), Moment(offset=0), {})

    async def load_all() -> None:
        for count in range(BYTES_MAX >> 20):
            await rows.load(Unloaded(b"%d" % count))

    with pytest.raises(RegistryError, match="too large for one response"):
        asyncio.run(load_all())
