"""Reading all metrics: each has a value on a whole site, and a broken part says so and leaves the others."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.actions.metrics import reading
from kafka_dr.actions.metrics.reading import MetricsReading, read_metrics
from kafka_dr.actions.metrics.textfile import write_metrics_file
from kafka_dr.config.settings import load_topology
from kafka_dr.domain.metrics.series import PREFIX, SERIES
from kafka_dr.errors import SystemUnavailable
from kafka_dr.hooks.exposition import exposition_of
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry, Step

from tests.support.metrics.site import FLOW, TOKEN, MetricsSite, samples_in


@pytest.fixture
def site(bench: Any) -> MetricsSite:
    """A site on which every series has a value."""
    made = MetricsSite(bench)
    made.fill()
    return made


def read(site: MetricsSite, open_journal: Callable[[], Journal] | None = None, **options: Any) -> MetricsReading:
    """Read the site now."""
    return read_metrics(load_topology(site.bench.topology), open_journal or site.journal, **options)


def values(found: MetricsReading) -> dict[tuple[str, ...], float]:
    """Return (series, labels) -> value."""
    assert len({(s.name, s.labels) for s in found.values}) == len(found.values), "a value is there twice"
    return {(s.name, *s.labels): s.value for s in found.values}


def test_every_series_has_a_value(site: MetricsSite) -> None:
    """So no rule can name one that is never emitted; and all is read."""
    found = read(site)
    assert {sample.name for sample in found.values} == set(SERIES) and found.problems == []
    said = values(found)
    assert said["up",] == said["journal_up",] == 1
    assert said["fence_on", *FLOW] == said["gate_open", *FLOW] == 1
    assert said["fence_seconds_left", *FLOW] == pytest.approx(500)
    assert said["procedure_outcome", *FLOW, "planned_failover", "failed"] == 1
    assert said["notices_undelivered", "not sent"] == 1 and said["notices_undelivered", "waiting"] == 0
    assert said["lag_limit_records", *FLOW] == 100 and said["rto_objective_seconds", *FLOW] == 300


def test_labels_have_few_values(site: MetricsSite) -> None:
    """No topic, group, route or run stands in the text, whatever is in documents and journal."""
    text = exposition_of(read(site).values)
    assert len(samples_in(text)) < 150
    assert not [name for name in ("orders", "p-2", "webhook", "n-1", "CA") if f'"{name}' in text]


def test_a_document_that_cannot_be_read_is_down(site: MetricsSite) -> None:
    """Cut off, of another form, missing, or no text: the other flow and the journal are there."""
    path = site.evidence / "readiness" / "primary-to-standby.json"
    for damage in (path.read_bytes()[:100], b'{"form": 99}', b"[]", b"\xff\xfe", None):
        path.unlink() if damage is None else path.write_bytes(damage)
        found = read(site)
        said = values(found)
        assert (said["up",], said["document_up", *FLOW], said["journal_up",]) == (0, 0, 1)
        assert said["readiness_state", *FLOW, "UNKNOWN"] == 1 and ("lag_records", *FLOW) not in said
        assert said["document_up", *reversed(FLOW)] == 1 and str(path) in found.problems[0]


def test_a_journal_that_does_not_answer_is_down(site: MetricsSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, broken or hanging: the documents are there, the reason is told, and nothing of the journal is 0."""
    monkeypatch.setattr(reading, "_JOURNAL_SECONDS", 0.2)

    def refuse() -> Journal:
        raise SystemUnavailable("the journal is not readable", "no answer", "start it")

    def break_down() -> Journal:
        raise RuntimeError("broken\nin two lines")

    def hang() -> Journal:
        time.sleep(1)
        return site.journal()

    for open_journal, said_in in ((refuse, "not readable"), (break_down, "broken"), (hang, "no answer within")):
        found = read(site, open_journal)
        said = values(found)
        assert (said["up",], said["journal_up",], said["document_up", *FLOW]) == (0, 0, 1)
        assert said_in in found.problems[0] and ("pair_held", *FLOW) not in said
        first = exposition_of(found.values, found.problems).splitlines()[0]
        assert first.startswith("# Not read: the journal: ") and said_in in first


