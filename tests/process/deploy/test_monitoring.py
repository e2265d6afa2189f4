"""Dashboard and alert rules: their expressions name only what a node serves, and each alert is explained."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import promql_parser
import pytest
import yaml

from registry.base.observe.metric_table import HISTOGRAM, METRICS
from tests.support.running import PATIENT, ROOT, Registry

FOLDER = ROOT / "deploy" / "monitoring"
DASHBOARD, ALERTS = FOLDER / "registrar.json", FOLDER / "alerts.yaml"
TESTS = FOLDER / "alerts.test.yaml"
RUNBOOK = ROOT / "docs" / "runbook.md"
# Prometheus adds these labels, and the series "up", to what it scrapes; the last one in Kubernetes.
SCRAPED = {"job", "instance", "namespace"}
INFO = "registrar_cluster_info"
# A rule is about a cluster or about a node, never about a job, which may be that of several clusters.
ABOUT = ({"cluster"}, {"namespace", "job", "instance"})
LABELS = {
    series: {*each.labels, *SCRAPED, *(("le",) if series.endswith("_bucket") else ())}
    for each in METRICS
    for series in each.series
} | {"up": SCRAPED}


class Selector(NamedTuple):
    series: str
    matchers: tuple[tuple[str, str, str], ...]  # label, operator, value


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [each for each in json.loads(DASHBOARD.read_text())["panels"] if each["type"] != "row"]


def expressions() -> dict[str, str]:
    found = {rule["alert"]: rule["expr"] for rule in rules()}
    for panel in panels():
        for number, target in enumerate(panel["targets"]):
            # Grafana puts a duration in place of this variable.
            found[f"{panel['title']} {number}"] = target["expr"].replace("$__rate_interval", "5m")
    return found


EXPRESSIONS = expressions()


def parts(node: Any) -> Iterator[Any]:
    """Yield every node of an expression's tree."""
    yield node
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        if (inner := getattr(node, name, None)) is not None:
            yield from parts(inner)
    for inner in getattr(node, "args", ()):
        yield from parts(inner)


def selectors(expression: str) -> list[Selector]:
    signs = {"MatchOp.Equal": "=", "MatchOp.NotEqual": "!=", "MatchOp.Re": "=~", "MatchOp.NotRe": "!~"}
    return [
        Selector(
            node.name,
            tuple((each.name, signs[str(each.op)], each.value) for each in node.matchers.matchers),
        )
        for node in parts(promql_parser.parse(expression))
        if isinstance(node, promql_parser.VectorSelector)
    ]


@pytest.mark.parametrize("title", EXPRESSIONS)
def test_an_expression_names_only_metrics_and_labels_that_are_served(title: str) -> None:
    expression = EXPRESSIONS[title]
    found = selectors(expression)
    assert found
    assert {each.series for each in found} <= LABELS.keys()
    for each in found:
        assert {label for label, _, _ in each.matchers} <= LABELS[each.series]
    # A join with the metric of the cluster adds its label to the result.
    joined = [LABELS[each.series] for each in found if each.series != INFO] or [LABELS[INFO]]
    known = set.intersection(*joined) | ({"cluster"} if INFO in {each.series for each in found} else set())
    assert all(labels <= known for labels in aggregated(expression))


def aggregated(expression: str) -> list[set[str]]:
    """Return the labels of each aggregation that names some."""
    return [
        {*node.modifier.labels}
        for node in parts(promql_parser.parse(expression))
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None
    ]


def test_every_rule_is_about_a_cluster_or_a_node_whatever_its_job_is_called() -> None:
    for rule in rules():
        assert all(any(about <= labels for about in ABOUT) for labels in aggregated(rule["expr"]))
        matched = {label for each in selectors(rule["expr"]) for label, _, _ in each.matchers}
        assert not matched & SCRAPED, rule["alert"]


@pytest.mark.parametrize("wrong", ["rate(registrar_ready)", "sum by (x", "x{role}"])
def test_a_wrong_expression_is_noticed(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        selectors(wrong)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metrics of a node."""
    node = Registry(tmp_path_factory.mktemp("node") / "data", "--readers", "1").wait()
    try:
        httpx.get(f"{node.url}/subjects", timeout=PATIENT)
        return httpx.get(f"{node.url}/metrics", timeout=PATIENT).text
    finally:
        assert node.stop() == 0


def promtool(*words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *words], input=given, capture_output=True, text=True, check=False)


def test_prometheus_accepts_the_rules() -> None:
    done = promtool("check", "rules", ALERTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_when_it_should_and_only_then() -> None:
    done = promtool("test", "rules", TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_firing_and_silent() -> None:
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    cases = [case for each in tests for case in each["alert_rule_test"]]
    alerts = {rule["alert"] for rule in rules()}
    assert {each["alertname"] for each in cases if each.get("exp_alerts")} == alerts
    assert {each["alertname"] for each in tests[0]["alert_rule_test"] if not each.get("exp_alerts")} == alerts


def test_prometheus_objects_to_no_metric_but_those_that_have_the_names_of_others(served: str) -> None:
    done = promtool("check", "metrics", given=served)
    objections = (done.stdout + done.stderr).splitlines()
    assert [each for each in objections if not each.startswith("kafka_schema_registry_")] == []


def test_values_of_labels_in_expressions_are_served(served: str) -> None:
    wanted = {
        (each.series, f'{label}="{value}"')
        for expression in EXPRESSIONS.values()
        for each in selectors(expression)
        for label, sign, value in each.matchers
        if sign == "=" and label not in SCRAPED and label != "status"
    }
    assert wanted
    for series, label in wanted:
        assert re.search(rf"^{series}\{{[^}}]*{re.escape(label)}", served, re.MULTILINE), (series, label)


def test_legends_and_annotations_name_labels_that_the_results_have() -> None:
    def known(expression: str) -> set[str]:
        return set.union(*(LABELS[each.series] for each in selectors(expression)))

    for panel in panels():
        for target in panel["targets"]:
            named = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            assert {*named} <= known(target["expr"].replace("$__rate_interval", "5m")), panel["title"]
    for rule in rules():
        named = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        assert {*named} <= known(rule["expr"]), rule["alert"]


def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    shown = {each.series for title, text in EXPRESSIONS.items() for each in selectors(text)}
    own = [each for each in METRICS if each.name.startswith("registrar_")]
    assert not [each.name for each in own if not shown & {*each.series}]
    assert any(each.kind == HISTOGRAM for each in own)


def test_panels_do_not_overlap() -> None:
    taken = [
        (x, y)
        for each in panels()
        for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
        for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])
    ]
    assert len(taken) == len({*taken})
    assert max(x for x, _ in taken) == 23


def test_every_alert_is_explained_in_the_runbook() -> None:
    chapters = re.split(r"^## ", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    entries = {title: text for title, _, text in (each.partition("\n") for each in chapters)}
    assert [*entries] == [rule["alert"] for rule in rules()]
    for rule in rules():
        entry = entries[rule["alert"]]
        assert all(f"**{word}.**" in entry for word in ("Means", "Look at", "Do")), rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
