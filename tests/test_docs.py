"""The docs are correct: settings, resources and words are described, links lead somewhere, examples run.

``pytest tests/test_docs.py --rewrite`` (``make docs``) writes the generated parts.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from bench.report import PAGES as REPORT_PAGES
from bench.report import SECTIONS, as_markdown, outdated_figures, page_of, readme_figures, replace_section
from deploy.monitoring.dashboard import dashboard
from registry import VERSION
from registry.__main__ import main
from registry.api.routes import operations
from registry.base.config.loading import load, table
from tests.support.generated_docs import (
    chart_settings,
    error_codes,
    example_file,
    foreign_settings,
    metrics_table,
    settings_table,
)
from tests.support.pages import DOCS, NOTES, RUNNABLE, SHOWN, blocks
from tests.support.pictures import PICTURES
from tests.support.running import ROOT

README = ROOT / "README.md"
MEASUREMENTS = ROOT / "bench" / "RESULTS.md"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
EXAMPLE = ROOT / "deploy" / "registry.example.toml"
CHART_SCHEMA = ROOT / "deploy" / "chart" / "values.schema.json"
PAGES = ROOT / "docs"
SETTINGS = PAGES / "settings.md"
README_LINES_MAX = ARCHITECTURE_LINES_MAX = 150
# Programs whose commands the docs show.
COMMAND = re.compile(r"(\$ )?(curl|docker|helm|kubectl|make|pip|pipx|registrar|spark-submit|uv)\b")
# A version of Registrar in a command, or in a sentence about one.
RELEASED = re.compile(r"(?:registrar[:-]|--version |tags/v|--sign v|the tag `|once )(\d+\.\d+\.\d+)")
WORDS = (
    *(
        "log",
        "record",
        "row",
        "change",
        "store",
        "view",
        "snapshot",
        "command",
        "decision",
        "apply",
        "commit",
    ),
    *("node", "reader", "owner", "primary", "secondary", "epoch"),
)


def same(path: Path, wanted: str, request: pytest.FixtureRequest) -> None:
    """Compare ``path`` with ``wanted``, or write it."""
    if request.config.getoption("--rewrite"):
        path.write_text(wanted, encoding="utf-8")
    assert path.exists(), f"make docs writes {path.name}"
    assert path.read_text(encoding="utf-8") == wanted, f"make docs rewrites {path.name}"


def same_part(page: Path, name: str, wanted: str, request: pytest.FixtureRequest) -> None:
    """Compare the generated part of a page with ``wanted``, or write it."""
    text = page.read_text(encoding="utf-8")
    before, start, rest = text.partition(f"<!-- {name}: written by make docs -->\n")
    _, end, after = rest.partition(f"\n<!-- end of {name} -->")
    assert end
    same(page, f"{before}{start}{wanted}{end}{after}", request)


def test_the_table_of_settings_is_complete(request: pytest.FixtureRequest) -> None:
    same_part(SETTINGS, "settings", settings_table(), request)


def test_the_tables_of_other_registries_settings_are_complete(request: pytest.FixtureRequest) -> None:
    same_part(PAGES / "foreign-settings.md", "foreign settings", foreign_settings(), request)


def test_the_table_of_error_codes_is_complete(request: pytest.FixtureRequest) -> None:
    same_part(PAGES / "errors.md", "errors", error_codes(), request)


def test_the_table_of_metrics_is_complete(request: pytest.FixtureRequest) -> None:
    same_part(PAGES / "monitoring.md", "metrics", metrics_table(), request)


def test_the_dashboard_shows_the_metrics_of_the_script(request: pytest.FixtureRequest) -> None:
    same(ROOT / "deploy" / "monitoring" / "registrar.json", dashboard(), request)


def test_the_example_file_holds_every_setting(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same(EXAMPLE, example_file(), request)
    awake = re.sub(r"^#(?=[a-z])", "", EXAMPLE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert list(tomllib.loads(awake)) == [setting.name for setting in table()]
    file = tmp_path / "all.toml"
    file.write_text(awake)
    assert main(["check-config", "--config", str(file)]) == 0, capsys.readouterr().err


def test_the_chart_takes_every_setting_that_is_no_secret(request: pytest.FixtureRequest) -> None:
    schema = json.loads(CHART_SCHEMA.read_text(encoding="utf-8"))
    schema["properties"]["settings"] = chart_settings(schema["properties"]["settings"]["description"])
    same(CHART_SCHEMA, json.dumps(schema, indent=2) + "\n", request)


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_are_what_the_script_draws(name: str, request: pytest.FixtureRequest) -> None:
    same(PAGES / name, PICTURES[name](), request)


def test_the_table_of_the_kafka_client_is_one(tmp_path: Path) -> None:
    file = tmp_path / "kafka.toml"
    kafka_table = next(block.code for block in blocks(SETTINGS) if block.language == "toml")
    file.write_text(kafka_table.replace("/etc/ssl/kafka-ca.pem", str(README)))
    settings = load(environment={"REGISTRAR_KAFKA_SASL_PASSWORD": "x"}, file=file).settings
    assert settings.security["security_protocol"] == "SASL_SSL"
    assert settings.kafka == "broker-1:9093,broker-2:9093"


def test_the_readme_begins_with_the_commands_for_those_with_and_without_a_checkout() -> None:
    beginning = README.read_text(encoding="utf-8")[:1600]
    assert 0 < beginning.index("make serve") < beginning.index("make test") < beginning.index("pipx install")


def test_the_figures_of_the_readme_are_those_of_the_measurements() -> None:
    readme = README.read_text(encoding="utf-8")
    assert len(readme_figures(readme)) == 4
    assert outdated_figures(readme, MEASUREMENTS.read_text(encoding="utf-8")) == []


def test_the_report_fills_every_section_of_the_measurements() -> None:
    pages = {name: (MEASUREMENTS.parent / name).read_text(encoding="utf-8") for name in REPORT_PAGES}
    found = [each for text in pages.values() for each in re.findall(r"<!-- report: ([\w-]+) -->", text)]
    assert sorted(found) == sorted(SECTIONS)
    assert page_of("growth", MEASUREMENTS.parent).name == "GROWTH.md"
    page = pages[MEASUREMENTS.name]
    filled = replace_section(page, "fold", as_markdown("1 record/s\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"))
    section = filled.partition("<!-- report: fold -->\n")[2].partition("<!-- end -->")[0]
    assert section == "```\n1 record/s\n```\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    assert filled.replace(section, "") == page.replace(
        page.partition("<!-- report: fold -->\n")[2].partition("<!-- end -->")[0], ""
    )


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= README_LINES_MAX
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)\)", text))
    assert linked <= {page.name for page in PAGES.glob("*.md")}
    contents = (PAGES / "index.md").read_text(encoding="utf-8")
    linked |= {"index.md", *re.findall(r"\]\(([\w-]+\.md)", contents)}
    assert linked == {page.name for page in PAGES.glob("*.md")}
    told = "".join(page.read_text(encoding="utf-8") for page in DOCS)
    assert all(f"]({name})" in told or f"](docs/{name})" in told for name in PICTURES)


def test_the_architecture_is_short_and_leads_to_every_design() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= ARCHITECTURE_LINES_MAX
    designs = {str(path.relative_to(ROOT)) for path in DOCS if path.name == "DESIGN.md"}
    assert set(re.findall(r"\]\(([\w/]+/DESIGN\.md)\)", text)) == designs


async def no_metrics() -> bytes:
    return b""


def test_own_resources_are_described() -> None:
    served = {each.path for each in operations(VERSION, no_metrics) if each.tag == "Registrar"} | {"/metrics"}
    text = (PAGES / "api.md").read_text(encoding="utf-8")
    section = text.partition("## Additional resources")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(/[^`]*)` \|", section, re.MULTILINE)) == served


@pytest.mark.parametrize("word", WORDS)
def test_the_words_are_explained(word: str) -> None:
    assert re.search(rf"^\| .*\*\*{word}\*\*.* \|", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("document", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    targets = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    targets += re.findall(r"`((?:registry|tests|deploy|bench|election|snapshots|registrar)/[\w./]*)`", text)
    # In a DESIGN.md, modules are named from its own package.
    targets += re.findall(r"`([a-z_]+/[\w/]+\.py)`", text)
    missing = [
        target for target in targets if not any((at / target).exists() for at in (document.parent, ROOT))
    ]
    assert not missing


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_sections_lead_to_a_heading(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", document.read_text(encoding="utf-8"))
    pages = {
        (document.parent / page if page else document, anchor) for page, anchor in links if ":" not in page
    }
    assert [
        f"{page}#{anchor}" for page, anchor in pages if page.suffix == ".md" and anchor not in anchors(page)
    ] == []


@pytest.mark.parametrize("document", [*DOCS, EXAMPLE], ids=lambda path: str(path.relative_to(ROOT)))
def test_targets_of_make_in_the_docs_exist(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(
        r"\bmake ([a-z]+)\b(?=`|\s*$|\s+[A-Z]+=)", document.read_text(encoding="utf-8"), re.MULTILINE
    ):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_changelog_has_this_version() -> None:
    assert f"## [{VERSION}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_commands_of_the_docs_name_this_version() -> None:
    """Each place that a release has to change; the changelog and the chart have tests of their own."""
    named = {
        (document.name, version)
        for document in DOCS
        for version in RELEASED.findall(document.read_text(encoding="utf-8"))
    }
    pages = ("README.md", "install.md", "kubernetes.md", "releases.md")
    assert named == {(page, VERSION) for page in pages}


@pytest.mark.parametrize("document", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_is_run_or_says_why_not(document: Path) -> None:
    """A command in a block of another language would be run by nobody."""
    for block in blocks(document):
        where = f"line {block.line}"
        assert block.language in (*RUNNABLE, *SHOWN), where
        if block.language not in RUNNABLE:
            assert not COMMAND.match(block.code), f"{where}: a command belongs in a block of sh"
        if block.note in ("not run", "file", "typed", "exit status"):
            assert block.value, f"{where}: give a value after the colon"


def test_the_comments_for_blocks_are_explained() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert all(f"| `<!-- {note}" in text for note in NOTES)
