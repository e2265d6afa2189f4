"""Errors of requests to a registry, each with one sentence that says what to do."""

from __future__ import annotations


class RegistryError(Exception):
    """A request without a usable answer; the text says what happened, to what, and what to do."""


class Unreachable(RegistryError):
    """No answer of any server: unknown host, nothing listening, wrong protocol, timeout."""


class NotARegistry(RegistryError):
    """An answer that no schema registry gives."""


class BadAddress(RegistryError):
    """An address, credentials or a certificate that cannot be used; nothing was sent."""


class ErrorAnswer(RegistryError):
    """An error that the registry answered with: the HTTP status, its own code, and its message."""

    def __init__(self, status: int, code: int, message: str, advice: str = "") -> None:
        super().__init__(f"{message}{advice}" if message else f"the registry answered {status}{advice}")
        self.status, self.code, self.message = status, code, message

    @property
    def is_unknown_resource(self) -> bool:
        """True if the server has no such resource, as an older or another registry may not."""
        return self.status in (404, 405) and self.code in (404, 405)

    @property
    def is_verdict(self) -> bool:
        """True if the registry understood the request and refused it: repeating it changes nothing."""
        return self.status in (404, 409, 422) and not self.is_unknown_resource
