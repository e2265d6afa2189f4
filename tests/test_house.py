"""The rules of the house, checked by reading the source: imports, purity, names and language."""

from __future__ import annotations

import ast
import gc
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from registry.ui.bundles import bundles_of

ROOT = Path(__file__).parent.parent
PACKAGES = ("registry", "registrar", "election", "snapshots")

# The law of the house: for each room, the rooms that it may import, in addition to itself. A room is below
# all rooms that name it, so arrows only go down; a test checks that there is no circle. The longest matching
# name counts. "registry.__init__" is the version.
_WORDS = (
    "registry.domain.errors", "registry.domain.lru", "registry.domain.model", "registry.domain.principal",
    "registry.domain.commands",
)  # fmt: skip
_ROWS = (*_WORDS, "registry.domain.rows", "registry.domain.log_format")
_QUERIES = (*_ROWS, "registry.domain.policies", "registry.domain.queries")
_PARSING = (*_QUERIES, "registry.domain.schemas", "registry.domain.parsing")
_LOOKUP = (*_PARSING, "registry.domain.lookup")
_STATE = ("registry.domain", "registry.log", "registry.store")
_SNAPSHOTS = ("snapshots.format", "snapshots.catalogue")
_SERVING = (
    "registry.base", *_STATE, "registry.__init__", "registry.api", "registry.audit", "registry.encoder",
    "registry.feed", "registry.host", "registry.http1", "registry.ipc", "registry.search",
    "registry.security", "registry.workers", "snapshots.catalogue",
)  # fmt: skip
_BUILDING = ("registry.base", *_STATE, *_SNAPSHOTS, "registry.encoder", "snapshots.loading")

