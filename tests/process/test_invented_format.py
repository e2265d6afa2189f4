"""A format works everywhere once it is in the table of formats: here one that only this test has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

import registry.cli.decoding
from registry.domain.schemas import FORMATS
from registry.ui.console import is_complete
from tests.process.cli.running_verbs import Done, verb
from tests.support.running import ROOT, Registry
from tests.support.word_format import DECODERS, WordFormat

# Python imports this at the start of each process of the registry.
CUSTOMIZE = """
from registry.domain.schemas import FORMATS
from tests.support.word_format import WordFormat

FORMATS["WORDS"] = WordFormat()
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a registry whose processes have the format in their table, as this process then has."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "sitecustomize.py").write_text(CUSTOMIZE)
    served = Registry(folder / "data", environment={"PYTHONPATH": f"{folder}:{ROOT}"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FORMATS, "WORDS", WordFormat())
        patch.setattr(registry.cli.decoding, "__path__", [*registry.cli.decoding.__path__, str(DECODERS)])
        try:
            yield served.wait().url
        finally:
            assert served.stop() == 0


def written(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def ok(done: Done) -> Done:
    assert (done.status, done.err) == (0, ""), done
    return done


def test_the_api_stores_and_compares_it(url: str) -> None:
    with httpx.Client(base_url=url) as client:
        assert client.get("/schemas/types").json() == ["JSON", "PROTOBUF", "AVRO", "WORDS"]
        body = {"schema": " one  two ", "schemaType": "WORDS"}
        assert client.post("/subjects/api/versions", json=body).json()["schema"] == "one two"
        refused = client.post("/subjects/api/versions", json={"schema": "two", "schemaType": "WORDS"})
        assert (refused.status_code, refused.json()["error_code"]) == (409, 40901)
        [found] = client.get("/subjects", params={"detail": True, "schemaType": "words"}).json()
        assert (found["subject"], found["schemaType"]) == ("api", "WORDS")
        assert 'registrar_versions{state="live",type="WORDS"} 1' in client.get("/metrics").text


def test_the_verbs_register_show_and_compare_files(url: str, tmp_path: Path) -> None:
    file = written(tmp_path / "a.words", "one two")
    assert ok(verb("register", "cli", file, "--url", url, "--json")).json["schemaType"] == "WORDS"
    assert ok(verb("show", "cli", "--url", url)).out.splitlines()[-1] == "one two"
    other = written(tmp_path / "b", "two one")
    ok(verb("register", "cli", other, "--type", "words", "--url", url))
    assert verb("diff", file, "cli:2", "--url", url).status == 1


def test_a_folder_is_downloaded_and_checked(url: str, tmp_path: Path) -> None:
    file = written(tmp_path / "a.words", "one two")
    ok(verb("register", "folder", file, "--url", url))
    folder = tmp_path / "schemas"
    assert verb("download", str(folder), "--subjects", "folder", "--url", url).status == 0
    assert (folder / "folder.words").read_text() == "one two"
    assert verb("check", str(folder), "--url", url).status == 0
    written(folder / "folder.words", "two")
    done = verb("check", str(folder), "--url", url)
    assert (done.status, "WORD_MISSING at #/one" in done.out) == (1, True)


def test_messages_are_decoded(url: str, tmp_path: Path) -> None:
    file = written(tmp_path / "a.words", "one two")
    given = ok(verb("register", "decoded", file, "--url", url, "--json")).json["id"]
    message = tmp_path / "message"
    message.write_bytes(b"\0" + given.to_bytes(4, "big") + b"two")
    assert json.loads(ok(verb("decode", str(message), "--url", url)).out) == "two"
    message.write_bytes(b"\0" + given.to_bytes(4, "big") + b"six")
    assert "six is not a word of the schema" in verb("decode", str(message), "--url", url).err


class Formats(HTMLParser):
    """Finds what a page says about formats."""

    said = ""
    inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = ("id", "formats") in attrs

    def handle_data(self, data: str) -> None:
        self.said += data if self.inside else ""

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


@pytest.mark.skipif(not is_complete(), reason="the console's libraries are not bundled")
def test_the_console_reports_it(url: str) -> None:
    page = Formats()
    page.feed(httpx.get(f"{url}/ui/").text)
    assert json.loads(page.said)[-1] == {
        "name": "WORDS", "title": "Words", "language": "", "extension": "words",
        "sample": "order number", "resolves": False,
    }  # fmt: skip
