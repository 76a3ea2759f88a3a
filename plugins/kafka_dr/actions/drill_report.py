"""The report of a drill, as a page for people and as JSON; both follow from the drill's evidence alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.drill.page import summarise_drill
from kafka_dr.domain.drill.report import report_document
from kafka_dr.pages import render_page

PAGE, DOCUMENT = "drill_report.html", "drill_report.json"


def drill_report_files(evidence: Mapping[str, Any]) -> dict[str, str]:
    """Return the report's files: name -> text; {} if the evidence is of no drill."""
    if not evidence.get("drill"):
        return {}
    return {PAGE: drill_report_page(evidence), DOCUMENT: drill_report_text(evidence)}


def drill_report_page(evidence: Mapping[str, Any]) -> str:
    """Return the report as an HTML page, in which every value is escaped."""
    return render_page("drill.html.j2", e=evidence, page=summarise_drill(evidence))


def drill_report_text(evidence: Mapping[str, Any]) -> str:
    """Return the exact text of drill_report.json."""
    return json.dumps(report_document(evidence), indent=2, ensure_ascii=False) + "\n"
