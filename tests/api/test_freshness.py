"""Reads and writes over rows that lag behind the log: they wait for missing records, or say that they lag."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest

from registry.api.backend import ApiSettings
from registry.api.routes import operations
from registry.domain.commands import Unknown
from tests.api.driver import Api, ListBackend, Reply

CLUSTER = ApiSettings(cluster=True)
STALE = '110 - "Response is Stale"'


@pytest.fixture
def api() -> Iterator[Api]:
    """Return one node of a cluster."""
    with Api(settings=CLUSTER) as found:
        yield found


@pytest.fixture
def local() -> Iterator[Api]:
    """Return a node that serves its rows without confirmation."""
    with Api(settings=ApiSettings(cluster=True, local_reads=True)) as found:
        yield found


def test_what_is_found_by_id_is_never_confirmed_but_its_absence_is(api: Api) -> None:
    found = api.register("s", '"int"')
    api.backend.confirmed = 0
    assert api.get(f"/schemas/ids/{found}").status == 200
    assert api.backend.confirmed == 0
    assert api.get("/schemas/ids/99").status == 404
    assert api.backend.confirmed == 1
    assert api.get("/subjects").status == 200
    assert api.backend.confirmed == 2


READS: dict[str, tuple[Callable[[Api], Reply], Callable[[Reply], bool]]] = {
    "by id": (lambda api: api.get("/schemas/ids/2"), lambda reply: reply.status == 200),
    "latest": (lambda api: api.get("/subjects/s/versions/latest"), lambda reply: reply.json["version"] == 2),
    "version": (lambda api: api.get("/subjects/s/versions/2"), lambda reply: reply.status == 200),
    "list": (lambda api: api.get("/subjects/s/versions"), lambda reply: reply.json == [1, 2]),
    "lookup": (lambda api: api.post("/subjects/s", {"schema": '"long"'}), lambda reply: reply.status == 200),
    "register": (
        lambda api: api.post("/subjects/s/versions", {"schema": '"long"'}),
        lambda reply: reply.json["id"] == 2,
    ),
}


@pytest.mark.parametrize("read", READS)
def test_a_read_sees_what_another_node_wrote_before(api: Api, read: str) -> None:
    api.register("s", '"int"')
    api.register("s", '"long"')
    api.backend.lag()
    ask, holds = READS[read]
    assert holds(ask(api))


# What never changes if it is there, and what the primary answers itself.
NEVER_CONFIRMED = {
    "/schemas/guids/{guid}", "/schemas/ids/{id}", "/schemas/ids/{id}/schema", "/schemas/types",
    "/", "/v1/metadata/deployment", "/v1/metadata/version", "/admin/webhooks",
}  # fmt: skip


def test_every_read_of_what_can_change_is_confirmed(api: Api) -> None:
    """A new operation is confirmed too, unless it is added to those that need not be."""
    api.register("s", '"int"')
    guid = api.get("/subjects/s/versions/1").json["guid"]
    named = {"subject": "s", "version": "1", "id": "1", "guid": guid}
    unconfirmed, answered = set(), set()
    for each in operations("", None):
        if each.method != "GET" or each.handler is None:
            continue
        api.backend.confirmed = 0
        target = each.path.format_map(defaultdict(lambda: "none", named))
        if api.get(target).status == 200:
            answered.add(each.path)
            if not api.backend.confirmed:
                unconfirmed.add(each.path)
    assert unconfirmed == NEVER_CONFIRMED
    assert {"/subjects", "/schemas", "/contexts", "/subjects/{subject}/versions", "/config"} <= answered


@pytest.mark.parametrize("target", ["/schemas/ids/2", "/subjects/t/versions/latest", "/config/s"])
def test_a_miss_that_cannot_be_confirmed_is_no_404(api: Api, target: str) -> None:
    api.register("s", '"int"')
    api.backend.fresh = False
    reply = api.get(target)
    assert reply.error[:2] == (503, 503)
    assert reply.headers["retry-after"] == "1"


def test_a_miss_in_a_part_of_an_answer_is_confirmed_as_well(api: Api, local: Api) -> None:
    target = "/subjects/s/summary?include=entity&version=2"
    for each in (api, local):
        each.register("s", '"int"')
        each.backend.fresh = False
        assert each.get(target).json["entity"]["error_code"] == 503
        each.backend.fresh = True
        assert each.get(target).json["entity"]["error_code"] == 40402
        each.register("s", '"long"')
        each.backend.lag()
        assert each.get(target).json["entity"]["version"] == 2


def test_what_is_there_is_answered_with_a_warning_when_the_log_cannot_be_asked(api: Api) -> None:
    found = api.register("s", '"int"')
    assert "warning" not in api.get("/subjects").headers
    api.backend.fresh = False
    for target in ("/subjects", "/subjects/s/versions/latest", "/config", "/mode"):
        reply = api.get(target)
        assert (reply.status, reply.headers["warning"]) == (200, STALE), target
    assert "warning" not in api.get(f"/schemas/ids/{found}").headers


def test_wrong_requests_are_refused_whether_or_not_the_log_can_be_asked(api: Api) -> None:
    api.register("s", '"int"')
    api.backend.fresh = False
    assert api.get("/subjects/s/versions/0").error[:2] == (422, 42202)
    assert api.get("/schemas/ids/x").error[:2] == (404, 404)
    assert api.get("/nowhere").error[:2] == (404, 404)


def test_a_schema_that_was_deleted_elsewhere_is_registered_anew(api: Api) -> None:
    api.register("s", '"int"')
    api.delete("/subjects/s")
    api.backend.lag()
    assert api.get("/subjects/s/versions/1").status == 404
    api.backend.submitted.clear()
    assert api.register("s", '"int"') == 1
    assert len(api.backend.submitted) == 1


def test_a_schema_that_is_here_goes_to_the_primary_when_nobody_knows_whether_it_still_is(api: Api) -> None:
    api.register("s", '"int"')
    api.backend.submitted.clear()
    api.backend.fresh = False
    assert api.register("s", '"int"') == 1
    assert len(api.backend.submitted) == 1


def test_a_write_follows_an_alias_that_only_the_primary_knows(api: Api) -> None:
    api.register("real", '"int"')
    api.put("/config/nick", {"alias": "real"})
    api.backend.lag()
    assert api.post("/subjects/nick/versions", {"schema": '"long"'}).json["version"] == 2
    api.put("/config/other", {"alias": "real"})
    api.backend.lag()
    assert api.delete("/subjects/other/versions/1").json == 1
    assert api.get("/subjects/real/versions").json == [2]


def test_a_new_schema_waits_for_no_confirmation(api: Api) -> None:
    api.backend.fresh = False
    api.register("s", '"int"')
    assert api.backend.confirmed == 0


def test_believing_the_rows_asks_only_about_what_is_missing(local: Api) -> None:
    local.register("s", '"int"')
    local.backend.confirmed = 0
    for target in ("/subjects", "/subjects/s/versions/latest", "/config"):
        assert local.get(target).status == 200
    assert local.backend.confirmed == 0
    assert local.get("/subjects/t/versions").status == 404
    assert local.backend.confirmed == 1
    local.backend.fresh = False
    assert "warning" not in local.get("/subjects").headers
    assert local.get("/subjects/t/versions").status == 503


def test_believing_the_rows_does_not_acknowledge_writes_by_them(local: Api) -> None:
    local.register("s", '"int"')
    local.backend.confirmed = 0
    local.register("s", '"int"')
    assert local.backend.confirmed == 1


def test_an_offset_of_another_node_is_waited_for(api: Api) -> None:
    api.register("s", '"int"')
    offset = api.put("/config", {"compatibility": "NONE"}).headers["x-registry-offset"]
    api.backend.lag()
    reply = api.get("/schemas/ids/1", x_registry_min_offset=offset)
    assert (reply.status, reply.headers["x-registry-offset"]) == (200, offset)


def test_an_offset_that_cannot_be_had_in_time_is_503(api: Api) -> None:
    api.register("s", '"int"')
    api.backend.lag()
    api.backend.fresh = False
    reply = api.get("/config", x_registry_min_offset="2")
    assert reply.error[:2] == (503, 503)
    assert reply.headers["retry-after"] == "1"


def test_an_offset_beyond_the_log_is_refused(api: Api) -> None:
    assert api.get("/config", x_registry_min_offset="1").error[:2] == (400, 400)


def test_the_offset_of_an_answer_is_not_before_the_rows_that_were_read(api: Api) -> None:
    api.register("s", '"int"')
    end = len(api.backend.log)
    api.backend.lag()
    assert api.get("/subjects").headers["x-registry-offset"] == str(end)


def test_who_sent_a_write_travels_with_it(api: Api) -> None:
    api.post("/subjects/s/versions", {"schema": '"int"'}, x_request_id="r-1")
    api.post("/subjects/s/versions", {"schema": '"long"'}, x_request_id="r-2", x_forward="true")
    assert [(each.request_id, each.forwarded) for each in api.backend.origins] == [
        ("r-1", False),
        ("r-2", True),
    ]


class _Uncertain(ListBackend):
    async def submit(self, command, _origin):
        return Unknown("nobody knows")


def test_an_unknown_outcome_is_50002() -> None:
    with Api(_Uncertain()) as api:
        assert api.put("/config", {}).error == (500, 50002, "nobody knows")


@pytest.mark.parametrize(
    "path", ["/subjects", "/schemas/ids/99", "/config/s", "/subjects/s/versions?limit=1"]
)
@pytest.mark.parametrize("kind", ["application/json", "application/vnd.schemaregistry.v1+json"])
def test_a_request_ends_when_its_time_is_over(path: str, kind: str) -> None:
    with Api(settings=ApiSettings(cluster=True, request_timeout_s=0.02)) as api:
        api.backend.stuck = True
        reply = api.request("GET", path, headers=[("Accept", kind)])
    assert reply.error == (504, 504, "Request timed out")
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "must-revalidate,no-cache,no-store"


def test_a_write_is_told_when_its_requests_time_is_over() -> None:
    with Api(settings=ApiSettings(cluster=True, request_timeout_s=7)) as api:
        asked = time.monotonic()
        api.register("s", '"int"')
        (origin,) = api.backend.origins
    assert origin.until is not None
    assert asked + 7 <= origin.until <= time.monotonic() + 7
