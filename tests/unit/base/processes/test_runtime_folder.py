"""Parents that start at the same time do not take each other's new folders for abandoned ones."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from registry.base.processes.file_lock import LockHeld, hold
from registry.base.processes.sockets import runtime_folder

PARENTS, STARTS = 4, 100


def test_folders_made_while_others_are_looked_through_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def start_again_and_again(_: int) -> None:
        for _ in range(STARTS):
            with ExitStack() as stack:
                folder = stack.enter_context(runtime_folder())
                (folder / "socket").touch()
                with pytest.raises(LockHeld):
                    hold(folder / "parent.lock")

    with ThreadPoolExecutor(PARENTS) as parents:
        list(parents.map(start_again_and_again, range(PARENTS)))
    assert [*tmp_path.iterdir()] == []