ALLOWED: dict[str, tuple[str, ...]] = {
    # The version. The ground: settings, log lines and metrics, processes.
    "registry": (),
    "registry.base": (),
    # The domain, which is pure.
    "registry.domain.errors": (),
    "registry.domain.lru": (),
    "registry.domain.model": (),
    "registry.domain.principal": (),
    "registry.domain.commands": ("registry.domain.errors", "registry.domain.model"),
    "registry.domain.admission": _WORDS,
    "registry.domain.rows": _WORDS,
    "registry.domain.log_format": (*_WORDS, "registry.domain.rows"),
    "registry.domain.fold": _ROWS,
    "registry.domain.subject_patterns": _WORDS,
    "registry.domain.target_names": (),
    "registry.domain.policies": (
        *_WORDS, "registry.domain.schemas",
        "registry.domain.subject_patterns", "registry.domain.target_names",
    ),
    "registry.domain.queries": (*_ROWS, "registry.domain.policies"),
    "registry.domain.events": _QUERIES,
    "registry.domain.history": (*_QUERIES, "registry.domain.events", "registry.domain.fold"),
    "registry.domain.schemas": (),
    "registry.domain.parsing": (*_QUERIES, "registry.domain.schemas"),
    "registry.domain.lookup": _PARSING,
    "registry.domain.compatibility": _LOOKUP,
    "registry.domain.decide": (
        *_LOOKUP, "registry.domain.compatibility", "registry.domain.events", "registry.domain.fold",
    ),
    "registry.domain.reseed": _QUERIES,
    # Stored data: the log, the store, snapshots; and the election.
    "registry.log": ("registry.base", "registry.domain"),
    "registry.log.kafka.open_topic": ("registry.base", "registry.log"),
    "registry.store": ("registry.domain", "registry.base"),
    # Folding the log into a store: by a node that follows, and by builds of snapshots.
    "registry.store.folding": ("registry.domain", "registry.log", "registry.base", "registry.store"),
    "registry.encoder": ("registry.base", "registry.domain", "registry.log"),
    "election": (),
    "election.kafka": ("election",),
    "election.zookeeper": ("election",),
    "snapshots.format": ("registry.base", "registry.domain"),
    "snapshots.catalogue": ("registry.base", "registry.domain", "registry.log", "snapshots.format"),
    "snapshots.loading": (
        "registry.base", "registry.domain", "registry.store", "snapshots.format", "snapshots.catalogue",
    ),
    # What users import in their own programs: nothing of a server.
    "registrar": (),
    "registrar.spark": ("registry.domain.lru", "registry.domain.schemas"),
    # Messages of producers as JSON, for the command line.
    "registry.cli.decoding": ("registry.base", "registry.domain", "registrar.spark"),
    # Folders of schema files, and plans for registries.
    "registry.cli.folder": ("registry.domain",),
    # What is sent to webhooks, and where it may go.
    "registry.webhooks": ("registry.domain",),
    # The API, and its transport between processes and nodes.
    "registry.workers": ("registry.domain", "registry.base"),
    "registry.http1": ("registry.domain", "registry.base"),
    # What was done, by whom.
    "registry.audit": ("registry.base", "registry.domain", "registry.log", "registry.security"),
    # The console's static files.
    "registry.ui": (),
    # Who sends a request, and what that principal may do.
    "registry.security": ("registry.base", "registry.domain"),
    # The search index next to the store, and what fills it.
    "registry.search": ("registry.base", "registry.domain", "registry.log", "registry.store"),
    # The change feed: events for listeners.
    "registry.feed": ("registry.domain", "registry.security"),
    # Searches for duplicates: their port, and the process that searches the store.
    "registry.duplicates.contract": ("registry.domain", "registry.security"),
    "registry.duplicates": (
        "registry.base", "registry.domain", "registry.encoder", "registry.security", "registry.store",
    ),
    "registry.api": (
        "registry.__init__", "registry.audit", "registry.domain", "registry.duplicates.contract",
        "registry.feed", "registry.security",
        "registry.ui", "registry.webhooks", "registry.workers", "snapshots.catalogue",
    ),
    "registry.ipc": (
        "registry.api", "registry.domain", "registry.feed", "registry.base", "snapshots.catalogue",
    ),
    "registry.forwarding": (
        "election", "registry.domain", "registry.base", "registry.security",
        "registry.host.stop_budget", "registry.host.tracing.contract",
    ),
    "registry.host.stop_budget": (),
    "registry.host.tracing.contract": ("registry.domain",),
    # What a host starts, and the parts of its processes that are made from settings.
    "registry.host": (
        "registry.__init__", "registry.api", "registry.audit", "registry.base", "registry.domain",
        "registry.duplicates", "registry.feed", "registry.http1", "registry.search", "registry.security",
        "registry.ui", "registry.webhooks",
    ),
    # The processes: readers and nodes do not import each other.
    "registry.reader": _SERVING,
    "registry.node": (*_SERVING, "election", "registry.forwarding"),
    "registry.node.leadership": ("election", "registry.base", *_STATE),
    "registry.node.replication": ("registry.node.leadership", "registry.base", *_STATE),
    "registry.node.write": (
        "registry.node.leadership", "registry.node.replication", "registry.base", *_STATE,
        "registry.host.tracing.contract", "registry.workers",
    ),
    "registry.node.past": ("registry.base", *_STATE, *_SNAPSHOTS),
    "registry.node.snapshots": (
        "registry.node.write", "registry.base", *_STATE, *_SNAPSHOTS, "snapshots.census",
    ),
    "registry.node.webhooks": (
        "registry.node.write", "registry.base", *_STATE, "registry.__init__", "registry.webhooks",
    ),
    "registry.node.startup": (
        "registry.node.replication", "registry.base", *_STATE, *_SNAPSHOTS,
        "registry.api", "registry.encoder", "snapshots.loading",
    ),
    # What registries hold, read and changed by plans.
    "registry.cli.promotion": (
        "registry.cli.client", "registry.cli.folder", "registry.base", "registry.domain",
    ),
    # Programs.
    "snapshots": (),
    "snapshots.building": _BUILDING,
    "snapshots.backup": (*_BUILDING, "snapshots.building"),
    "snapshots.spark": (*_BUILDING, "snapshots.building", "snapshots.census"),
    "snapshots.spark.rereading": (
        *_BUILDING, "snapshots.building", "snapshots.census", "snapshots.spark", "registrar.spark",
        "registry.cli.decoding",
    ),
    # What schemas messages name: planned and merged here, counted by Spark, which a run imports by its name.
    "snapshots.census": (*_BUILDING, "snapshots.building"),
    "snapshots.census.rereading": (
        *_BUILDING, "snapshots.building", "snapshots.census", "snapshots.census.run",
        "snapshots.spark.rereading", "registry.cli.decoding",
    ),
    "snapshots.census.published": (
        *_BUILDING, "snapshots.building", "snapshots.census", "snapshots.census.run",
    ),
    "snapshots.census.run": (*_BUILDING, "snapshots.building", "snapshots.census", "snapshots.spark"),
    # The choice of an engine, which imports Spark by its name, and what builds with the chosen one.
    "snapshots.building.engines": (*_BUILDING, "snapshots.building", "snapshots.spark"),
    "snapshots.building.builder": (*_BUILDING, "snapshots.building"),
    "snapshots.building.requests": (*_BUILDING, "snapshots.building"),
    # The code that Spark's executors run, and all that they get.
    "snapshots.spark.tasks": ("registry.domain", "snapshots.format"),
    "snapshots.spark.tasks.rereading": ("registry.cli.decoding",),
    "snapshots.commands": (*_BUILDING, "snapshots.building", "snapshots.backup"),
    "snapshots.spark.submit": ("registry.__main__",),
    # A client of a registry's API, for the command line.
    "registry.cli.client": ("registry.__init__",),
    "registry.cli": ("registry.cli.client", "registry.base"),
    # What is wrong with a node's surroundings, or with running nodes.
    "registry.cli.doctor": ("registry.base", *_STATE, "election", "registry.security"),
    "registry.cli.verbs": (
        "registry.cli", "registry.base", *_STATE, "registry.encoder", "registry.host", "registry.security",
        "snapshots",
    ),
    "registry.__main__": ("registry.__init__", "registry.cli", "registry.cli.verbs"),
}  # fmt: skip

