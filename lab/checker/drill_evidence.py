"""Check that a drill's evidence has its `drill` section whole, and does not claim more than the section shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.checker.findings import Finding, first_examples

_TEXT, _NULL = str, type(None)
SECTION: dict[str, tuple[type, ...]] = {
    "kind": (_TEXT,),
    "verdict": (_TEXT,),
    "scenario": (_TEXT, _NULL),
    "scope": (dict,),
    "not_tested": (list,),
    "steps_not_run": (list,),
    "objectives": (dict, _NULL),
    "achieved": (dict,),
    "findings": (list,),
    "previous": (dict, _NULL),
    "fingerprint": (dict, _NULL),
    "untouched": (dict, _NULL),
    "next_due": (_TEXT, _NULL),
}
FINDING = ("id", "severity", "owner", "due", "state")


def drill_findings(evidence: Mapping[str, Any]) -> list[Finding]:
    """Return a finding for each part of a drill's evidence that is absent, of a wrong type, or contradicts another."""
    section = evidence.get("drill")
    if not isinstance(section, dict):
        return [_finding(f"drill is {section!r:.80} in the evidence of a drill")]
    wrong = [name for name, kinds in SECTION.items() if not isinstance(section.get(name, ...), kinds)]
    if wrong:
        return [_finding(f"drill has no {name} of the right type: {section.get(name)!r:.80}") for name in wrong]
    return [_finding(text) for text in (*_bad_words(section), *_contradictions(evidence, section))]


def _bad_words(section: Mapping[str, Any]) -> list[str]:
    allowed = {"kind": ("observe", "canary", "full"), "verdict": ("passed", "conditional", "failed")}
    found = [f"drill.{name} is {section[name]!r:.80}" for name, words in allowed.items() if section[name] not in words]
    short = [str(row.get("id")) for row in section["findings"] if not set(FINDING) <= set(row)]
    return [*found, *([f"findings without {', '.join(FINDING)}: {first_examples(short)}"] if short else [])]


def _contradictions(evidence: Mapping[str, Any], section: Mapping[str, Any]) -> list[str]:
    """Return what the evidence claims against its own section."""
    open_ones = [str(row.get("id")) for row in section["findings"] if row.get("state") == "open"]
    untouched = (section["untouched"] or {}).get("held")
    passed, canary = section["verdict"] == "passed", section["kind"] == "canary"
    claims = {
        "the verdict is failed, and the outcome is not": section["verdict"] == "failed" != evidence["outcome"],
        "the outcome is completed, and the verdict is failed": evidence["outcome"] == "completed"
        and section["verdict"] == "failed",
        f"the drill passed with open findings: {first_examples(open_ones)}": passed and bool(open_ones),
        "the drill passed although production was not shown to be untouched": passed
        and canary
        and untouched is not True,
        "the loss of a drill stands at the top of the evidence": section["kind"] != "full" and bool(evidence["loss"]),
        "the drill claims that nothing was left untested": not section["not_tested"],
    }
    return [text for text, holds in claims.items() if holds]


def _finding(text: str) -> Finding:
    return Finding("evidence", text)
