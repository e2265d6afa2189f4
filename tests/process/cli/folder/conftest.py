"""Two registries for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.cli.folder.places import Place, running


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running(tmp_path_factory.mktemp("one") / "data") as place:
        yield place


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running(tmp_path_factory.mktemp("other") / "data") as place:
        yield place
