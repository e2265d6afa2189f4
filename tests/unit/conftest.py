"""Fixtures of the unit tests."""

from __future__ import annotations

import pytest

from tests.unit.small_registry import SmallRegistry


@pytest.fixture
def small() -> SmallRegistry:
    """Return an empty registry in memory."""
    return SmallRegistry()
