"""The error of messages that cannot be decoded."""

from __future__ import annotations


class CannotDecode(ValueError):
    """Raised for a message that is not what its schema says; ``str(error)`` is for the user."""
