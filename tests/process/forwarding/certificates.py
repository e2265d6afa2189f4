"""Certificates of nodes."""

from __future__ import annotations

from pathlib import Path

from registry.forwarding.authentication import Security
from tests.support.certificates import Authority


def security(authority: Authority, folder: Path, name: str) -> Security:
    """Write a certificate for a node, its key and that of its authority, and return their paths."""
    certificate, key = authority.issue(f"CN={name}").write(folder, name)
    ca = authority.write(folder, f"{name}-ca")
    return Security(certificate=str(certificate), key=str(key), authority=str(ca))
