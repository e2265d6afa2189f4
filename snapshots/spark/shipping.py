"""What Spark's executors need of this project: the files that their tasks import, in one archive.

Besides, they need Python 3.11 or newer with msgspec, numpy, orjson, pyarrow and xxhash, and access to the
snapshots' location. A build on a cluster hands the archive over by itself. It is not for ``--py-files``, by
which the driver would find it in the place of the whole project.

``python -m snapshots.spark.shipping`` lists what is in it; with an argument, that file is made, for images.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parent.parent.parent
"""The folder of the packages ``registry`` and ``snapshots``."""
ARCHIVE = "registrar-executors.zip"
PACKAGES = ("registry", "snapshots")
_ROOTS = "snapshots/spark/tasks"
_MOMENT = (1980, 1, 1, 0, 0, 0)


def py_files() -> list[str]:
    """The files, by their paths below :data:`SOURCES`: the tasks' modules and all that these import."""
    waiting = sorted(path.relative_to(SOURCES).as_posix() for path in (SOURCES / _ROOTS).glob("*.py"))
    found = set(waiting)
    while waiting:
        for path in _imported(waiting.pop()):
            if path not in found:
                found.add(path)
                waiting.append(path)
    packages = {f"{parent}/__init__.py" for path in found for parent in Path(path).parents if parent.name}
    return sorted(found | {path for path in packages if (SOURCES / path).exists()})


def write_archive(archive: Path) -> None:
    """Write the archive; the same bytes for the same files."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for path in py_files():
            out.writestr(zipfile.ZipInfo(path, _MOMENT), (SOURCES / path).read_bytes())


def _imported(path: str) -> Iterator[str]:
    """Our files that a file imports, at its top or inside a function."""
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
    if sys.argv[1:]:
        write_archive(Path(sys.argv[1]))
    else:
        sys.stdout.writelines(f"{path}\n" for path in py_files())