# The domain computes; it reads no clock, file, socket or random number, and starts nothing.
IMPURE = {
    "asyncio", "concurrent", "datetime", "fcntl", "glob", "http", "io", "logging", "mmap", "multiprocessing",
    "os", "pathlib", "queue", "random", "resource", "secrets", "select", "selectors", "shutil", "signal",
    "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
    "aiokafka", "granian", "httpx", "httptools", "hypercorn", "kazoo", "lmdb", "numpy", "prometheus_client",
    "pyarrow", "pyspark", "starlette", "uvloop",
}  # fmt: skip

PURE = {"urllib.parse"}  # Exceptions within impure packages.
# Requirements whose name differs from their module's.
REQUIREMENTS = {
    "argon2": "argon2-cffi",
    "jwt": "pyjwt",
    "re2": "google-re2",
    "google.protobuf": "protobuf",
    "google.type": "googleapis-common-protos",
    "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry": "opentelemetry-sdk",
    "py4j": "pyspark",
    "tomli_w": "tomli-w",
    "aws_msk_iam_sasl_signer": "aws-msk-iam-sasl-signer-python",
}
SPARK = ROOT / "snapshots" / "spark"
SCHEMAS = ROOT / "registry" / "domain" / "schemas"

# The words of Kafka, ZooKeeper and Confluent for what is called primary, node and epoch here. Only the
# adapters for Kafka and ZooKeeper use them.
FOREIGN_WORDS = re.compile(r"(^|_)(masters?|leaders?|slaves?|terms?|generations?)(_|$)", re.IGNORECASE)
# Settings that users know by Spark's names.
FOREIGN_NAMES = {"snapshots_spark_master"}
FOREIGN_ROOMS = {"kafka", "zookeeper"}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}


