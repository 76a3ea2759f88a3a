"""Findings of readiness_check that time, silence and lag make, on real clusters: found at the next check, then gone.

Findings of wrong settings, rights and topics: `test_findings.py`. Lag against the truth: `test_lag.py`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka.admin import NewTopic

from tests.faults.readiness.checked_site import (
    APPENDED,
    BUSY,
    GROUP,
    IDLE,
    LIMITS,
    MENDED_SECONDS,
    PARTITIONS,
    CheckedSite,
    changed_items,
    checked_site,
    found,
    signal_session,
)
from tests.faults.readiness.one_check import SOURCE, TARGET
from tests.faults.support import always_on
from tests.faults.support.scene import until

#: Records written while MirrorMaker 2 is stopped: the truth that the lag is compared with.
WRITTEN, WRITTEN_TO_APPENDED = 300, 50
#: A little longer than a minute and three intervals of the lab's recorder, after which recorder and watcher count as
#: silent; and seconds after which a topic that nobody creates is missed.
SILENT_SECONDS, MISSED_SECONDS = 93.0, 61.0
NEW = "born-late"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedSite]:
    """A flow that is VERIFIED."""
    with checked_site(tmp_path_factory) as made:
        with made.under_load():
            made.make_verified()
        yield made


def test_nothing_is_found_under_load(site: CheckedSite) -> None:
    """Records, positions and checkpoints move, one topic stands still: VERIFIED at each check."""
    with site.under_load():
        for _ in range(5):
            document = site.check()
            assert document["state"] == "VERIFIED", document["reasons"]
            time.sleep(LIMITS["record_age_seconds"] / 4)


def test_the_flow_stands(site: CheckedSite) -> None:
    """The source connector is stopped, records wait, limits are exceeded, and a topic is deleted on the target."""
    until(lambda: site.check()["lag"]["records"] == 0, "the target to have all", MENDED_SECONDS)
    with site.stopped():
        site.write(BUSY, WRITTEN)
        site.write(APPENDED, WRITTEN_TO_APPENDED)
        (deleted,) = site.admins[TARGET].delete_topics([site.remote(IDLE)]).values()
        deleted.result()
        time.sleep(LIMITS["record_age_seconds"] + 1)
        with site.flow(readiness={**LIMITS, "lag_records": WRITTEN, "lag_bytes": 10 * WRITTEN}):
            document = site.finds(
                "connectors_run",
                "record_age",
                "lag_records",
                "lag_bytes",
                "records_copied",
                "replication_latency",
                "topics_match",
            )
        assert document["state"] == "NOT_VERIFIED"
        lag, if_now = document["lag"], document["if_now"]
        truth = WRITTEN + WRITTEN_TO_APPENDED
        assert (lag["records"], if_now["possible"], if_now["certain"]) == (truth, truth, truth)
        assert lag["seconds"] > LIMITS["record_age_seconds"] and lag["bytes"] > 10 * WRITTEN
        assert [row["topic"] for row in lag["worst"]] == [BUSY] * PARTITIONS + [APPENDED]
    document = site.mended("connectors_run", "record_age", "replication_latency", "topics_match", "records_copied")
    assert document["lag"]["records"] == 0
    # MirrorMaker 2 has created the topic again, and will never copy the records that were in it.
    assert found(document) == {"copies_missing"}, document["reasons"]
    site.write(IDLE, 1)
    site.mended("copies_missing")
    site.verified()


def test_silence_is_found(site: CheckedSite) -> None:
    """Recorder and watcher are frozen, checkpoints and offset syncs refused, a topic is not created: all at once."""
    with ExitStack() as faults, site.under_load():
        for name in (always_on.RECORDER, always_on.WATCHER):
            faults.enter_context(frozen(site, f"always-on-{name}"))
        # MirrorMaker 2's connectors stay RUNNING; each right that one of them lacks is another cause.
        faults.enter_context(site.entry(SOURCE, "mm2", "GROUP", GROUP, "DESCRIBE", "DENY"))
        syncs = f"mm2-offset-syncs.{SOURCE}.internal"
        faults.enter_context(site.entry(TARGET, "mm2", "TOPIC", syncs, "WRITE", "DENY"))
        faults.enter_context(site.entry(TARGET, "mm2", "TOPIC", site.remote(NEW), "CREATE", "DENY"))
        faults.enter_context(site.entry(TARGET, "mm2", "BROKER", "kafka-cluster", "CREATE", "DENY"))
        site.create(NewTopic(NEW, 1, 1))
        first = site.check()
        assert "topics_new" in found(first, "warning") and "topics_match" not in found(first), first["reasons"]
        # Between these two checks everything moves, and nothing is written of it any more.
        time.sleep(LIMITS["record_age_seconds"] / 4)
        site.check()
        time.sleep(max(SILENT_SECONDS, MISSED_SECONDS) + 2.0)
        document = site.check()
        expected = {"recorder_silent", "watcher_silent", "checkpoints_quiet", "offset_syncs_quiet", "topics_match"}
        assert expected <= found(document) <= {*expected, "changed_since_drill"}, document["reasons"]
    with site.under_load():
        site.mended(*expected, "changed_since_drill")
    site.verified()


def test_running_and_copying_nothing_is_found(site: CheckedSite) -> None:
    """MirrorMaker 2 may not read any more: its connector and tasks stay RUNNING, and the target does not grow."""
    with site.under_load(), site.entry(SOURCE, "mm2", "TOPIC", BUSY, "READ", "DENY"):
        until(lambda: "replication_moves" in found(site.check()), "the finding", 60.0)
        assert site.runs(), "the connector says that it does not run"
        time.sleep(LIMITS["record_age_seconds"])
        assert {"replication_moves", "record_age", "records_copied"} <= found(site.check())
    with site.under_load():
        site.mended("replication_moves", "record_age", "records_copied", "changed_since_drill", "replication_latency")
    site.verified()


def test_the_drill_counts_again_when_a_setting_is_as_it_was(site: CheckedSite) -> None:
    """The item is named with before and after."""
    with site.configured(**{"offset.lag.max": "77"}):
        document = site.mended("connectors_run", "figure_unknown", "replication_latency")
        assert document["state"] == "NEEDS_VERIFICATION" and found(document) == {"changed_since_drill"}
        assert len(changed_items(document)) == 1
        assert "offset.lag.max" in document["reasons"][0] and "now 77" in document["reasons"][0]
    site.verified()


def test_the_source_is_away(site: CheckedSite) -> None:
    """Nothing of it is taken for good; what it accepted meanwhile is unknown, and no figure is 0 for it."""
    pid = site.lab.status()["clusters"][SOURCE]["pids"]["broker"]
    os.kill(pid, signal.SIGSTOP)
    try:
        document = site.check()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert document["state"] in ("UNKNOWN", "NOT_VERIFIED"), document["reasons"]
    assert {"cannot_read", "figure_unknown", "fingerprint_unknown"} <= found(document), document["reasons"]
    assert document["lag"] is None and document["if_now"]["possible"] is None
    assert document["if_now"]["certain"] == 0 and document["if_now"]["at"]["certain"]
    site.verified()


@contextmanager
def frozen(site: CheckedSite, name: str) -> Iterator[None]:
    """Stop all processes of one of the lab's sessions inside this context."""
    signal_session(site.lab, name, signal.SIGSTOP)
    try:
        yield
    finally:
        signal_session(site.lab, name, signal.SIGCONT)
