"""The archive of this project's files that the tasks of Spark's executors import.

Executors also need Python 3.11 or newer with msgspec, numpy, orjson, pyarrow and xxhash, and access to the
location of snapshots. A build on a cluster ships the archive by itself. Do not pass it with ``--py-files``:
the driver would import it instead of the whole project.

``python -m snapshots.spark.shipping`` lists its files; with an argument, it writes the archive, for images.
``--library FILE`` writes another one, with ``registrar.spark`` and all that it imports, for ``--py-files``.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

# The folder of the packages.
SOURCES = Path(__file__).parent.parent.parent
ARCHIVE = "registrar-executors.zip"
PACKAGES = ("registry", "registrar", "snapshots")
# Decoders are imported by the names of their formats.
_TASKS, LIBRARY = ("snapshots/spark/tasks", "registry/cli/decoding"), ("registrar/spark",)
_MOMENT = (1980, 1, 1, 0, 0, 0)


def py_files(folders: Sequence[str] = _TASKS) -> list[str]:
    """Return the modules of folders and all that they import, by their paths below :data:`SOURCES`."""
    paths = (path for folder in folders for path in (SOURCES / folder).glob("*.py"))
    waiting = sorted(path.relative_to(SOURCES).as_posix() for path in paths)
    found = set(waiting)
    while waiting:
        path = waiting.pop()
        # Importing a module runs those of its packages.
        around = (f"{parent}/__init__.py" for parent in Path(path).parents if parent.name)
        for other in (*_imports_of(path), *(each for each in around if (SOURCES / each).exists())):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return sorted(found)


def write_archive(archive: Path, folders: Sequence[str] = _TASKS) -> None:
    """Write the archive; the same files give the same bytes."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in py_files(folders):
            out.writestr(zipfile.ZipInfo(path, _MOMENT), (SOURCES / path).read_bytes())


def _imports_of(path: str) -> Iterator[str]:
    """Yield the files of this project that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse((SOURCES / path).read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(Path(path).parts[: -node.level]) if node.level else ""
            module = ".".join(filter(None, [package, node.module]))
            names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            if name.partition(".")[0] in PACKAGES:
                yield from _files(name)


def _files(name: str) -> Iterator[str]:
    path = name.replace(".", "/")
    yield from (each for each in (f"{path}.py", f"{path}/__init__.py") if (SOURCES / each).is_file())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--library"]:
        write_archive(Path(sys.argv[2]), LIBRARY)
    elif sys.argv[1:]:
        write_archive(Path(sys.argv[1]))
    else:
        sys.stdout.writelines(f"{path}\n" for path in py_files())
