"""The parts of the docs that follow from the source: the table of settings and the example file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from registry.base.config.foreign.translation import REGISTRIES
from registry.base.config.loading import Setting, table
from registry.base.config.settings import GROUP_TITLES
from registry.base.observe.metric_table import HISTOGRAM, METRICS, Metric
from registry.cli.verbs.scopes import markdown
from registry.domain import errors


def settings_table() -> str:
    """Return all settings as a Markdown table."""
    rows = [f"| `{s.name}` | {_code(s)} | {s.does}. Allowed: {s.kind.allowed} |" for s in table()]
    return "\n".join(["| setting | default | what it does |", "| --- | --- | --- |", *rows])


def _code(setting: Setting) -> str:
    return f"`{setting.default}`" if " at most " not in setting.default else setting.default


def chart_settings(description: str) -> dict[str, object]:
    """Return the JSON Schema of the chart's value ``settings``: no secrets, which a ConfigMap would show."""
    names = [setting.name for setting in table() if not setting.kind.secret]
    return {
        "type": "object",
        "description": description,
        "additionalProperties": False,
        "properties": {name: {"$ref": "#/definitions/setting"} for name in names},
    }


def foreign_settings() -> str:
    """Return the settings of other registries with their counterparts, as Markdown tables."""
    return "\n\n".join(f"## {registry.title}\n\n{markdown(registry)}" for registry in REGISTRIES)


def error_codes() -> str:
    """Return all error codes with their messages as a Markdown table."""
    kinds = {each for each in vars(errors).values() if isinstance(each, errors.ErrorKind)}
    rows = [f"| {kind.code} | {kind().status} | {_message(kind.template)} |" for kind in sorted(kinds)]
    return "\n".join(["| code | status | message |", "| --- | --- | --- |", *rows])


def _message(template: str) -> str:
    return "describes the problem" if template == "%s" else f"`{template}`"


def metrics_table() -> str:
    """Return all metrics as a Markdown table."""
    rows = [
        f"| `{_full_name(each)}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} "
        f"| {each.help}{f'; {each.when}' if each.when else ''} |"
        for each in METRICS
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |", *rows])


def _full_name(metric: Metric) -> str:
    return metric.name if metric.kind == HISTOGRAM else metric.series[0]


def example_file() -> str:
    """Return all settings as a TOML file that changes nothing until a line loses its ``#``."""
    return "\n".join(_example_lines()) + "\n"


def _example_lines() -> Iterator[str]:
    yield "# Settings of registrar with their defaults. Uncomment what you change."
    yield "# The environment (REGISTRAR_ and the name in capitals) and flags (--with-dashes) override it."
    yield '# "registrar check-config --config FILE" prints the settings in force and where each comes from.'
    group = None
    for setting in table():
        if setting.group != group:
            group = setting.group
            yield from ("", f"# --- {GROUP_TITLES[group]} ---")
        yield ""
        yield from textwrap.wrap(
            f"{setting.does}. Allowed: {setting.kind.allowed}.",
            width=100,
            initial_indent="# ",
            subsequent_indent="# ",
        )
        yield f"#{setting.name} = {'2' if ' at most ' in setting.default else setting.default}"