def modules(*folders: str) -> list[Path]:
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if not {"js", "node_modules"} & {*path.parts}
    )


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module. Most rules look at all of them, and making them costs the most.

    None of them is garbage: looking for some among a million nodes would take as long as parsing.
    """
    gc.disable()
    try:
        return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))
    finally:
        gc.freeze()
        gc.enable()


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Return every module that ``path`` imports: at its top, inside a function, or by a name in quotes."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = _package(path, node)
            yield from (_module(package, alias.name) for alias in node.names)
        elif (name := _imported_by_name(node)) is not None:
            yield name


def _imported_by_name(node: ast.AST) -> str | None:
    """Return the module that a call of ``import_module`` names; ``None`` if it is no such call."""
    if not isinstance(node, ast.Call):
        return None
    function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if function not in {"import_module", "__import__"} or not node.args:
        return None
    named = node.args[0]
    return named.value if isinstance(named, ast.Constant) and isinstance(named.value, str) else None


def _package(path: Path, node: ast.ImportFrom) -> str:
    """Return the absolute name of the part between ``from`` and ``import``."""
    if not node.level:
        return node.module or ""
    folders = path.relative_to(ROOT).parts[: -node.level]
    return ".".join([*folders, *filter(None, [node.module])])


@cache
def _module(package: str, name: str) -> str:
    """Return the module that ``from package import name`` reads."""
    folder = ROOT / package.replace(".", "/")
    if not folder.is_dir():
        return package
    return f"{package}.{name if (folder / f'{name}.py').exists() or (folder / name).is_dir() else '__init__'}"


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def room_of(name: str) -> str:
    """Return the room of a module: the longest matching name."""
    return max((room for room in ALLOWED if within(name, room)), key=len)


def rooms_below(room: str) -> tuple[str, ...]:
    return (room, *ALLOWED[room])


def for_each(paths: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Make one test of a rule for many files; a test for each would cost more than the rule."""

    def made(rule: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            faults: dict[str, str] = {}
            for path in paths:
                try:
                    rule(path)
                except AssertionError as error:
                    faults[str(path.relative_to(ROOT))] = str(error)
            assert not faults

        test.__name__, test.__doc__ = rule.__name__, rule.__doc__
        return test

    return made


@for_each(modules(*PACKAGES))
def test_imports_go_one_way(path: Path) -> None:
    allowed = rooms_below(room_of(name_of(path)))
    ours = [imported for imported in imports(path) if imported.split(".")[0] in PACKAGES]
    wrong = [imported for imported in ours if not any(within(imported, prefix) for prefix in allowed)]
    assert not wrong, f"{name_of(path)} may import {allowed}, but imports {wrong}"


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of nodes that reach each other, by Tarjan's algorithm."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        path.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in number:
                visit(other)
            if other in path:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            start = path.index(node)
            if len(path) - start > 1:
                found.append(sorted(path[start:]))
            del path[start:]

    for node in arrows:
        if node not in number:
            visit(node)
    return found


def test_no_arrow_between_rooms_goes_up() -> None:
    arrows: dict[str, set[str]] = {}
    for path in modules(*PACKAGES):
        room = room_of(name_of(path))
        arrows.setdefault(room, set()).update(
            room_of(imported) for imported in imports(path) if imported.split(".")[0] in PACKAGES
        )
    assert not circles(arrows)


def test_no_modules_import_each_other_in_a_circle() -> None:
    arrows = {name_of(path): {*imports(path)} for path in modules(*PACKAGES)}
    assert not circles({name: others & {*arrows} - {name} for name, others in arrows.items()})


# A thought that crosses three files of forty lines is one file of a hundred and twenty.
MODULES_MAX, MEAN_LINES_MIN = 560, 145
# What the census is for (`/usage`, the deletion guard): modules beyond those.
MODULES_MAX += 8
# Who asks: counting in readers, keeping in nodes, what travels between, the resource, and the verb.
MODULES_MAX += 5
# registrar.spark, which is no part of a server.
# With the rows of Protobuf, for which no package of Spark's can be had.
MODULES_MAX += 10
# The census, with its requests about all partitions of a broker, and reading a topic's messages with another
# schema.
MODULES_MAX += 15
# The fields of schemas, a module for each format, as for its other views.
MODULES_MAX += 4
# Bundles of the console's files.
MODULES_MAX += 1
# The forked child, apart from its supervisor.
MODULES_MAX += 1
# Schemas sent as DDL: its words, its statements, its literals, and one writer for each format.
MODULES_MAX += 6
# Lists of subjects that skip what a filter does not admit.
MODULES_MAX += 1
# The search: words, matching, the index, its build and changes, their thread and process, resource, verb.
MODULES_MAX += 11
# Signing out on all nodes; reading audit logs back, of one file and of all nodes.
MODULES_MAX += 3
# The timeline of versions: what follows what, and the resource.
MODULES_MAX += 2
# Answers to what a page needs at once: a subject in short, comparisons, and schemas of an id in all contexts.
MODULES_MAX += 3
# The rows of the search index.
MODULES_MAX += 1
# How the file of a store is written, apart from what is written.
MODULES_MAX += 1
# A process that is forked instead of started, used by any room.
MODULES_MAX += 1


def test_a_thought_does_not_cross_many_modules() -> None:
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in modules(*PACKAGES)]
    assert len(lines) <= MODULES_MAX, "merge thin modules with the neighbors that use them"
    assert sum(lines) / len(lines) >= MEAN_LINES_MIN


