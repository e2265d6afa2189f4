"""Output that cannot be written as it is: disks that are full, closed streams, other encodings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.cli.folder.places import running
from tests.support.running import ROOT

NAME = "ünï-日本-😀"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("output") / "data") as place:
        place.register(NAME, json.dumps({"type": "record", "name": "R", "doc": NAME, "fields": []}))
        yield place.url


def run(
    *words: str, shell: str = "", encoding: str = "utf-8", **given: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a verb; ``shell``: redirections."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding}
    line = ["sh", "-c", f'exec "$0" "$@" {shell}', sys.executable, "-m", "registry", *words]
    return subprocess.run(line, env=environment, check=False, timeout=60, **given)


@pytest.mark.parametrize(
    "words", [("subjects",), ("subjects", "--json"), ("status",), ("show", NAME), ("show", "--help")]
)
def test_a_full_disk_is_reported(url: str, words: tuple[str, ...]) -> None:
    done = run(*words, "--url", url, shell="> /dev/full", stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.decode() == "registrar: [Errno 28] No space left on device\n"


def test_nothing_is_printed_to_streams_that_are_closed(url: str, tmp_path: Path) -> None:
    assert run("status", "--url", url, shell=">&-", stderr=subprocess.PIPE).stderr == b""
    # A remark must not become a part of the answer.
    words = ("history", NAME, "--limit", "1", "--json", "--url", url)
    done = run(*words, shell="2>&-", stdout=subprocess.PIPE)
    assert (done.returncode, len(json.loads(done.stdout)["events"])) == (0, 1)


def test_nobody_is_asked_where_standard_input_is_closed(url: str) -> None:
    done = run("delete", NAME, "--permanent", "--url", url, shell="<&-", stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert b"a permanent deletion without a terminal needs --yes" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_a_terminal_cannot_show_is_escaped(url: str, encoding: str) -> None:
    def shown(*words: str) -> str:
        done = run(*words, "--url", url, encoding=encoding, stdout=subprocess.PIPE)
        assert done.returncode == 0
        return done.stdout.decode(encoding)

    assert json.loads(shown("subjects", "--json")) == [NAME]
    assert json.loads(shown("show", NAME, "--raw"))["doc"] == NAME
    for words in (("subjects",), ("show", NAME), ("history", NAME)):
        assert "\\u65e5\\u672c-\\ud83d\\ude00" in shown(*words)
