"""The house rules, held by reading the source: directions of imports, purity, and words."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("registry", "election", "snapshots")

# What each part may import of ours. The longest matching name counts; "registry" alone, for the roots that
# put the parts together, means everything in it. "registry.__init__" is the version.
ALLOWED = {
    "registry": (),
    "registry.addresses": ("registry.allowed",),
    "registry.rhythm": ("registry.allowed",),
    "registry.header_config": ("registry.allowed",),
    "registry.settings": (
        "registry.addresses",
        "registry.allowed",
        "registry.header_config",
        "registry.rhythm",
        "registry.uris",
    ),
    "registry.agreement": ("registry.settings",),
    "registry.config": ("registry.agreement", "registry.allowed", "registry.settings", "registry.uris"),
    "registry.runtime_folder": ("registry.folders",),
    "registry.uris": (),
    "registry.domain": ("registry.domain",),
    "registry.lmdbfile": ("registry.modules",),
    "registry.log": ("registry.domain", "registry.folders", "registry.lmdbfile", "registry.log"),
    "registry.snapshot": (
        "registry.domain",
        "registry.folders",
        "registry.lmdbfile",
        "registry.log.contract",
        "registry.modules",
        "registry.snapshot",
        "registry.store",
        "registry.uris",
    ),
    "registry.snapshot.catalogue_kafka": ("registry.domain", "registry.log", "registry.snapshot"),
    "registry.snapshot.schedule": ("registry.rhythm", "registry.snapshot"),
    "registry.api.snapshots": (
        "registry.api",
        "registry.domain",
        "registry.snapshot.catalogue",
    ),
    "registry.api.backend": ("registry.api", "registry.domain", "registry.snapshot.catalogue"),
    "registry.snapshot.opening": ("registry.settings", "registry.log.kafka", "registry.snapshot"),
    "registry.encoder": (
        "registry.domain",
        "registry.encoder",
        "registry.folders",
        "registry.log.contract",
    ),
    "registry.encoder.opening": (
        "registry.encoder",
        "registry.log.kafka",
        "registry.settings",
        "registry.domain",
    ),
    "registry.encoder.topic": ("registry.domain", "registry.encoder", "registry.log"),
    "registry.store": ("registry.domain", "registry.folders", "registry.lmdbfile", "registry.store"),
    "registry.aside": (
        "registry.aside",
        "registry.domain",
        "registry.modules",
        "registry.pipes",
        "registry.threads",
    ),
    "registry.pipes": (),
    "registry.threads": (),
    "registry.api": ("registry.__init__", "registry.domain", "registry.api", "registry.aside"),
    "registry.peers": ("election", "registry.domain", "registry.peers"),
    "registry.http1": ("registry.domain", "registry.http1"),
    "registry.public": ("registry.api", "registry.http1", "registry.observe"),
    "registry.child": ("registry.config", "registry.observe"),
    "registry.observe": ("registry.observe",),
    "registry.node": ("election", "registry"),
    "registry.reader": ("registry",),
    "registry.supervisor": ("registry",),
    "registry.commands": ("registry",),
    "registry.commands.snapshot": ("registry", "snapshots"),
    "registry.__main__": ("registry",),
    "election": ("election",),
    "snapshots": ("snapshots", "registry"),
    # What Spark's executors run, and all that they get.
    "snapshots.spark.tasks": ("snapshots.spark.tasks", "registry.domain", "registry.snapshot"),
}

# The domain computes; it does not read a clock, a file, a socket or chance, and starts nothing.
IMPURE = {
    "asyncio", "concurrent", "datetime", "fcntl", "glob", "http", "io", "logging", "mmap", "multiprocessing",
    "os", "pathlib", "queue", "random", "resource", "secrets", "select", "selectors", "shutil", "signal",
    "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
    "aiokafka", "granian", "httpx", "httptools", "hypercorn", "kazoo", "lmdb", "numpy", "prometheus_client",
    "pyarrow", "pyspark", "starlette", "uvloop",
}  # fmt: skip

PURE = {"urllib.parse"}  # of what is impure otherwise
# Where a requirement has another name than its module.
REQUIREMENTS = {
    "re2": "google-re2",
    "google.protobuf": "protobuf",
    "google.type": "googleapis-common-protos",
    "py4j": "pyspark",
}
SPARK = ROOT / "snapshots" / "spark"

# Kafka's, ZooKeeper's and Confluent's words for what is called primary, node and epoch here. Those who talk
# to Kafka or ZooKeeper use their words.
FOREIGN_WORDS = re.compile(r"(^|_)(masters?|leaders?|slaves?|terms?|generations?)(_|$)", re.IGNORECASE)
# Settings that users know by the name that Spark gives them.
FOREIGN_NAMES = {"snapshots_spark_master"}
FOREIGN_ROOMS = {"kafka", "zookeeper"}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}


def modules(*folders: str) -> list[Path]:
    return sorted(
        path for folder in folders for path in (ROOT / folder).rglob("*.py") if "js" not in path.parts
    )


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> Iterator[str]:
    """Every module that ``path`` imports, at its top or inside a function."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = _package(path, node)
            yield from (_module(package, alias.name) for alias in node.names)


