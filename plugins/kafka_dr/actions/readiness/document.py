"""Where the readiness document of a flow is, and its content as it was written last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kafka_dr.domain.readiness.report import FORM
from kafka_dr.procedure.stored_files import StoredFiles


def document_path(evidence: str, source: str, target: str) -> Path:
    """Return where the readiness document of a flow is, below the folder of the evidence."""
    return Path(evidence) / "readiness" / f"{source}-to-{target}.json"


def read_document(path: Path, files: StoredFiles | None = None) -> dict[str, Any] | None:
    """Return a readiness document; None if there is none, or if it cannot be read or has another form.

    Args:
        path: below the folder of the evidence.
        files: fetches what another machine has written; while the store is away, this machine's copy counts, whose
            age the document states. None: the copy counts.
    """
    if files is not None:
        files.refresh(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and document.get("form") == FORM else None