def test_imports_by_name_count_too() -> None:
    assert "snapshots.spark.engine" in imports(ROOT / "snapshots" / "building" / "engines.py")
    assert "pandas" in imports(SPARK / "session.py")


# What a script of the console imports: "from" and "import", also when it loads a page.
JS_IMPORT = re.compile(r"""\b(?:from|import)\s*\(?\s*["'](\.[^"']+)["']""")


def test_no_scripts_of_the_console_import_each_other_in_a_circle() -> None:
    static = ROOT / "registry" / "ui" / "static"
    scripts = [path for path in static.rglob("*.js") if not path.name.startswith("vendor")]
    arrows = {
        str(path.relative_to(static)): {
            str((path.parent / found).resolve().relative_to(static))
            for found in JS_IMPORT.findall(path.read_text(encoding="utf-8"))
        }
        for path in scripts
    }
    assert "subjects/view.js" in arrows["routes.js"], "pages are loaded by import()"
    assert not circles(arrows)


def test_bundles_hold_all_scripts_of_the_console() -> None:
    static = ROOT / "registry" / "ui" / "static"
    scripts = (path for path in static.rglob("*.js") if not path.name.startswith("vendor"))
    assert bundles_of({str(path.relative_to(static)): path.read_bytes() for path in scripts})


@for_each(modules("registry/domain"))
def test_the_domain_is_pure(path: Path) -> None:
    impure = sorted(
        {imported for imported in imports(path) if imported.split(".")[0] in IMPURE and imported not in PURE}
    )
    assert not impure, f"{name_of(path)} imports {impure}"
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input"}, f"{name_of(path)} calls {node.func.id}"
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await), f"{name_of(path)} waits"


@for_each(modules(*PACKAGES))
def test_errors_are_made_where_they_are_raised(path: Path) -> None:
    """An error that is raised again keeps the frames of every time, and everything that they refer to."""
    for node in nodes_of(path):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
            assert not node.exc.id.isupper(), f"{name_of(path)}:{node.lineno} raises {node.exc.id}"


def test_there_is_one_apply() -> None:
    found = [
        name_of(path)
        for path in modules(*PACKAGES)
        for node in ast.iter_child_nodes(nodes_of(path)[0])
        if isinstance(node, ast.FunctionDef) and node.name == "apply"
    ]
    assert found == ["registry.domain.fold.fold"]


@for_each(modules(*PACKAGES))
def test_names_are_ours(path: Path) -> None:
    rooms = set(name_of(path).split("."))
    assert not EMPTY_NAMES & rooms, "a module's name says what it holds"
    if rooms & FOREIGN_ROOMS:
        return
    for node in nodes_of(path):
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


