"""Values of a flow: what is unknown has none, and no document of a wrong form is an error."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.metrics.flow_values import values_of_document, values_of_settings
from kafka_dr.domain.metrics.series import SERIES, MetricValue
from kafka_dr.domain.readiness.report import Checked, Outlook, document_of

from tests.support.metrics.site import FLOW, checked_at

NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
DOCUMENT = json.loads(json.dumps(document_of(checked_at(NOW), None)))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def values(document: Any, now: datetime = NOW, **options: Any) -> dict[str, float]:
    """Name, and labels but source and target, -> value."""
    samples = values_of_document(FLOW, document, now, **options)
    assert len(samples) == len({(s.name, s.labels) for s in samples}), "a value is there twice"
    assert all(len(s.labels) == len(SERIES[s.name].labels) and s.labels[:2] == FLOW for s in samples)
    return {" ".join((s.name, *s.labels[2:])): s.value for s in samples}


def test_figures_are_those_of_the_document() -> None:
    """Sum and largest partition of the lag, the earliest certificate, and times from ages."""
    found = values(DOCUMENT)
    assert found["document_up"] == 1 and found["readiness_state NOT_VERIFIED"] == 1
    assert sum(found[f"readiness_state {s}"] for s in ("VERIFIED", "NEEDS_VERIFICATION", "UNKNOWN")) == 0
    assert (found["lag_records"], found["lag_bytes"], found["lag_seconds"]) == (10, 1600, pytest.approx(59.999))
    assert (found["lag_largest_partition_records"], found["lag_largest_partition_bytes"]) == (7, 900)
    assert (found["partitions"], found["lagging_partitions"]) == (5, 2)
    assert (found["forecast_certain_records"], found["forecast_possible_records"]) == (7, 10)
    assert (found["forecast_reread_records"], found["forecast_downtime_seconds"]) == (5, 42.5)
    assert found["heartbeat_timestamp_seconds"] == NOW.timestamp() - 1
    assert found["checkpoint_timestamp_seconds"] == NOW.timestamp() - 2
    assert found["certificate_end_timestamp_seconds"] == NOW.timestamp() + 80_000
    assert (found["findings failed"], found["findings warning"]) == (1, 0)
    assert (found["last_drill_verdict passed"], found["last_drill_verdict failed"]) == (1, 0)
    assert found["next_drill_due_timestamp_seconds"] == (NOW + timedelta(days=83)).timestamp()
    assert (found["last_run_downtime_seconds"], found["flow_at_rest"]) == (12.5, 0)


def test_an_unknown_figure_has_no_value() -> None:
    """Never 0; of a check that could look at nothing only what it knows is there."""
    found = values(document_of(Checked(*FLOW, NOW, [], Outlook(), at_rest=True), None))
    assert not {name for name in found if name.startswith(("lag", "forecast", "heartbeat", "certificate", "last"))}
    assert found["flow_at_rest"] == 1


def test_a_stale_or_missing_document_is_unknown() -> None:
    """From the moment that the document itself states."""
    assert values(DOCUMENT, NOW + timedelta(seconds=899))["readiness_state NOT_VERIFIED"] == 1
    late = values(DOCUMENT, NOW + timedelta(seconds=901))
    assert (late["readiness_state UNKNOWN"], late["readiness_state NOT_VERIFIED"]) == (1, 0)
    assert late["readiness_checked_timestamp_seconds"] == NOW.timestamp() and late["last_run_downtime_seconds"] == 12.5
    assert not {name for name in late if name.startswith(("lag", "forecast", "findings", "partitions", "flow_at"))}
    gone = values(None)
    assert (gone["document_up"], gone["readiness_state UNKNOWN"]) == (0, 1) and len(gone) == 5


def test_the_journal_knows_samples_better_than_the_document() -> None:
    """A recorder that signs notes each sample; the document's time of it is up to five minutes older."""
    assert "recorder_last_sample_timestamp_seconds" in values(DOCUMENT)
    assert "recorder_last_sample_timestamp_seconds" not in values(DOCUMENT, recorder_signs=True)


@pytest.mark.parametrize(
    "changed",
    [{"ages": {"sample": 10**400}}, {"checked_at": "0001-01-01T00:00:00+23:00"}, {"last_drill": {"verdict": []}}],
)
def test_a_figure_out_of_range_is_left_out(changed: dict[str, Any]) -> None:
    """As one that is unknown."""
    assert values({**DOCUMENT, **changed})["document_up"] == int("checked_at" not in changed)


@given(st.dictionaries(st.sampled_from(sorted(DOCUMENT)), JSON, max_size=4))
def test_no_document_is_an_error(changed: dict[str, Any]) -> None:
    """Whatever stands in its fields; it is then either down or has a state."""
    found = values({**DOCUMENT, **changed})
    assert found["document_up"] in (0, 1)
    assert sum(value for name, value in found.items() if name.startswith("readiness_state")) <= 1


def test_a_limit_that_is_not_stated_has_no_value() -> None:
    """But one of 0 has."""
    settings = {"lag_limit_records": 0, "lag_limit_bytes": None}
    assert values_of_settings(FLOW, settings) == [MetricValue("lag_limit_records", 0, FLOW)]
