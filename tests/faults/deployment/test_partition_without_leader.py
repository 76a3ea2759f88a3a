"""A partition without leader: an unplanned failover leaves it behind, a planned failover is refused before it acts."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from confluent_kafka.admin import AdminClient

from lab.checker import CheckResult
from lab.checker.findings import Finding
from lab.environment.production.nodes import start_nodes
from lab.environment.production.profile import BROKERS, member_name
from lab.environment.state import Lab
from lab.rehearsal.planned import wait_for
from lab.rehearsal.round_trip import Leaving
from lab.rehearsal.unplanned import Accident
from tests.faults.deployment.outages import kill, set_deadlines
from tests.faults.diagnosis.diagnosed_site import found
from tests.faults.support.trips import SteppedTrips
from tests.support.lab_clients import client, move_replicas
from tests.support.rehearsals import SEED, kept_if_it_fails

#: The broker that is stopped, and that holds the only replica of one partition.
AWAY = BROKERS[1]
#: What diagnose_replication finds while a partition of the target has no leader.
DIAGNOSED = {"partitions_without_leader"}
_SECONDS = 60.0


class PartlyLost(SteppedTrips):
    """A workload of which one partition, with positions of groups, has its only replicas on the broker AWAY."""

    def place_apart(self) -> tuple[str, int]:
        """Move the replicas of the partition with most positions to the broker AWAY, on both clusters; return it."""
        held = [(topic, partition) for _, topic, partition, _ in self.truth.placed()]
        self.apart = max(sorted(set(held)), key=held.count)
        assert wait_for(lambda: self._leader(self.target) is not None, _SECONDS), self.apart
        for alias in (self.source, self.target):
            move_replicas(self.lab, alias, *self.apart, [AWAY])
        return self.apart

    def lose_leader(self, alias: str) -> None:
        """Stop the broker AWAY of a cluster, and wait until the partition has no leader.

        After kill -9 Kafka would give a partition whose only replica was there no leader, even with the broker back.
        """
        kill(self.lab, f"broker-{member_name(alias, AWAY)}", signal.SIGTERM)
        assert wait_for(lambda: self._leader(alias) == -1, _SECONDS), self.apart

    def _leader(self, alias: str) -> int | None:
        """Return the id of the broker that leads the partition, -1 without leader; None if it does not exist yet."""
        topic, partition = self.apart
        found = AdminClient(client(self.lab, alias, "admin")).list_topics(timeout=10.0).topics.get(topic)
        return found.partitions[partition].leader if found and partition in found.partitions else None

    def kill_source(self) -> None:
        """Stop all clients, have samples show what is not mirrored, and lose one broker of the source."""
        self.stop()
        self.await_samples()
        self.lose_leader(self.source)
        self.died_at = int(time.time() * 1000)

    def settle(self) -> list[Finding]:
        """Start the clients again, on the target, if they were stopped; then wait for their work there."""
        if self._application is None:
            source, self.source = self.source, self.target
            self.start_clients()
            self.source = source
        return super().settle()

    def leave_transactions_open(self, count: int) -> None:
        """Leave none open: the source lives, and would abort them during the failover."""

    def bring_source_back(self) -> None:
        """Stop load and clients, and start the lost broker."""
        self.stop()
        self.bring_leader_back(self.source)

    def bring_leader_back(self, alias: str) -> None:
        """Start the broker AWAY of a cluster, and wait until it leads the partition."""
        start_nodes(self.lab, alias)
        assert wait_for(lambda: self._leader(alias) == AWAY, _SECONDS), self.apart


def _judged(what: str, verdict: CheckResult) -> None:
    print(f"{time.strftime('%T')} {what}: {dict(verdict.figures)}", flush=True)
    assert verdict.passed, "\n".join(verdict.lines(limit=8))


def test_one_partition_is_without_leader(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Of the source at an unplanned failover: named, and the rest moves. Of the target at a planned one: refused."""
    lab = Lab(fresh_lab("identity", airflow=False, profile="production"))
    made = PartlyLost(lab.root, tmp_path, SEED, 100, scale=0.05, groups=8)
    set_deadlines(lab)
    with kept_if_it_fails(lab.root, tmp_path):
        try:
            made.start_always_on()
            made.seed_topics()
            topic, partition = made.place_apart()
            leaving = Leaving(Accident(), stranded=5, params={"override_source_lost": "half of the site burns"})
            _judged("without a broker of the source", made.leave(leaving))
            _tells_the_partition(made, f"{topic}-{partition}")
            _judged("back", made.come_back())

            made.lose_leader(made.target)
            assert found(made.driver.whole(made.procedure("diagnose_replication"))) >= DIAGNOSED
            verdict = made.leave(Leaving())
            _, evidence = made.evidence()
            print(evidence["outcome"], evidence["reason_for_outcome"], flush=True)
            assert not verdict.passed and evidence["outcome"] == "refused"
            assert f"Partitions of {made.target} have no leader ({topic}-{partition})" in evidence["reason_for_outcome"]
            assert not evidence.get("fenced_at")
            made.bring_leader_back(made.target)
            _judged("with all brokers", made.leave(Leaving()))
        finally:
            made.close()


def _tells_the_partition(made: PartlyLost, name: str) -> None:
    """Assert that the plan names the partition and its groups, and that the others were listed to the record."""
    folder, evidence = made.evidence()
    (note,) = [note for note in evidence["plan"]["unproven"] if "no broker leads them" in note]
    print(note, flush=True)
    assert name in note and "groups " in note
    (file,) = folder.glob("loss-*.parquet")
    rows = pd.read_parquet(file).set_index(["topic", "partition"])
    unread = rows.loc[made.apart]
    assert pd.isna(unread["records"]) and not unread["exact"]
    others = rows.drop(index=made.apart)
    assert len(others) and others["records"].notna().all() and others["records"].sum() > 0
