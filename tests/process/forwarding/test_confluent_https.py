"""Writes forwarded to the public port of a primary that has no peer endpoint, as Confluent's nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from registry.domain.commands import Command, NotPrimary, Outcome, Refused, Register
from registry.forwarding.confluent_client import ConfluentClient, plain_request
from registry.node.leadership.identity import identity_of
from tests.process.forwarding.members import Member
from tests.support.certificates import Authority
from tests.support.pending import pending
from tests.support.running import Registry, free_port
from tests.unit.forwarding.wire_samples import COMMANDS

WRITE = Register("s", '"string"')


def test_a_write_is_forwarded_over_https_to_a_primary_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, port, plain = Authority(plain=True), free_port(), free_port()
    certificate, key = authority.issue().write(tmp_path, "server")
    listeners = f"http://127.0.0.1:{plain},https://127.0.0.1:{port}"
    tls = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    primary = Registry(tmp_path / "data", "--listeners", listeners, *tls, "--readers", "1", port=plain)
    try:
        primary.wait()
        first = asyncio.run(forwarded(f"https://localhost:{port}", WRITE))
        assert isinstance(first, NotPrimary), "the system does not trust this authority"
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.write(tmp_path, "ca")))
        second = asyncio.run(forwarded(f"https://localhost:{port}", WRITE))
        assert b'"id":1' in getattr(second, "body", b""), second
    finally:
        primary.stop()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: type(each).__name__)
def test_a_command_that_such_a_primary_cannot_execute_is_refused(command: Command) -> None:
    try:
        plain_request(command)
    except ValueError:
        outcome = asyncio.run(forwarded(f"http://127.0.0.1:{free_port()}", command))
        assert isinstance(outcome, Refused)
        assert outcome.code == 503


async def forwarded(url: str, command: Command) -> Outcome:
    """Forward a command to the node at ``url``."""
    client = ConfluentClient(identity_of(url), Member("secondary", []))
    deadline = asyncio.get_running_loop().time() + 30.0
    try:
        return await client.ask(pending(command, deadline=deadline))
    finally:
        await client.retire(0)