@for_each(modules(*PACKAGES))
def test_no_view_is_held_while_waiting(path: Path) -> None:
    """A view pins pages of the store; it must end before the task yields."""
    for node in nodes_of(path):
        if not isinstance(node, ast.With) or not any(_is_view(item.context_expr) for item in node.items):
            continue
        waits = [
            inner for inner in ast.walk(node) if isinstance(inner, ast.Await | ast.AsyncFor | ast.AsyncWith)
        ]
        assert not waits, f"{name_of(path)}:{waits[0].lineno} waits inside a view"


def _is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "view"


@for_each(modules(*PACKAGES))
def test_queues_are_bounded(path: Path) -> None:
    for node in nodes_of(path):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert name != "SimpleQueue", f"{name_of(path)}:{node.lineno}: a queue without a bound"
            if name in {"Queue", "LifoQueue", "PriorityQueue"}:
                assert node.args or node.keywords, f"{name_of(path)}:{node.lineno}: a queue without a bound"


FORMAT_NAMES = {"AVRO", "JSON", "PROTOBUF"}


@for_each(modules(*PACKAGES))
def test_only_the_table_of_formats_names_them(path: Path) -> None:
    # The second table is that of workers, which have none of the registry's parsers.
    tables = (ROOT / "registry" / "domain" / "model.py", ROOT / "registrar" / "spark" / "formats.py")
    if path in tables or path.is_relative_to(SCHEMAS):
        return
    for node in nodes_of(path):
        if isinstance(node, ast.Constant):
            place = f"{name_of(path)}:{node.lineno}"
            assert node.value not in FORMAT_NAMES, f"{place}: read the table in registry/domain/schemas"


def test_the_console_gets_the_formats_from_the_registry() -> None:
    static = ROOT / "registry" / "ui" / "static"
    quoted = re.compile(rf"""["'`]({"|".join(FORMAT_NAMES)})["'`]""")
    own = [path for path in static.rglob("*.js") if not path.name.startswith("vendor")]
    assert [path.name for path in own if quoted.search(path.read_text(encoding="utf-8"))] == ["formats.js"]


@for_each(modules("tests"))
def test_tests_wait_for_conditions_not_for_time(path: Path) -> None:
    if not re.search("mock|sleep", path.read_text(encoding="utf-8")):
        return  # Printing each call of each test would take a third of these rules' time.
    for node in nodes_of(path):
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
    declared = _named(project["dependencies"])
    extras = {name: _named(listed) for name, listed in project["optional-dependencies"].items()}
    required = {path: _required([path]) for path in modules(*PACKAGES)}
    spark = {path for path in required if {SPARK, ROOT / "registrar"} & {*path.parents}}
    assert _union(required[path] for path in spark) <= declared | extras.pop("spark")
    optional = _union(extras.values())
    elsewhere = _union(needs for path, needs in required.items() if path not in spark)
    # Kerberos' library is imported by aiokafka, and only looked for here.
    assert elsewhere == declared | optional - {"gssapi"}
    assert all(len(needs & optional) <= 1 for needs in required.values()), "a module needs one extra at most"


def _union(sets: Iterable[set[str]]) -> set[str]:
    return set().union(*sets)


def _named(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}


def _required(paths: list[Path]) -> set[str]:
    imported = {name for path in paths for name in imports(path)}
    ours = {*sys.stdlib_module_names, *PACKAGES}
    return {_requirement(name) for name in imported if name.split(".")[0] not in ours}


def _requirement(name: str) -> str:
    named = (requirement for module, requirement in REQUIREMENTS.items() if within(name, module))
    return next(named, name.partition(".")[0])