def test_an_entry_that_cannot_be_read_leaves_the_rest(site: MetricsSite) -> None:
    """The part of the journal that it belongs to is missing, and named."""
    site.journal().append("p-2", Step.OPEN_PROCEDURE, Entry.OPENED, 1, dict.fromkeys(_opened_keys(site), 7))
    found = read(site)
    said = values(found)
    assert (said["up",], said["journal_up",]) == (0, 1) and ("fence_on", *FLOW) not in said
    assert ("watcher_last_sign_timestamp_seconds",) in said and "running procedures" in "".join(found.problems)


def _opened_keys(site: MetricsSite) -> list[str]:
    return list(site.journal().entries("p-2", Step.OPEN_PROCEDURE)[0].payload)


def test_reading_changes_nothing(site: MetricsSite) -> None:
    """Neither journal nor evidence."""
    files = [path for path in site.bench.folder.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    read(site)
    assert {path: path.read_bytes() for path in files} == before


def test_long_plans_are_not_read(site: MetricsSite) -> None:
    """The time does not grow with 10,000 groups whose plan and notes stand in the journal."""
    groups = [{"group": f"group-{n}", "partitions": 50, "policy": "earliest", "lag": n} for n in range(10_000)]
    for _ in range(20):
        plan = {"plan_digest": "d", "plan": {"groups": groups}, "active_groups": [], "end_sum": 0}
        site.journal().append("p-2", Step.FORECAST, Entry.OUTCOME, 1, plan)
    assert len(site.bench.url) and Path(site.bench.url.removeprefix("sqlite:///")).stat().st_size > 10_000_000
    read(site)
    began = time.monotonic()
    found = read(site)
    took = time.monotonic() - began
    print(f"{took:.3f} s")
    assert found.problems == [] and values(found)["fence_on", *FLOW] == 1
    began = time.monotonic()
    site.journal().entries("p-2")
    assert took < time.monotonic() - began, "as slow as a reading of everything"


def test_old_notices_do_not_count(site: MetricsSite) -> None:
    """Of those that were not sent a day ago nobody must be told any more."""
    site.now += timedelta(days=2)
    assert values(read(site))["notices_undelivered", "not sent"] == 0


def test_the_file_has_all_but_what_is_true_for_seconds(site: MetricsSite) -> None:
    """Readable by node_exporter, whatever the umask; replaced as a whole; nothing without a file in the topology."""
    path = site.bench.folder / "switchback.prom"
    write_metrics_file(load_topology(site.bench.topology), site.journal)
    assert not path.exists()
    site.state(metrics={"file": "switchback.prom"})
    write_metrics_file(load_topology(site.bench.topology), site.journal)
    names = {key[0].removeprefix(PREFIX) for key in samples_in(path.read_text())}
    assert names == {name for name, series in SERIES.items() if not series.live}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [p.name for p in site.bench.folder.glob("*.prom*")] == ["switchback.prom"]
    assert TOKEN not in path.read_text()


def test_the_file_shows_no_path_and_no_server(site: MetricsSite) -> None:
    """Others may read it: what is missing is a number there, and the reason is given to the caller alone."""
    site.state(metrics={"file": "switchback.prom"})
    (site.evidence / "readiness" / "primary-to-standby.json").unlink()
    problems = write_metrics_file(load_topology(site.bench.topology), site.journal)
    text = (site.bench.folder / "switchback.prom").read_text()
    assert str(site.evidence) in problems[0] and str(site.bench.folder) not in text and "Not read" not in text
    assert samples_in(text)["switchback_up",] == 0


def test_a_recorder_that_signs_is_seen_by_the_journal(site: MetricsSite) -> None:
    """Its sample is as old as the journal says, not as the document."""
    archive = json.loads(site.bench.topology.read_text())["recorder"]
    before = values(read(site))["recorder_last_sample_timestamp_seconds", *FLOW]
    site.state(recorder=archive | {"public_keys": ["A" * 43 + "="]})
    after = values(read(site))["recorder_last_sample_timestamp_seconds", *FLOW]
    assert (before, after) == (pytest.approx(site.now.timestamp() - 4), pytest.approx(site.now.timestamp()))