def _package(path: Path, node: ast.ImportFrom) -> str:
    """What stands between ``from`` and ``import``, spelled out when it is relative."""
    if not node.level:
        return node.module or ""
    folders = path.relative_to(ROOT).parts[: -node.level]
    return ".".join([*folders, *filter(None, [node.module])])


def _module(package: str, name: str) -> str:
    """The module that ``from package import name`` reads."""
    folder = ROOT / package.replace(".", "/")
    if not folder.is_dir():
        return package
    return f"{package}.{name if (folder / f'{name}.py').exists() or (folder / name).is_dir() else '__init__'}"


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def allowed_to(name: str) -> tuple[str, ...]:
    return ALLOWED[max((prefix for prefix in ALLOWED if within(name, prefix)), key=len)]


@pytest.mark.parametrize("path", modules(*PACKAGES), ids=name_of)
def test_imports_go_one_way(path: Path) -> None:
    allowed = allowed_to(name_of(path))
    ours = [imported for imported in imports(path) if imported.split(".")[0] in PACKAGES]
    wrong = [imported for imported in ours if not any(within(imported, prefix) for prefix in allowed)]
    assert not wrong, f"{name_of(path)} may import {allowed}, but imports {wrong}"


@pytest.mark.parametrize("path", modules("registry/domain"), ids=name_of)
def test_the_domain_is_pure(path: Path) -> None:
    impure = sorted(
        {imported for imported in imports(path) if imported.split(".")[0] in IMPURE and imported not in PURE}
    )
    assert not impure, f"{name_of(path)} imports {impure}"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input"}, f"{name_of(path)} calls {node.func.id}"
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await), f"{name_of(path)} waits"


@pytest.mark.parametrize("path", modules(*PACKAGES), ids=name_of)
def test_errors_are_made_where_they_are_raised(path: Path) -> None:
    """One that is raised again and again keeps the frames of every time, and all that they hold."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
            assert not node.exc.id.isupper(), f"{name_of(path)}:{node.lineno} raises {node.exc.id}"


def test_there_is_one_apply() -> None:
    found = [
        name_of(path)
        for path in modules(*PACKAGES)
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef) and node.name == "apply"
    ]
    assert found == ["registry.domain.fold"]


@pytest.mark.parametrize("path", modules(*PACKAGES), ids=name_of)
def test_names_are_ours(path: Path) -> None:
    rooms = set(name_of(path).split("."))
    assert not EMPTY_NAMES & rooms, "a module's name says what it holds"
    if rooms & FOREIGN_ROOMS:
        return
    for node in ast.walk(tree_of(path)):
        name = (
            node.name
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            else node.id
            if isinstance(node, ast.Name)
            else node.arg
            if isinstance(node, ast.arg)
            else ""
        )
        assert name in FOREIGN_NAMES or not FOREIGN_WORDS.search(name), f"{name_of(path)} says {name}"


@pytest.mark.parametrize("path", modules(*PACKAGES), ids=name_of)
def test_no_view_is_held_while_waiting(path: Path) -> None:
    """A view pins pages of the store; it ends before the task gives way."""
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.With) or not any(_is_view(item.context_expr) for item in node.items):
            continue
        waits = [
            inner for inner in ast.walk(node) if isinstance(inner, ast.Await | ast.AsyncFor | ast.AsyncWith)
        ]
        assert not waits, f"{name_of(path)}:{waits[0].lineno} waits inside a view"


def _is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "view"


@pytest.mark.parametrize("path", modules(*PACKAGES), ids=name_of)
def test_queues_are_bounded(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert name != "SimpleQueue", f"{name_of(path)}:{node.lineno}: a queue without a bound"
            if name in {"Queue", "LifoQueue", "PriorityQueue"}:
                assert node.args or node.keywords, f"{name_of(path)}:{node.lineno}: a queue without a bound"


@pytest.mark.parametrize("path", modules("tests"), ids=name_of)
def test_tests_wait_for_conditions_not_for_time(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert "mock" not in ast.unparse(node), f"{name_of(path)}: the real thing, no mocks"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("until"):
            for call in _own_calls(node):
                sleeps = ast.unparse(call.func) in {"time.sleep", "sleep", "asyncio.sleep"}
                assert not sleeps, f"{name_of(path)}:{call.lineno}: poll a condition with until()"


def _own_calls(function: ast.AST) -> Iterator[ast.Call]:
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Call):
            yield node
        yield from _own_calls(node)


def test_the_requirements_are_what_is_imported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared, spark = (
        {re.split(r"[^\w-]", requirement)[0] for requirement in listed}
        for listed in (project["dependencies"], project["optional-dependencies"]["spark"])
    )
    everywhere = modules(*PACKAGES)
    assert _required([path for path in everywhere if SPARK not in path.parents]) == declared
    assert _required([path for path in everywhere if SPARK in path.parents]) <= declared | spark


def _required(paths: list[Path]) -> set[str]:
    imported = {name for path in paths for name in imports(path)}
    ours = {*sys.stdlib_module_names, *PACKAGES}
    return {_requirement(name) for name in imported if name.split(".")[0] not in ours}


def _requirement(name: str) -> str:
    named = (requirement for module, requirement in REQUIREMENTS.items() if within(name, module))
    return next(named, name.partition(".")[0])
