"""Pages of other origins."""

from __future__ import annotations

import pytest

from registry.api.backend import ApiSettings
from tests.api.driver import Api

UI = "https://ui.example"


def cors(headers) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("access-control-")}


def test_without_the_setting_no_answer_speaks_of_origins() -> None:
    with Api() as api:
        assert cors(api.get("/subjects", origin=UI).headers) == {}


@pytest.mark.parametrize(("origins", "allowed"), [((UI, "https://b"), UI), (("*",), "*")])
def test_pages_of_an_allowed_origin_may_read_answers_and_own_headers(origins, allowed) -> None:
    with Api(settings=ApiSettings(cors_origins=origins)) as api:
        for target, status in (("/subjects", 200), ("/schemas/ids/1", 404), ("/nowhere", 404)):
            reply = api.get(target, origin=UI)
            assert reply.status == status
            assert reply.headers["access-control-allow-origin"] == allowed
            assert "x-registry-offset" in reply.headers["access-control-expose-headers"]


def test_other_origins_may_not_and_caches_learn_that() -> None:
    with Api(settings=ApiSettings(cors_origins=(UI,))) as api:
        for headers in ({"origin": "https://evil.example"}, {}):
            reply = api.get("/subjects", **headers)
            assert cors(reply.headers) == {}
            assert reply.headers["vary"] == "origin"


def test_a_page_may_ask_what_it_may_send() -> None:
    with Api(settings=ApiSettings(cors_origins=(UI,))) as api:
        headers = {
            "origin": UI,
            "access-control-request-method": "PUT",
            "access-control-request-headers": "content-type,x-registry-min-offset",
        }
        reply = api.request("OPTIONS", "/config", None, headers)
        assert reply.status == 200
        assert cors(reply.headers) == {
            "access-control-allow-origin": UI,
            "access-control-allow-methods": "GET, HEAD, POST, PUT, DELETE",
            "access-control-allow-headers": "content-type,x-registry-min-offset",
            "access-control-max-age": "3600",
        }