# Words that no reader of technical English expects. See also "Rules of the house" in CONTRIBUTING.md.
STILTED = re.compile(
    r"\b(anew|beside|lest|in vain|whoever|whomever|whosoever|whereof|thereof|(is|are|be) had( by)?"
    r"|of its own accord)\b",
    re.IGNORECASE,
)
# A dialect of this project that its readers had to learn. Say report, log, show or reconstruct instead of
# tell; ignore for heed, options for manner, schedule for rhythm, filter for sight, skip for leap, continue
# for go on, restore for bring back. Guarded in identifiers, in texts that people read, and in the docs.
DIALECT_NAMES = re.compile(
    r"(^|_)(tell|tells|told|telling|teller|heed|heeds|heeded|manner|manners|rhythm|rhythms|sight|leap|leaps"
    r"|leaping|troubled)(_|$)"
)
DIALECT_WORDS = re.compile(r"\b(manners?|sight|leap(s|ing)?|troubled)\b", re.IGNORECASE)
DIALECT_TEXTS = re.compile(
    r"\b(tell|tells|told|telling|heed(s|ed|ing)?|rhythms?|is well|whose data|consequences first"
    r"|deleted softly|softly deleted|bring(s|ing)? back|brought back|goes? on|stands? against|of which"
    r"|holds? what|likewise|as many as possible|a line each|one a line)\b",
    re.IGNORECASE,
)
# The same in docstrings and comments; files have a method tell().
DIALECT_CODE = re.compile(r"\b(tell|tells|told|telling|heed(s|ed|ing)?|rhythms?)\b(?!\()", re.IGNORECASE)
# A function has a verb if it does something, and a noun or is_…, has_… if it answers.
PARTICIPLE = re.compile(
    r"_((?!(need|feed|seed|speed|embed|exceed|proceed|reseed)$)[a-z]+ed|begun|bound|broken|brought|built|caught"
    r"|chosen|done|drawn|found|forgotten|given|gone|got|grown|heard|held|hidden|kept|known|laid|led|left|lost"
    r"|made|meant|met|paid|proven|said|seen|sent|shown|sold|sought|spent|spoken|stuck|taken|thought|told|torn"
    r"|understood|won|worn|written)"
)
# Names that are participles all the same: the offset that was applied, and forms of a name or a text.
PARTICIPLES = frozenset({"applied", "normalized", "qualified"})
# A docstring names a thing or says what a function does; these words begin a question or a clause.
CLAUSE = re.compile(r"(What|Whether|Who|Whose|Of|How|See)\b")


def pages() -> list[Path]:
    """Return the documents of the repository."""
    folders = [ROOT / folder for folder in (*PACKAGES, "bench", "deploy", "docs", "tests")]
    found = [*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]
    return sorted(page for page in found if "node_modules" not in page.parts)


