"""The drill report as data: twenty numbered fields, from a drill's evidence alone.

Invariant: each report has all twenty fields; a field without any fact is there, too, and says that it is not stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from kafka_dr.domain.drill.facts import DrillFacts
from kafka_dr.domain.drill.section import drill_section

#: Version of the report's form: raised when a field changes its meaning or goes.
FORM = 1
TITLES: Mapping[str, str] = {
    "identity": "Drill",
    "dates": "Dates",
    "scope": "Scope, and what was left out",
    "scenario": "Scenario",
    "objectives": "Objectives",
    "expected": "Assumptions and expected outcome",
    "people": "People",
    "third_parties": "Third parties",
    "account": "Account, step by step",
    "achieved": "Achieved, beside the objectives",
    "integrity": "Data integrity",
    "other_cluster": "Time on the other cluster, and return",
    "deviations": "Deviations and retries",
    "findings": "Findings",
    "comparison": "Comparison with the last drill",
    "verdict": "Verdict",
    "sign_offs": "Sign-offs",
    "retention": "Retention",
    "versions": "Versions and what was in place",
    "chain": "Digest and chain",
}
#: Keys of rows that name what a row is about; alone they are no fact.
_NEVER_FACTS = frozenset({"simulated_loss", "name", "dag_id", "pass", "source", "target"})


@dataclass(frozen=True)
class ReportField:
    """One of the report's twenty fields.

    Attributes:
        number: its place, from 1.
        stated: whether the report has any fact for it.
    """

    number: int
    name: str
    title: str
    stated: bool
    value: Mapping[str, Any]


def whole_section(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `drill` section of evidence; a field that an older version did not write is null or empty."""
    return {**_empty_section(), "procedure_id": evidence.get("procedure_id"), **(evidence.get("drill") or {})}


@cache
def _empty_section() -> dict[str, Any]:
    lists = dict.fromkeys(("reasons", "findings", "not_tested"), ())
    return {**drill_section(DrillFacts("", "", "", "")), **lists}


def report_fields(evidence: Mapping[str, Any]) -> list[ReportField]:
    """Return the twenty fields of a drill's report, in their order."""
    values = {**_asked(section := whole_section(evidence)), **_happened(section), **_follows(section, evidence)}
    return [
        ReportField(number, name, title, _is_stated(values[name]), values[name])
        for number, (name, title) in enumerate(TITLES.items(), 1)
    ]


def report_document(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of drill_report.json."""
    return {
        "form": FORM,
        "procedure_id": evidence["procedure_id"],
        "evidence_digest": evidence["digest"],
        "fields": [asdict(field) for field in report_fields(evidence)],
    }


def _asked(drill: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields that say what the drill was meant to be."""
    of_passes = [
        {name: one.get(name) for name in ("name", "dag_id", "source", "target", "expected", "forecast")}
        for one in drill["passes"]
    ]
    return {
        "identity": _some(drill, "procedure_id", "kind", "source", "target", "started_by", "announced", "reason"),
        "dates": _some(drill, "triggered_at", "ended_at", "seconds", "next_due"),
        "scope": {**_some(drill, "scope", "size"), "not_tested": drill["not_tested"]},
        "scenario": _some(drill, "scenario", "reference"),
        "objectives": {"objectives": drill["objectives"]},
        "expected": {"assumptions": drill["assumptions"], "passes": of_passes},
        "people": {"people": drill["people"]},
        "third_parties": {"text": drill["third_parties"]},
    }


def _happened(drill: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields that say what happened."""
    account = [
        {
            name: one.get(name)
            for name in ("name", "dag_id", "source", "target", "outcome", "evidence", "digest", "seconds", "steps")
        }
        for one in drill["passes"]
    ]
    integrity = [
        {
            name: one.get(name)
            for name in ("name", "simulated_loss", "integrity", "classes", "rereads", "repeats", "loss")
        }
        for one in drill["passes"]
    ]
    achieved = {name: value for name, value in drill["achieved"].items() if name not in ("other_cluster", "restored")}
    return {
        "account": {"steps": drill["steps"], "passes": account, "steps_not_run": drill["steps_not_run"]},
        "achieved": achieved,
        "integrity": {"passes": integrity, "untouched": drill["untouched"], "left_over": drill["left_over"]},
        "other_cluster": _some(drill["achieved"], "other_cluster", "restored"),
        "deviations": _some(drill, "deviations", "retries", "planted", "scope_refusals", "stopped"),
    }


def _follows(drill: Mapping[str, Any], evidence: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields that say what follows from the drill, and how the report can be checked."""
    plans = {one["name"]: one.get("plan_digest") for one in drill["passes"]}
    return {
        "findings": {"findings": drill["findings"]},
        "comparison": {"comparison": drill["comparison"]},
        "verdict": _some(drill, "verdict", "reasons", "retest_due"),
        "sign_offs": _some(drill, "sign_offs", "unread"),
        "retention": _some(drill, "retention", "kept_until", "folder"),
        "versions": {
            **_some(drill, "versions", "code_digest", "fingerprint"),
            "plan_digests": plans,
            "topology_digest": evidence.get("topology_digest"),
        },
        "chain": {
            "time_stamp": {"at": evidence.get("closed_at"), "clock": evidence.get("clock"), "authority": None},
            "signature": drill["signature"],
            "digest": evidence["digest"],
            "previous_digest": evidence.get("previous_digest"),
            "previous_drill": drill["previous"],
            "pass_digests": {one["name"]: one.get("digest") for one in drill["passes"]},
        },
    }


def _some(section: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: section.get(name) for name in names}


def _is_stated(value: Any) -> bool:
    """Return whether a value holds any fact: a number, a yes or no, a text; null, empty and names alone are none."""
    if isinstance(value, Mapping):
        return any(_is_stated(item) for name, item in value.items() if name not in _NEVER_FACTS)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(map(_is_stated, value))
    return value is not None and value != ""
