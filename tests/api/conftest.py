from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.driver import Api


@pytest.fixture
def api() -> Iterator[Api]:
    """Return a fresh registry behind its API."""
    found = Api()
    yield found
    found.close()
