"""The gate that every request passes before it is routed."""

from __future__ import annotations

import pytest

from registry.domain.errors import RegistryError
from registry.domain.principal import Principal
from registry.security.access import FULL_ACCESS
from registry.security.gate import Admission, Credentials
from tests.api.driver import Api


class PasswordGate:
    """Admits one password, and remembers it."""

    def __init__(self) -> None:
        self.seen: list[Credentials] = []
        self._known: set[bytes] = set()
        self._admission = Admission(Principal("alice"), FULL_ACCESS)

    def known(self, credentials: Credentials) -> Admission | None:
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
