"""Bundles of the console's files: one for the frame, with all style sheets, and one for each view.

They are made when the files are read, so that a page needs few requests and our own code needs no build. A
bundle holds its modules as functions, each after those that it imports, and gives them the exports of the
others. A module that two bundles hold runs once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from posixpath import dirname, normpath, relpath
from typing import Final

FOLDER: Final = "bundles"
ENTRY: Final = "app.js"
# The libraries of the editor are a file of their own, which only views with texts load.
APART: Final = "vendor-editor.js"
# Their rules come first, in this order; those of views follow.
_SHEETS: Final = ("styles/tokens.css", "styles/base.css", "styles/components.css", "styles/session.css")

_IMPORT: Final = re.compile(
    r"""^import\s+(?:\{(?P<named>[^}]*)\}\s*from\s+|\*\s+as\s+(?P<whole>\w+)\s+from\s+)?"(?P<path>\.{1,2}/[^"]+)";""",
    re.MULTILINE,
)
_LAZY: Final = re.compile(r"""\bimport\("(\.{1,2}/[^"]+)"\)""")
_EXPORT: Final = re.compile(
    r"^export\s+(?P<default>default\s+)?(?P<kind>(?:async\s+)?function\s*\*?|class|const)\s+"
    r"(?P<name>[\w$]+|\[[\w$, ]+\])",
    re.MULTILINE,
)
_LIST: Final = re.compile(r"\bexport\s*\{([^}]*)\};?\s*$")  # as esbuild writes it, at the end
_OTHER: Final = re.compile(r"^(?:export\b|import\b[^(\n]*\"\.).*", re.MULTILINE)
# The page is empty without scripts, so its styles need no request of their own.
_ADOPT: Final = """\
const sheet = new CSSStyleSheet();
sheet.replaceSync(%s);
document.adoptedStyleSheets = [sheet];
"""
_RUNNER: Final = """\
const modules = new Map();
const $from = (path) => modules.get(path);
export { $from as moduleOf };
export const define = (path, run) => modules.has(path) || modules.set(path, run($from, $load));
"""


def bundles_of(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the bundles by their paths; none without an entry.

    Raises ValueError for a module whose imports or exports have a form that bundles cannot hold.
    """
    modules = {path: _Module(path, body.decode()) for path, body in files.items() if path.endswith(".js")}
    if ENTRY not in modules:
        return {}
    entry = _in_order(modules, ENTRY)
    lazy = sorted({each for module in modules.values() for each in module.lazy if each in modules})
    loads = [f"  {path!r}: () => import({_address(path)!r})," for path in lazy]
    loader = ["const LOADS = {", *loads, "};", "const $load = (path) => LOADS[path]().then((found) =>"]
    loader += ["  modules.get(path) ?? found);", _RUNNER]
    parts = (modules[each].as_function() for each in entry)
    styles = b"\n".join(_sheets(files)).decode()
    bundles = {_below_folder(ENTRY): "\n".join((_ADOPT % json.dumps(styles), *loader, *parts)).encode()}
    for path in lazy:
        if path != APART:
            own = [each for each in _in_order(modules, path) if each not in entry]
            frame = relpath(ENTRY, dirname(path) or ".")
            head = f'import {{ define }} from "{frame if frame.startswith(".") else f"./{frame}"}";'
            parts = (modules[each].as_function() for each in own)
            bundles[_below_folder(path)] = "\n".join((head, *parts)).encode()
    return bundles


def _below_folder(path: str) -> str:
    return f"{FOLDER}/{path}"


def _address(path: str) -> str:
    return f"../{path}" if path == APART else f"./{path}"


def _sheets(files: Mapping[str, bytes]) -> Iterator[bytes]:
    found = [path for path in files if path.endswith(".css")]
    yield from (files[path] for path in (*_SHEETS, *sorted({*found} - {*_SHEETS})) if path in files)


def _in_order(modules: Mapping[str, _Module], path: str) -> dict[str, None]:
    """Return a module after all those that it imports; imports have no circles."""
    found: dict[str, None] = {}
    for each in modules[path].imported:
        if each in modules:
            found |= _in_order(modules, each)
    return found | {path: None}


class _Module:
    """A module, and what it imports at once and later."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text
        self.imported = [self._path_of(found["path"]) for found in _IMPORT.finditer(text)]
        self.lazy = [self._path_of(found) for found in _LAZY.findall(text)]

    def as_function(self) -> str:
        """Return a call that defines the module; raises ValueError if it is of another form."""
        exported: dict[str, str] = {}

        def collect(found: re.Match[str]) -> str:
            for name in re.findall(r"[\w$]+", found["name"]):
                exported["default" if found["default"] else name] = name
            return f"{found['kind']} {found['name']}"

        def collect_list(found: re.Match[str]) -> str:
            for each in filter(None, map(str.strip, found[1].split(","))):
                name, _, public = each.partition(" as ")
                exported[public or name] = name
            return ""

        body = _LIST.sub(collect_list, _EXPORT.sub(collect, _IMPORT.sub(self._constant, self._text)))
        body = _LAZY.sub(lambda found: f'$load("{self._path_of(found[1])}")', body)
        if other := _OTHER.search(body):
            raise ValueError(f"{self._path}: bundles cannot hold {other[0]!r}")
        results = ", ".join(f"{public}: {name}" for public, name in exported.items())
        return f'define("{self._path}", ($from, $load) => {{\n{body}\nreturn {{ {results} }};\n}});'

    def _constant(self, found: re.Match[str]) -> str:
        source = f'$from("{self._path_of(found["path"])}")'
        if found["named"] is not None:
            return f"const {{{found['named'].replace(' as ', ': ')}}} = {source};"
        return f"const {found['whole']} = {source};" if found["whole"] else ""

    def _path_of(self, path: str) -> str:
        return normpath(f"{dirname(self._path) or '.'}/{path}")
