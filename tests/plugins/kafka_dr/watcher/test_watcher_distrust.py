"""The watcher acts on no other cluster than the procedure, and under no journal that lost entries."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Step
from kafka_dr.watcher import move_guard

from tests.plugins.kafka_dr.watcher.test_guarded_moves import Moved
from tests.plugins.kafka_dr.watcher.test_watcher import GRANT, Watch
from tests.support.bench import FENCE


def test_the_watcher_fences_no_edited_address(bench: Any) -> None:
    """The connection was edited after the run began, to a cluster whose id nobody recorded."""
    bench.clusters["primary"].id = None
    watch = Watch(bench)
    bench.addresses["kafka_primary"] = "another:9092"
    watch.back()
    assert watch.source.acls == {GRANT}, watch.lines


def test_the_watcher_fences_no_source_by_a_journal_that_lost_the_return(bench: Any) -> None:
    """Clients are back on the source; a standby of the journal without the return's entries was promoted."""
    watch = Watch(bench)
    before = bench.journal.entries()[-1].sequence
    watch.source.away = False
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(bench.context())
    assert watch.source.acls == {GRANT}
    with closing(sqlite3.connect(bench.folder / "journal.db", isolation_level=None)) as base:
        base.execute("DELETE FROM entries WHERE sequence > ?", (before,))
    with pytest.raises(AirflowException, match="is missing"):

        class Acting(ProcedureStep):
            pass

        Acting(task_id=Step.CHECK_READINESS.value).execute(bench.context())
    watch.back()
    assert watch.source.acls == {GRANT}, watch.lines


def test_the_guard_sets_no_entries_on_another_cluster(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody edited the connection of the old source: another cluster, without the fence, answers there."""
    monkeypatch.setattr(move_guard, "_SAME_TIME_SECONDS", 0.0)
    moved = Moved(bench)
    moved.primary.id = "another"
    bench.addresses["kafka_primary"] = "another:9092"
    moved.primary.acls -= {FENCE}
    moved.look()
    assert FENCE not in moved.primary.acls, moved.lines
