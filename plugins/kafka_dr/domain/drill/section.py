"""The `drill` section of a drill's evidence: the contract's fields, and those that the report needs besides."""

from __future__ import annotations

from typing import Any

from kafka_dr.domain.drill.facts import DrillFacts


def drill_section(facts: DrillFacts) -> dict[str, Any]:
    """Return the `drill` section of a drill's evidence, as a JSON object. (Filled in the next commit.)"""
    raise NotImplementedError
