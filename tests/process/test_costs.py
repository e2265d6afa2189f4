"""Costs of a request, counted in calls, because times say little on a shared machine."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.process.test_lifecycle import children
from tests.support import profiled
from tests.support.running import PATIENT, Registry, until

# Requests of a pass; of several passes the least counts.
EACH, PASSES = 20, 5
HOOK = Path(profiled.__path__[0])
# The facts about a request, by the functions that find them out.
FACTS = {
    "admission": (
        "reader/fast_path/preferences.py RequestHeaders.preferences",
        "api/admission.py Entrance.admit",
    ),
    "target": ("api/request_target.py parse",),
    "body": ("api/bodies.py schema_request",),
    "subject": ("domain/model.py Subject.parse",),
    "alias": ("domain/queries/scope.py _target",),
    # The rows of the subject, its context and all contexts.
    "configs": ("domain/queries/scope.py _config_at", "reader/fast_path/registered.py _plain_config"),
    "schema": ("domain/schemas/avro/format.py AvroFormat.parse",),
    "views": ("store/reader.py StoreReader.view", "store/lmdb.py Store.view"),
}
Facts = dict[str, int]


class Case(NamedTuple):
    """A request with a schema that the registry has not seen; the facts that reader and node find out."""

    path: str
    reader: Facts
    node: Facts
    status: int = 200


# The node resolves the alias in the rows that it decides with, which may be newer than those of the reader.
# The subject arrives as text.
DECISION = {"subject": 1, "alias": 1, "configs": 3, "views": 2}
CASES = {
    # The reader's views are those of the fast path and the handler; the node's of the decision and the fold.
    "a new subject": Case(
        "/subjects/new%d/versions",
        dict.fromkeys(FACTS, 1) | {"views": 2},
        DECISION,
    ),
    # The fast path remembers targets and subjects. The node has to compare the schema, and so parses the
    # canonical text; the reader's third view finds what the new version equals.
    "a next version": Case(
        "/subjects/known/versions",
        {"admission": 1, "body": 1, "alias": 1, "configs": 3, "schema": 1, "views": 3},
        DECISION | {"schema": 1},
    ),
    # After the fast path and the handler, other contexts are searched in a view of their own.
    "a lookup": Case(
        "/subjects/known",
        {"admission": 1, "body": 1, "alias": 1, "configs": 3, "schema": 1, "views": 3},
        {},
        404,
    ),
    "a check of compatibility": Case(
        "/compatibility/subjects/known/versions/latest",
        {"admission": 1, "body": 1, "alias": 1, "configs": 3, "schema": 1, "views": 1},
        {},
    ),
}
numbers = itertools.count()


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("counts")


@pytest.fixture(scope="module")
def registry(counts: Path) -> Iterator[Registry]:
    environment = {"PYTHONPATH": str(HOOK), "COUNTS": str(counts)}
    registry = Registry(counts / "data", environment=environment).wait()
    yield registry
    assert registry.stop() == 0, registry.output


@pytest.fixture(scope="module")
def client(registry: Registry) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=registry.url, timeout=PATIENT) as client:
        post(client, Case("/subjects/known/versions", {}, {}))
        yield client


def post(client: httpx.Client, case: Case, **more: str) -> None:
    number = next(numbers)
    field = {"name": f"f{number}", "type": "int", "default": 0}
    schema = json.dumps({"type": "record", "name": "R", "fields": [field], **more})
    path = case.path % number if "%d" in case.path else case.path
    assert client.post(path, json={"schema": schema}).status_code == case.status


def signal_all(registry: Registry, counts: Path, suffix: str) -> dict[str, Path]:
    """Signal the processes of a registry; return the files that they have written, by module."""
    found = {module: counts / f"{pid}{suffix}" for pid, module in children(registry).items()}
    for file in found.values():
        file.unlink(missing_ok=True)
        os.kill(int(file.name.partition(".")[0]), signal.SIGUSR1)
    until(lambda: all(each.exists() for each in found.values()), 30, f"{suffix} of all processes")
    return found


def calls_of(
    registry: Registry, client: httpx.Client, counts: Path, case: Case, **more: str
) -> dict[str, Counter[str]]:
    """Return the calls of functions, by process and "file function caller", while requests are served."""
    for _ in range(EACH):
        post(client, case, **more)
    signal_all(registry, counts, ".counting")
    for _ in range(EACH):
        post(client, case, **more)
    files = signal_all(registry, counts, ".json")
    return {module: Counter(json.loads(each.read_text())["calls"]) for module, each in files.items()}


@pytest.mark.parametrize("name", CASES)
def test_what_is_known_of_a_request_is_found_out_once_in_a_process(
    registry: Registry, client: httpx.Client, counts: Path, name: str
) -> None:
    case = CASES[name]
    expected = {"registry-reader": case.reader, "registry-node": case.node}
    for _ in range(PASSES):
        found = facts_of(calls_of(registry, client, counts, case))
        if found == expected:
            return
        # The node counts who has asked, once in a while: more often in a pass of a busy machine.
    assert found == expected


def facts_of(calls: dict[str, Counter[str]]) -> dict[str, Facts]:
    """Return how often a process finds out each fact about a request."""
    found: dict[str, Facts] = {}
    for module, by_name in calls.items():
        functions = Counter[str]()
        for what, count in by_name.items():
            functions[what.rpartition(" ")[0]] += count
        facts = {fact: sum(functions[each] for each in named) / EACH for fact, named in FACTS.items()}
        found[module] = {fact: round(count) for fact, count in facts.items() if round(count)}
    return found


def calls_by_file(registry: Registry, client: httpx.Client, counts: Path) -> Counter[str]:
    """Return the calls that new subjects take, by file, without those of HTTP.

    A request whose head and body arrive apart is read in more calls; that is up to the machine.
    """
    files = Counter[str]()
    for calls in calls_of(registry, client, counts, CASES["a new subject"]).values():
        for what, count in calls.items():
            file, function, _ = what.split(" ")
            assert function != "WebhookSender._look", "no webhook is registered"
            files[file] += 0 if file.startswith("http1/") else count
    return files


def test_the_headers_of_an_answer_that_might_be_compressed_are_printed_once(
    registry: Registry, counts: Path
) -> None:
    case = CASES["a new subject"]
    with httpx.Client(
        base_url=registry.url, timeout=PATIENT, headers={"Accept-Encoding": "identity"}
    ) as plain:
        long = calls_of(registry, plain, counts, case, doc="x" * 2000)["registry-reader"]
    assert sum(count for what, count in long.items() if what.startswith("http1/messages.py lines")) == 0


def test_a_new_subject_takes_few_calls_in_few_modules(
    registry: Registry, client: httpx.Client, counts: Path
) -> None:
    # Timers, and writes by the write thread, only ever add calls, on a busy machine more than on a calm one.
    files = min((calls_by_file(registry, client, counts) for _ in range(PASSES)), key=Counter.total)
    # 573 on a calm machine.
    assert files.total() / EACH <= 617
    assert sum(count >= EACH for count in files.values()) <= 105
