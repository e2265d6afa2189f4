"""The file of rules, in either format, recognised by its content."""

from __future__ import annotations

from .karapace import parse_permissions
from .rules import Rules, parse_rules


def parse(content: bytes) -> Rules:
    """Read our TOML, or Karapace's JSON. Raises :class:`~registry.security.watched_file.FileError`."""
    return parse_permissions(content) if content.lstrip().startswith(b"{") else parse_rules(content)
