"""The pure modules of the console, in Node, and the bundles that hold all modules."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from registry.ui.bundles import bundles_of
from registry.ui.console import STATIC

FOLDER = Path(__file__).parent
NAMES = (
    "lint/names_rule.mjs",
    "lint/spaces_rule.mjs",
    "schema_modules.mjs",
    "cluster_modules.mjs",
    "store_modules.mjs",
    "page_modules.mjs",
)
SCRIPTS = [str(FOLDER / name) for name in NAMES]


def test_the_pure_modules_do_what_they_say() -> None:
    ran = subprocess.run(
        ["node", "--test", *SCRIPTS], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def compared(modules: dict[str, str], place: Path) -> subprocess.CompletedProcess[str]:
    """Compare modules with their bundles by a parser."""
    bundles = {name: body.decode() for name, body in bundles_of(as_bytes(modules)).items()}
    place.write_text(json.dumps({"modules": modules, "bundles": bundles}))
    command = ["node", str(FOLDER / "lint" / "bundles.mjs"), str(place)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def as_bytes(modules: dict[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in modules.items()}


def test_bundles_hold_every_token_of_every_module_and_all_that_it_imports_and_exports(tmp_path: Path) -> None:
    modules = {str(path.relative_to(STATIC)): path.read_text() for path in STATIC.rglob("*.js")}
    ran = compared(modules, tmp_path / "modules.json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert sorted(found["alone"]) == ["vendor-editor.js"]
    assert found["compared"] == len(modules) - 1


@pytest.mark.parametrize(
    "text",
    [
        "/*\nexport const old = 1;\n*/\nexport const a = 1;",
        "export const a = `\nexport const b = 1;\n`;",
        'export const a = `\nimport { b } from "./b.js";\n`;',
        "export const a = 'import(\"./b.js\")';",
        "export const a = import.meta.url;",
        "export const a = await 1;",
        "export let a = 1;",
        'export { a } from "./b.js";',
        "const a = 1; export { a };\na.b();",
    ],
)
def test_what_a_bundle_would_change_is_noticed(text: str, tmp_path: Path) -> None:
    modules = {"app.js": 'import { a } from "./a.js";\na();', "a.js": text, "b.js": "export const b = 1;"}
    try:
        ran = compared(modules, tmp_path / "modules.json")
    except ValueError as error:
        assert "bundles cannot hold" in str(error)  # noqa: PT017
    else:
        assert ran.returncode == 1, ran.stdout
        assert "AssertionError" in ran.stderr
