"""The journal of imports: what it has on disk when a process is killed, and which modes are set back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from registry.cli.client.client import RegistryClient
from registry.cli.client.resources import ErrorAnswer, Unreachable
from registry.cli.promotion.performing import ImportJournal, JournalError, open_journal

URL = "http://registry"


class Modes:
    """The modes of a registry's subjects; it cannot be reached after so many changes."""

    def __init__(self, **modes: str) -> None:
        self.modes = {f"/mode/{subject}": mode for subject, mode in modes.items()}
        self.changes = 100

    @property
    def client(self) -> RegistryClient:
        return cast("RegistryClient", self)

    def get(self, path: str, kind: Any) -> dict[str, str]:
        if path not in self.modes:
            raise ErrorAnswer(404, 40409, "there is none")
        return {"mode": self.modes[path]}

    def put(self, path: str, body: dict[str, str], *, force: bool) -> None:
        self._change()
        self.modes[path] = body["mode"]

    def delete(self, path: str) -> None:
        self._change()
        del self.modes[path]

    def _change(self) -> None:
        self.changes -= 1
        if self.changes < 0:
            raise Unreachable("nothing listens there")


@contextmanager
def journal(folder: Path) -> Iterator[ImportJournal]:
    with open_journal({"XDG_STATE_HOME": str(folder)}, URL) as found:
        yield found


def killed(folder: Path, **former_modes: str | None) -> None:
    """Leave what an import leaves that is killed once it has noted its beginning."""
    with journal(folder) as found:
        found.begin(former_modes)


def test_the_former_modes_are_on_disk_before_any_is_changed(tmp_path: Path) -> None:
    killed(tmp_path, a="READWRITE", b=None)
    with journal(tmp_path) as found:
        assert found.former_modes == {"a": "READWRITE", "b": None}
        assert found.unfinished_subjects == ["a", "b"]
        with pytest.raises(JournalError, match=f"another import into {URL} is running"), journal(tmp_path):
            pass


def test_modes_are_set_back_only_where_they_are_still_those_of_the_import(tmp_path: Path) -> None:
    killed(tmp_path, a="READWRITE", b=None, changed="READWRITE", gone="READONLY")
    registry = Modes(a="IMPORT", b="IMPORT", changed="READONLY_OVERRIDE")
    with journal(tmp_path) as found:
        assert found.restore(registry.client) == {"a": "READWRITE", "b": None}
    assert registry.modes == {"/mode/a": "READWRITE", "/mode/changed": "READONLY_OVERRIDE"}
    with journal(tmp_path) as found:
        assert found.former_modes == {}
        assert found.unfinished_subjects == ["a", "b", "changed", "gone"], "some versions may still lack"


def test_what_could_not_be_set_back_is_the_next_time(tmp_path: Path) -> None:
    killed(tmp_path, a="READWRITE", b="READWRITE")
    registry = Modes(a="IMPORT", b="IMPORT")
    registry.changes = 1
    with journal(tmp_path) as found, pytest.raises(Unreachable):
        found.restore(registry.client)
    registry.changes = 1
    with journal(tmp_path) as found:
        assert found.restore(registry.client) == {"b": "READWRITE"}
    assert set(registry.modes.values()) == {"READWRITE"}


def test_of_an_import_that_is_complete_nothing_is_left(tmp_path: Path) -> None:
    killed(tmp_path, a="READWRITE")
    with journal(tmp_path) as found:
        found.begin({"b": None})
        found.finish(["a"])
    with journal(tmp_path) as found:
        assert (found.former_modes, found.unfinished_subjects) == ({"b": None}, ["b"])
        found.finish(["b"])
    assert not [*tmp_path.rglob("*.json")]


def test_a_journal_that_cannot_be_read_stops_the_import_and_is_not_replaced(tmp_path: Path) -> None:
    killed(tmp_path, a="READWRITE")
    [path] = tmp_path.rglob("*.json")
    path.write_text('{"url": 1}')
    with pytest.raises(JournalError, match="repair or remove it"), journal(tmp_path):
        pass
    assert path.read_text() == '{"url": 1}'