@for_each([*modules(*PACKAGES, "bench", "deploy"), *pages()])
def test_words_are_plain(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = {number: match[0] for number, line in enumerate(lines, 1) if (match := STILTED.search(line))}
    assert not found


@for_each(modules(*PACKAGES, "bench", "deploy"))
def test_docstrings_and_comments_use_the_words_of_the_field(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = {number: match[0] for number, line in enumerate(lines, 1) if (match := DIALECT_CODE.search(line))}
    assert not found


@for_each(modules(*PACKAGES, "bench", "deploy"))
def test_names_and_texts_use_the_words_of_the_field(path: Path) -> None:
    docstrings = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            docstrings.add(first.value if isinstance(first, ast.Expr) else None)
    nodes = (node for node in nodes_of(path) if node not in docstrings)
    assert not [(getattr(node, "lineno", 0), fault) for node in nodes if (fault := _fault(node))]


def _fault(node: ast.AST) -> str:
    """Return the name or word of a node that is not one of the field; nothing if there is none."""
    if isinstance(node, ast.Constant):
        is_text = isinstance(node.value, str) and " " in node.value
        match = DIALECT_TEXTS.search(str(node.value)) if is_text else None
        return match[0] if match else ""
    name = _name_given(node)
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return name if DIALECT_NAMES.search(parts) or (is_function and _is_participle(name)) else ""


def _is_participle(function: str) -> bool:
    """Return true if a function's name says neither what it does nor what it answers."""
    return function not in PARTICIPLES and PARTICIPLE.fullmatch(f"_{function.lstrip('_')}") is not None


def _name_given(node: ast.AST) -> str:
    """Return the name that a node gives to a function, class, parameter, variable or attribute, if any."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.id if isinstance(node, ast.Name) else node.attr
    return ""


@for_each(pages())
def test_docs_use_the_words_of_the_field(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = {
        number: match[0] for number, line in enumerate(lines, 1) if (match := DIALECT_TEXTS.search(line))
    }
    assert not found


LINE_MAX = 120


def texts(*patterns: str) -> list[Path]:
    """Return the files of the repository that match, without those of other projects."""
    others = {"node_modules", "templates", "conversations", ".venv", "site", "build", "dist"}
    return sorted(
        path
        for pattern in patterns
        for path in ROOT.glob(pattern)
        if not others & {*path.relative_to(ROOT).parts} and not path.name.startswith("vendor")
    )


# What people read besides the pages and Python. Go's templates cannot be wrapped.
SCRIPTS = texts(
    "registry/ui/static/**/*.js", "registry/ui/static/**/*.css", "registry/ui/static/**/*.html",
    "registry/ui/bundle/*.mjs", "tests/console/*.mjs", "tests/clients/js/*.js",
)  # fmt: skip
OPERATION = texts(
    "Makefile", "*.toml", "*.yml", ".ci/run", ".github/**/*.yml", "deploy/**/*.yaml", "deploy/**/*.yml",
    "deploy/**/*.sh", "deploy/**/*.toml", "deploy/**/*.conf", "deploy/**/*.cfg", "deploy/**/*.service",
    "deploy/**/Dockerfile*",
)  # fmt: skip


def lines_that_wrap(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that the language lets one wrap: not tables and blocks of Markdown."""
    in_block = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        begins = line.lstrip()
        in_block ^= path.suffix == ".md" and begins.startswith("```")
        if path.suffix == ".md" and (in_block or begins.startswith("|")):
            continue
        yield number, line


@for_each([*SCRIPTS, *OPERATION])
def test_scripts_and_files_of_operators_use_the_words_of_the_field(path: Path) -> None:
    """Names, texts and comments alike: a name in camelCase is looked at word by word."""
    lines = path.read_text(encoding="utf-8").splitlines()
    words = {number: re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", line) for number, line in enumerate(lines, 1)}
    rules = (STILTED, DIALECT_TEXTS, DIALECT_WORDS)
    assert not {number: m[0] for number, line in words.items() for rule in rules if (m := rule.search(line))}


@for_each([*pages(), *SCRIPTS, *OPERATION])
def test_lines_fit_a_screen(path: Path) -> None:
    if "conversations" in path.parts:
        return
    long = [number for number, line in lines_that_wrap(path) if len(line) > LINE_MAX]
    assert not long, f"lines {long} have more than {LINE_MAX} columns"


@pytest.mark.parametrize("folder", [*PACKAGES, "bench", "deploy", "tests"])
def test_docstrings_begin_with_a_verb_or_a_noun(folder: str) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = {
        f"{name_of(path)}:{getattr(node, 'lineno', 1)}": ast.get_docstring(node) or ""
        for path in modules(folder)
        for node in nodes_of(path)
        if isinstance(node, documented)
    }
    assert not {place: text.splitlines()[0] for place, text in texts.items() if CLAUSE.match(text)}


@pytest.mark.parametrize("folder", [*PACKAGES, "bench", "deploy", "tests"])
def test_constants_and_fields_have_comments_rather_than_strings(folder: str) -> None:
    statements = [
        (path, statement)
        for path in modules(folder)
        for node in nodes_of(path)
        if isinstance(body := getattr(node, "body", None), list)
        for statement in body[1:]
    ]
    assert not [
        f"{name_of(path)}:{statement.lineno}: {ast.unparse(statement)}"
        for path, statement in statements
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ]


@for_each(modules(*PACKAGES))
def test_there_is_one_cache_with_a_bound(path: Path) -> None:
    """Elsewhere an ordered dictionary serves other orders: turns of clients, and times."""
    others = {"registry.domain.lru", "registry.domain.admission", "registry.forwarding.authentication"}
    assert "collections.OrderedDict" not in _imported_names(path) or name_of(path) in others


def _imported_names(path: Path) -> set[str]:
    return {
        f"{node.module}.{alias.name}"
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
