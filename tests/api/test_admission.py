"""The gate that every request passes before it is routed."""

from __future__ import annotations

import pytest

from registry.api.admission import OPEN_PATHS
from registry.api.backend import ApiSettings
from registry.api.routes import operations
from registry.domain.errors import RegistryError
from registry.domain.principal import Principal
from registry.security.gate import FULL_ACCESS, Admission, Credentials, NotAdmitted
from tests.api.driver import Api


class PasswordGate:
    """Admits one password, and remembers it."""

    def __init__(self) -> None:
        self.seen: list[Credentials] = []
        self._known: set[bytes] = set()
        self._admission = Admission(Principal("alice"), FULL_ACCESS)

    def cached_admission(self, credentials: Credentials) -> Admission | None:
        return self._admission if credentials.authorization in self._known else None

    async def admit(self, credentials: Credentials) -> Admission:
        self.seen.append(credentials)
        if credentials.authorization != b"Basic right":
            raise RegistryError(401, "Unauthorized")
        self._known.add(credentials.authorization)
        return self._admission


@pytest.mark.parametrize("target", ["/subjects", "/no-such-path"])
def test_a_request_without_valid_credentials_is_refused_before_it_is_routed(target: str) -> None:
    with Api(gate=PasswordGate()) as api:
        assert api.get(target).error == (401, 401, "Unauthorized")
        assert api.get(target, authorization="Basic wrong").status == 401


def test_credentials_that_the_gate_knows_are_not_verified_again() -> None:
    gate = PasswordGate()
    with Api(gate=gate) as api:
        assert api.get("/subjects", authorization="Basic right").status == 200
        assert api.get("/subjects", authorization="Basic right").status == 200
    assert gate.seen == [Credentials(authorization=b"Basic right", address="127.0.0.1")]


def test_a_preflight_needs_no_credentials() -> None:
    with Api(gate=PasswordGate()) as api:
        assert api.request("OPTIONS", "/subjects").status == 200


OPEN = ["/" + "/".join(path) for path in OPEN_PATHS]


def test_open_paths_are_those_of_operations() -> None:
    async def metrics() -> bytes:
        return b""

    assert {*OPEN} <= {each.path for each in operations("1", metrics)}


def test_health_and_metrics_need_no_credentials_unless_a_setting_closes_them() -> None:
    async def metrics() -> bytes:
        return b"metrics"

    with Api(gate=PasswordGate(), metrics=metrics) as api:
        assert {api.get(path).status for path in OPEN} == {200}
        # The same resource by another path is the same; another resource is not.
        assert api.get("/health%2Flive").status == 401
        assert api.get("/node").status == 401
    with Api(gate=PasswordGate(), metrics=metrics, settings=ApiSettings(open_paths=False)) as api:
        assert {api.get(path).status for path in OPEN} == {401}
        assert api.get("/health/ready", authorization="Basic right").status == 200


def test_a_refusal_has_the_gate_s_headers() -> None:
    class Closed(PasswordGate):
        async def admit(self, credentials: Credentials) -> Admission:
            raise NotAdmitted(401, "Unauthorized", ((b"www-authenticate", b"Basic"),))

    with Api(gate=Closed()) as api:
        reply = api.get("/subjects")
        assert reply.error == (401, 401, "Unauthorized")
        assert reply.headers["www-authenticate"] == "Basic"
        assert "x-request-id" in reply.headers


def test_the_address_is_the_forwarded_one_only_behind_a_trusted_proxy() -> None:
    for proxies, address in ((("127.0.0.0/8",), "192.0.2.7"), ((), "127.0.0.1")):
        gate = PasswordGate()
        with Api(gate=gate, settings=ApiSettings(trusted_proxies=proxies)) as api:
            headers = {"x-forwarded-for": "10.0.0.1, 192.0.2.7", "authorization": "Basic right"}
            assert api.request("GET", "/subjects", headers=headers).status == 200
        assert [each.address for each in gate.seen] == [address]


def test_two_authorization_headers_are_no_valid_one() -> None:
    gate = PasswordGate()
    with Api(gate=gate) as api:
        twice = [("authorization", "Basic right"), ("authorization", "Basic right")]
        assert api.request("GET", "/subjects", headers=twice).status == 401
    assert gate.seen[0].authorization == b"Basic right, Basic right"
