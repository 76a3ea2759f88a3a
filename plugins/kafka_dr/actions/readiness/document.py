"""Where the readiness document of a flow is, and its content as it was written last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kafka_dr.domain.readiness.report import FORM


def document_path(evidence: str, source: str, target: str) -> Path:
    """Return where the readiness document of a flow is, below the folder of the evidence."""
    return Path(evidence) / "readiness" / f"{source}-to-{target}.json"


def read_document(path: Path) -> dict[str, Any] | None:
    """Return a readiness document; None if there is none, or if it cannot be read or has another form."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and document.get("form") == FORM else None
