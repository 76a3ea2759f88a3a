"""Lists of differences name a record's key by its SHA-256, unless keys are hashed in exports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from kafka_dr_spark.export.settings import shows_keys
from kafka_dr_spark.logs.bounds import LogBounds
from kafka_dr_spark.reconciliation.details import Detail
from kafka_dr_spark.reconciliation.differences import Altered, Differences
from kafka_dr_spark.reconciliation.task import listed_rows, with_details
from kafka_dr_spark.translation.case import SOURCE

from tests.spark.mock_clusters import bounds_row


@pytest.mark.parametrize(("keys", "shown"), [("keep", "key-digest"), ("hash", None)])
def test_a_short_key_is_not_found_by_trying_all(keys: str, shown: str | None, tmp_path: Path) -> None:
    """Without its digest the record is still named, by its offset and its time."""
    (tmp_path / "job.json").write_text(
        json.dumps({"isolation": "read_uncommitted", "source_readable": True, "export_keys": keys})
    )
    bounds = LogBounds(**bounds_row("orders", 0, 9, 9))
    none = np.empty(0, np.int64)
    missing = Differences(np.array([3], np.int64), none, none, Altered(none, none), proven_to=9, equal=8)
    listed = listed_rows(bounds, missing)
    details = {(SOURCE, "orders", 0, 3): Detail(7, "key-digest", "value-digest", "headers-digest")}
    (row,) = with_details(bounds, listed, details, shows_keys(tmp_path)).to_pylist()
    assert (row["source_offset"], row["source_timestamp"], row["key_sha256"]) == (3, 7, shown)
