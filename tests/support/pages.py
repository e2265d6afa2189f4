"""Pages of the docs as scripts: their code blocks, and a shell that runs those of one page.

A comment in the line above a block says what is special about it (:data:`NOTES`). Addresses in the blocks are
replaced by those of servers that are started for the page, and folders of the system by the page's own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.local.process import Process
from tests.support.running import ROOT, free_port, until

DOCS = (
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *(ROOT / name for name in ("SECURITY.md", "CODE_OF_CONDUCT.md")),
    *sorted((ROOT / "bench").glob("*.md")),
    *sorted((ROOT / "deploy").rglob("*.md")),
    *sorted(
        path
        for package in ("registry", "registrar", "election", "snapshots")
        for path in (ROOT / package).rglob("*.md")
        if "node_modules" not in path.parts
    ),
    *sorted((ROOT / "docs").glob("*.md")),
)
RUNNABLE = ("sh", "python")
# Languages of blocks that show something; an empty one is for output.
SHOWN = (
    *("", "avro", "go", "hcl", "ini", "js", "json", "nginx", "promql", "properties", "proto", "sql", "toml"),
    *("xml", "yaml"),
)
# The comments, as CONTRIBUTING.md explains them; those with a colon have a value.
NOTES = ("not run:", "takes long", "runs until stopped", "exit status:", "typed:", "file:", "output")
_NOTE = re.compile(rf"<!-- ({'|'.join(NOTES)})(?: (.*?))? -->")
_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<code>.*?)^ *```$", re.DOTALL | re.MULTILINE)
# Longer than a page takes on a busy machine; one that hangs is killed.
TIMEOUT_S = 300.0
_MAIN_PORT = 8081
_BROKER_PORT = 9092
# Of the server that fills a page's log; no page names it.
_FILLING_PORT = 8079
_REGISTERED = r'{"schema": "\"string\""}'
_LOCAL = re.compile(r"(?<![\w.-])(?:127\.0\.0\.1|0\.0\.0\.0|localhost|kafka-\d|registrar-\d):(\d{4,5})\b")
# The folders of the system that the docs use for examples.
FOLDERS = ("etc/registrar", "mnt/registrar", "var/lib/registrar")
_FOLDER = re.compile(rf"(?<![\w.…])/(?={'|'.join(FOLDERS)})")
# A command on Kafka, with the lines that continue it. Its topic is the page's; without Kafka that is refused.
_ON_KAFKA = re.compile(r"^registrar (?=(?:.*\\\n)*.*--kafka)", re.MULTILINE)

# Waits until a server answers; it ends the page if the server ends instead.
_SERVE = """\
declare -A serving
serve() {
  if [ -n "${serving[$1]:-}" ]; then kill "${serving[$1]}"; wait "${serving[$1]}" || true; fi
  bash -eu "$2.sh" >"$2.out" 2>"$2.err" </dev/null & serving[$1]=$!
  until curl -fso /dev/null "http://127.0.0.1:$1/health/ready" ||
        curl -fkso /dev/null "https://127.0.0.1:$1/health/ready"; do
    kill -0 "${serving[$1]}" || exit 1
    sleep 0.05
  done
}
"""


@dataclass(frozen=True)
class Block:
    """A code block of a page, with the note above it; ``value`` is the text after the note's colon."""

    line: int
    language: str
    code: str
    note: str = ""
    value: str = ""

    @property
    def runs(self) -> bool:
        """True if the block is a part of the page's script."""
        return self.language in RUNNABLE and self.note not in ("not run", "file")

    @property
    def needs_broker(self) -> bool:
        """True if the block connects to Kafka."""
        return self.runs and f":{_BROKER_PORT}" in self.code

    @property
    def takes_long(self) -> bool:
        """True if the block is left to ``make test-long``."""
        return self.note == "takes long"

    @property
    def serves(self) -> bool:
        """True if the block ends only when it is stopped; the blocks below it are run meanwhile."""
        return self.note == "runs until stopped"


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page in their order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        above = text[: match.start()].rstrip("\n").rpartition("\n")[2].strip()
        note = _NOTE.fullmatch(above)
        code = re.sub(rf"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
        line = text.count("\n", 0, match.start()) + 1
        kind, value = (note[1].removesuffix(":"), note[2] or "") if note else ("", "")
        found.append(Block(line, match["language"], code, kind, value))
    return found


class Page:
    """The script of one page, run in ``folder``; ``broker`` is the address of a Kafka broker.

    Blocks that take long are left out unless ``long``.
    """

    def __init__(self, page: Path, folder: Path, *, broker: str = "", long: bool = False) -> None:
        self.name = re.sub(r"\W", "-", str(page.relative_to(ROOT).with_suffix("")))
        self._folder = folder
        self._broker = broker
        self._ports: dict[int, int] = {}
        self._blocks = [each for each in blocks(page) if long or not each.takes_long]

    def run(self) -> None:
        """Run the blocks; fail if one of them fails, or prints something else than the page shows."""
        for folder in ("work", *FOLDERS):
            (self._folder / folder).mkdir(parents=True)
        script = self._folder / "page.sh"
        script.write_text("".join(self._script()), encoding="utf-8")
        shell = Process(self.name, ["bash", "-eu", script], self._folder / "shell.txt")
        shell.environment = self._environment()
        shell.start()
        try:
            until(lambda: _has_ended(shell.pid), TIMEOUT_S, f"the commands of {self.name} to end")
        finally:
            shell.kill()  # with all servers that the page has started
        for number, block in enumerate(self._blocks):
            if block.runs:
                self._check(number, block)

    def _environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("REGISTRAR_")}
        return inherited | {
            "HOME": str(self._folder),
            "PATH": f"{Path(sys.executable).parent}:{inherited['PATH']}",
            "REGISTRAR_LISTEN": f"127.0.0.1:{self._port(_MAIN_PORT)}",
            "REGISTRAR_READERS": "1",
            # Spark takes ten times as long; blocks that are about it name it.
            "REGISTRAR_SNAPSHOTS_BUILDER": "local",
            "XDG_CACHE_HOME": inherited.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
        }

    def _script(self) -> Iterator[str]:
        yield f"{_SERVE}cd {self._folder}/work\n"
        runs = [block for block in self._blocks if block.runs]
        yield from self._filled_log(runs)
        first = next((each for each in runs if f":{_MAIN_PORT}" in each.code or each.serves), None)
        if first and "registrar serve" not in first.code:
            log = f"--kafka 127.0.0.1:{_BROKER_PORT}" if self._broker else ""
            yield self._serve("own", _MAIN_PORT, f"registrar serve --data {self._folder}/registry {log}\n")
        for number, block in enumerate(self._blocks):
            if block.note == "file":
                self._write(block)
            if not block.runs:
                continue
            if block.serves:
                listens = re.search(r"--listen\S* \S*?:(\d+)\b", block.code)
                yield self._serve(str(number), int(listens[1]) if listens else _MAIN_PORT, block.code)
            else:
                yield self._section(number, block)
            yield f"touch {self._folder}/{number}.done\n"

    def _filled_log(self, runs: list[Block]) -> Iterator[str]:
        """Register a schema if the page builds or restores a snapshot of Kafka: an empty one is refused."""
        code = "".join(each.code for each in runs)
        if not self._broker or not re.search("registrar snapshot (restore|build .*--kafka)", code):
            return
        topic = re.search(r"snapshot build.* (--topic \S+)", code)
        listen = f"--listen 127.0.0.1:{_FILLING_PORT} --data {self._folder}/filling"
        command = f"registrar serve {listen} --kafka 127.0.0.1:{_BROKER_PORT} {topic[1] if topic else ''}\n"
        yield self._serve("filling", _FILLING_PORT, command)
        port = self._port(_FILLING_PORT)
        request = f"-H 'Content-Type: application/json' -d '{_REGISTERED}'"
        yield f"curl -fsSo /dev/null {request} http://127.0.0.1:{port}/subjects/first-value/versions\n"
        yield f'kill "${{serving[{port}]}}"; wait "${{serving[{port}]}}"; unset "serving[{port}]"\n'

    def _write(self, block: Block) -> None:
        file = self._folder / "work" / self._translate(block.value)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._translate(block.code), encoding="utf-8")

    def _serve(self, name: str, port: int, code: str) -> str:
        # The server gets the signal, not a shell that waits for it.
        code = re.sub(r"\bregistrar serve", "exec registrar serve", self._translate(code))
        (self._folder / f"{name}.sh").write_text(code, encoding="utf-8")
        return f"serve {self._port(port)} {self._folder}/{name}\n"

    def _section(self, number: int, block: Block) -> str:
        script = self._folder / f"{number}.{block.language}"
        script.write_text(self._translate(block.code), encoding="utf-8")
        (self._folder / f"{number}.in").write_text(f"{block.value}\n" if block.note == "typed" else "")
        run = "." if block.language == "sh" else "python"
        at = self._folder / str(number)
        line = f"{run} {script} <{at}.in >{at}.out 2>{at}.err"
        if block.note == "exit status":
            return f"set +e; {line}; status=$?; set -e; [ $status = {int(block.value)} ]\n"
        return f"{line}\n"

    def _check(self, number: int, block: Block) -> None:
        printed = "".join(
            file.read_text(encoding="utf-8", errors="replace")
            for name in (f"{number}.out", f"{number}.err", "shell.txt")
            if (file := self._folder / name).exists()
        )
        where = f"line {block.line}:\n{block.code}\n{printed}"
        assert (self._folder / f"{number}.done").exists(), f"this failed, {where}"
        if block.serves:
            return
        answer = self._original((self._folder / f"{number}.out").read_text(encoding="utf-8"))
        shown = self._blocks[number + 1] if number + 1 < len(self._blocks) else None
        if shown and shown.note == "output":
            pattern = re.escape(shown.code.rstrip("\n")).replace("…", ".*")
            assert re.fullmatch(pattern, answer.rstrip("\n"), re.DOTALL), f"this prints {answer!r}, {where}"
        else:
            assert '"error_code"' not in answer, f"this is answered by an error, {where}"

    def _translate(self, code: str) -> str:
        own_log = f"REGISTRAR_TOPIC={self.name} REGISTRAR_GROUP={self.name} REGISTRAR_REPLICATION_FACTOR=1"
        code = _ON_KAFKA.sub(rf"{own_log} \g<0>", code)
        # Pages share the broker, so the topics that they name have to differ.
        code = re.sub(r"(?<=--topic )_schemas\w*", rf"{self.name}\g<0>", code)
        return _FOLDER.sub(f"{self._folder}/", _LOCAL.sub(self._address, code))

    def _address(self, found: re.Match[str]) -> str:
        port = int(found[1])
        return self._broker if port == _BROKER_PORT else f"127.0.0.1:{self._port(port)}"

    def _original(self, printed: str) -> str:
        for documented, port in self._ports.items():
            printed = printed.replace(f"127.0.0.1:{port}", f"127.0.0.1:{documented}")
        return printed.replace(f"{self._folder}/", "/")

    def _port(self, documented: int) -> int:
        return self._ports.setdefault(documented, free_port())


def _has_ended(pid: int) -> bool:
    """Return true if a child has ended, without reaping it: so its id remains that of its group."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
