"""The evidence as one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_dr.domain.evidence.summary import story_of
from kafka_dr.pages import render


def evidence_page(evidence: Mapping[str, Any]) -> str:
    """HTML of the evidence; every value is escaped."""
    return render("evidence.html.j2", e=evidence, story=story_of(evidence))
