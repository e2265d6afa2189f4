"""A registry whose clients are who they say, with rules for them."""

from __future__ import annotations

from registry.api.backend import ApiSettings
from registry.domain.principal import Principal
from registry.security.authorization.rules import Rules
from registry.security.authorization.rules_file import parse
from registry.security.gate import Admission, Credentials
from tests.api.driver import Api, Headers, ListBackend, Reply

ROOT = '[[allow]]\nprincipal = "root"\nrole = "admin"\nsubjects = "*"\n'


class RulesGate:
    """Takes the header ``Authorization`` for the principal's name, and applies rules that may be replaced."""

    def __init__(self, text: str) -> None:
        self.rules: Rules
        self.replace(text)

    def replace(self, text: str) -> None:
        self.rules = parse((ROOT + text).encode())

    def cached_admission(self, credentials: Credentials) -> Admission | None:
        principal = Principal(credentials.authorization.decode())
        return Admission(principal, self.rules.access(principal))

    async def admit(self, credentials: Credentials) -> Admission:
        raise AssertionError("everyone is known")


class PermittingApi(Api):
    """An :class:`Api` whose requests come from ``root`` unless another user is named."""

    def __init__(self, text: str, settings: ApiSettings | None = None, backend: object = None) -> None:
        self.gate = RulesGate(text)
        super().__init__(backend or ListBackend(settings), settings, gate=self.gate)

    def request(
        self,
        method: str,
        target: str | bytes,
        body: object = None,
        headers: Headers | None = None,
        user: str = "root",
    ) -> Reply:
        return super().request(method, target, body, {**dict(headers or {}), "authorization": user})


def rule(principal: str, what: str, *subjects: str) -> str:
    """The text of a rule; ``what``: a role, or operations with commas between them."""
    named = ("reader", "developer", "operator", "admin")
    listed = ", ".join(f'"{each}"' for each in what.split(","))
    granted = f'role = "{what}"' if what in named else f"operations = [{listed}]"
    shown = ", ".join(f'"{each}"' for each in subjects)
    return f'[[allow]]\nprincipal = "{principal}"\n{granted}\nsubjects = [{shown}]\n'
