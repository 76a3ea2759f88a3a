"""Fixtures of gates."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.standard.operators import hitl


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Airflow was asked to show."""
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **detail: shown.append(detail))
    return shown
