"""The contract of metrics: what rules and page name is emitted, and every alert fires for what its page says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from kafka_dr.actions.metrics.reading import read_metrics
from kafka_dr.config.settings import load_topology
from kafka_dr.domain.metrics.series import PREFIX, SERIES

from tests.support.bench import Bench
from tests.support.metrics.site import MetricsSite

ROOT = Path(__file__).parents[2]
RUNBOOKS, FIRE = ROOT / "runbooks", Path(__file__).parent / "alerts_fire.yaml"
RULES = RUNBOOKS / "alerts" / "switchback.rules.yaml"
PAGE = (RUNBOOKS / "metrics.md").read_text(encoding="utf-8")
ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]
IDS = [rule["alert"] for rule in ALERTS]
SECTIONS = dict(part.split("\n", 1) for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:])
#: Words of PromQL in the rules, and labels that Prometheus adds or `on` names.
WORDS = set("absent time unless on and or group_left group_right instance source target dag_id".split())
SELECTOR = re.compile(r"([A-Za-z_:][\w:]*)\s*(?:\{([^}]*)\})?")
MATCHER = re.compile(r'\s*(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"\s*(?:,|$)')


class Named(NamedTuple):
    """A series that an expression names, and the values that it asks of labels."""

    series: str
    labels: dict[str, str]


def series_in(expression: str) -> list[Named]:
    """The series of an expression; every other word must be one of PromQL's that the rules use."""
    found = []
    for name, matchers in SELECTOR.findall(expression):
        if name in WORDS:
            continue
        found.append(Named(name, {label: value for label, _, value in MATCHER.findall(matchers)}))
    return found


def problems_of(expression: str, emitted: dict[str, list[dict[str, str]]]) -> list[str]:
    """What an expression names that is not emitted: a series, a label, or a value of a label."""
    problems = []
    for name, labels in series_in(expression):
        samples = emitted.get(name)
        if samples is None:
            problems.append(f"no series {name}")
        elif not any(labels.items() <= sample.items() for sample in samples):
            problems.append(f"no {name} with {labels}")
    return problems


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, str]]]:
    """Series -> the labels of its samples, of a site on which all is known."""
    bench = Bench(tmp_path_factory.mktemp("metrics"))
    site = MetricsSite(bench)
    site.fill()
    found: dict[str, list[dict[str, str]]] = {}
    for name, _, labels in read_metrics(load_topology(bench.topology), site.journal).values:
        found.setdefault(PREFIX + name, []).append(dict(zip(SERIES[name].labels, labels, strict=True)))
    return found


@pytest.mark.parametrize("rule", ALERTS, ids=IDS)
def test_a_rule_names_what_is_emitted(rule: dict[str, Any], emitted: Any) -> None:
    """Its series, labels, and values of labels; an alert on anything else could never fire."""
    assert series_in(rule["expr"]) and problems_of(rule["expr"], emitted) == []


@pytest.mark.parametrize(
    "wrong",
    ["switchback_moon > 1", 'switchback_readiness_state{state="GREEN"} == 1', 'switchback_up{topic="a"} == 0', "upp"],
)
def test_a_rule_on_what_is_not_emitted_is_found(wrong: str, emitted: Any) -> None:
    """A series, a value, a label, a word."""
    assert problems_of(f"time() - switchback_up > 0 unless on (source) {wrong}", emitted) != []
    assert problems_of("time() - switchback_up > 0", emitted) == []


@pytest.mark.parametrize("rule", ALERTS, ids=IDS)
def test_an_alert_leads_to_its_heading(rule: dict[str, Any]) -> None:
    """With what is seen, why, and what to do; the severity is one of three; labels of its text are the series'."""
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert rule["annotations"]["runbook_url"] == f"runbooks/metrics.md#{rule['alert'].lower()}"
    parts = re.findall(r"^\*\*(\w+)\.\*\* \S", SECTIONS[rule["alert"]], flags=re.MULTILINE)
    assert parts == ["Symptom", "Cause", "Do"] and rule["annotations"]["summary"].endswith(".")
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert used <= {label for named in series_in(rule["expr"]) for label in labels_of(named)} | {"instance"}


def labels_of(named: Named) -> tuple[str, ...]:
    """The labels of a series."""
    return SERIES[named.series.removeprefix(PREFIX)].labels


def test_the_page_lists_each_alert_with_its_severity() -> None:
    """In the order of the rules."""
    rows = re.findall(r"^\| \[(\w+)\]\(#(\w+)\) \| (\w+) \|", PAGE, flags=re.MULTILINE)
    assert rows == [(rule["alert"], rule["alert"].lower(), rule["labels"]["severity"]) for rule in ALERTS]
    assert sorted(name for name, text in SECTIONS.items() if "**Symptom.**" in text) == sorted(IDS)


def test_the_page_lists_each_series_as_the_code_has_it() -> None:
    """Name, labels and meaning, in the order of the code; no other series is named anywhere on the page."""
    rows = re.findall(r"^\| `switchback_(\w+)` \|(.*?)\| (.*) \|$", PAGE, flags=re.MULTILINE)
    stated = [(name, tuple(re.findall(r"`(\w+)`", labels)), meaning) for name, labels, meaning in rows]
    assert stated == [(name, series.labels, series.meaning) for name, series in SERIES.items()]
    others = {"switchback_metrics"}
    assert {name.removeprefix(PREFIX) for name in set(re.findall(r"switchback_\w+", PAGE)) - others} == set(SERIES)


def test_each_alert_has_a_case_in_which_it_fires() -> None:
    """And the cases name no other alert."""
    cases = yaml.safe_load(FIRE.read_text(encoding="utf-8"))["tests"]
    fired = {test["alertname"] for case in cases for test in case["alert_rule_test"] if test.get("exp_alerts")}
    silent = {test["alertname"] for case in cases for test in case["alert_rule_test"] if not test.get("exp_alerts")}
    assert fired == silent == set(IDS)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: it is in Debian's package prometheus")
@pytest.mark.parametrize("command", [("check", "rules", str(RULES)), ("test", "rules", str(FIRE))])
def test_prometheus_takes_the_rules(command: tuple[str, ...]) -> None:
    """By its own tool: the file is valid, and each alert fires in its case and in no other."""
    done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
