"""The DAG readiness_check: a document and, on a change, an asset event for each flow; nothing else is written."""

from __future__ import annotations

import json
import stat
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kafka_dr.actions.readiness import flow_check
from kafka_dr.actions.readiness.fingerprint import read_fingerprint
from kafka_dr.actions.readiness.flow_check import check_flow
from kafka_dr.actions.readiness.observe import observe_pair
from kafka_dr.config.settings import check_topology
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, ConnectUnavailable, KafkaUnavailable
from kafka_dr.hooks.brokers.group_requests import Position
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.procedure.entries import DrillJudged, ProcedureClosed, ProcedureOpened
from kafka_dr.procedure.find import flows_to_check
from kafka_dr.procedures import COMMAND_RUN
from kafka_dr.steps.always_on.check_flows import CHANGES, CheckFlows
from kafka_dr.vocabulary import Step

from tests.plugins.kafka_dr.steps.planned.test_offset_option_in_plan import record_option
from tests.support.bench import GRANT, ORDERS, Bench
from tests.support.metrics.site import samples_in

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
READY = {
    "source.cluster.alias": "primary",
    "target.cluster.alias": "standby",
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "topics": "orders",
    "sync.topic.acls.enabled": "false",
    **dict.fromkeys(("key.converter", "value.converter", "header.converter"), BYTES),
}

FIGURES = {"certain", "possible", "rereads", "seconds"}


class Events:
    """What the task told by its outlet."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    def add(self, asset: Any, extra: dict[str, Any]) -> None:
        """Keep an event."""
        self.told.append((asset.uri, extra))


class Site:
    """A bench whose flow from primary to standby is ready, and the task that checks it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        bench.dag_id, bench.params = "readiness_check", {"source": "primary", "target": "standby"}
        bench.workers["standby"].settings = dict(READY)
        swapped = {"source.cluster.alias": "standby", "target.cluster.alias": "primary"}
        bench.workers["primary"].settings = READY | swapped
        for cluster in bench.clusters.values():
            cluster.acls |= {GRANT}
        bench.journal.show_life(Step.WATCH_OLD_SOURCE)
        self.events: dict[Any, Events] = defaultdict(Events)

    def check(self) -> dict[str, Any]:
        """Run the task once; return the document of the flow."""
        CheckFlows(task_id="check_flows").execute({**self.bench.context(), "outlet_events": self.events})
        return self.document()

    def document(self, name: str = "primary-to-standby") -> dict[str, Any]:
        """The document of a flow."""
        return dict(json.loads((self.folder / f"{name}.json").read_text()))

    @property
    def folder(self) -> Path:
        """Where documents are."""
        return self.bench.folder / "evidence" / "readiness"

    def ids(self) -> set[str]:
        """Check, and return the ids of what was found."""
        return {finding["id"] for finding in self.check()["findings"]}

    def drilled(self, **changes: Any) -> None:
        """A drill passed a moment ago under what is in place now."""
        (run,) = flows_to_check("primary", "standby")
        fact = {
            "source": "primary",
            "target": "standby",
            "drill_kind": "canary",
            "verdict": "passed",
            "fingerprint": read_fingerprint(run, observe_pair(run, {}, apart=0)).as_dict(),
            "procedure_id": "failover_drill-1",
            "ended_at": run.now(),
        }
        drill = DrillJudged(**{**fact, **changes})
        self.bench.journal.append("failover_drill-1", Step.CLOSE_PROCEDURE, drill.kind, 0, drill.payload())


@pytest.fixture
def site(make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> Site:
    """A flow that is ready; samples of log ends are taken without a pause."""
    monkeypatch.setattr("kafka_dr.actions.readiness.observe.time.sleep", lambda _seconds: None)
    return Site(make_bench(drain={"connection": "drain"}))


def test_a_flow_that_passes_all_and_was_drilled_is_verified(site: Site) -> None:
    """Until then it needs verification, which names the drill; figures that nothing states are null with a reason."""
    document = site.check()
    assert {finding["id"] for finding in document["findings"]} == {"drill_missing", "recorder_missing"}, document[
        "reasons"
    ]
    assert document["state"] == "NEEDS_VERIFICATION" and "drill_missing" in document["reasons"][0]
    site.drilled()
    document = site.check()
    assert document["state"] == "VERIFIED", document["reasons"]
    assert document["last_drill"]["verdict"] == "passed" and document["next_drill_due"]
    assert document["if_now"]["certain"] == document["if_now"]["possible"] == 0
    assert document["if_now"]["seconds"] is None and document["if_now"]["unknown"]["seconds"]
    assert [mended["id"] for mended in document["mended"]] == ["drill_missing"]


def test_what_was_changed_since_the_drill_is_named(site: Site) -> None:
    """A setting of a connector, with before and after; other brokers; and what cannot be read any more."""
    site.drilled()
    site.bench.workers["standby"].settings["tasks.max"] = "4"
    document = site.check()
    assert document["state"] == "NEEDS_VERIFICATION"
    assert "p.source.tasks.max: at the last drill absent, now 4" in " ".join(document["reasons"])
    del site.bench.workers["standby"].settings["tasks.max"]
    site.bench.clusters["standby"].known_settings.add("share.coordinator.threads")
    assert [f["about"] for f in site.check()["findings"] if f["id"] == "changed_since_drill"] == ["standby.kafka"]


def test_figures_of_a_check_that_stood_still_are_stale(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine slept for six minutes after the logs were compared: what was read before is not the present."""
    site.drilled()
    measure, now = flow_check.measure_lag, Journal.now

    def measure_and_sleep(*given: Any) -> Any:
        monkeypatch.setattr(Journal, "now", lambda journal: now(journal) + timedelta(seconds=360))
        return measure(*given)

    monkeypatch.setattr(flow_check, "measure_lag", measure_and_sleep)
    document = site.check()
    stale = [finding["about"] for finding in document["findings"] if finding["id"] == "figure_stale"]
    assert stale == ["lag", "record_age"] and document["state"] != "VERIFIED", document["reasons"]


def test_nothing_but_the_document_is_written(site: Site) -> None:
    """No entry of the journal, no lease, no ACL entry, no topic, no request that changes a connector."""
    site.drilled()
    journal, clusters = site.bench.journal, site.bench.clusters.values()
    before = (journal.links(), [(set(c.acls), dict(c.partitions), dict(c.committed)) for c in clusters])
    files = {path for path in site.bench.folder.rglob("*") if "evidence" not in path.parts}
    for _ in range(2):
        site.check()
    assert before == (journal.links(), [(c.acls, c.partitions, c.committed) for c in clusters])
    assert journal.lease("primary+standby") is None
    assert all(worker.asked == [] for worker in site.bench.workers.values())
    assert {path for path in site.bench.folder.rglob("*") if "evidence" not in path.parts} == files
    assert sorted(path.name for path in site.folder.iterdir()) == ["primary-to-standby.json"]
    assert stat.S_IMODE(site.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((site.folder / "primary-to-standby.json").stat().st_mode) == 0o600


def test_the_asset_gets_an_event_when_the_state_changes(site: Site) -> None:
    """Not at each check."""
    for _ in range(2):
        site.check()
    site.drilled()
    for _ in range(2):
        site.check()
    told = site.events[CHANGES].told
    assert {uri for uri, _ in told} == {"switchback://readiness/primary-to-standby"}
    assert [extra["state"] for _, extra in told] == ["NEEDS_VERIFICATION", "VERIFIED"]


def test_each_fault_is_found_at_the_next_check_and_mended_when_it_is_gone(site: Site) -> None:
    """A connector that does not run, a silent watcher, a missing copy, records without copies."""
    bench = site.bench
    source, target, worker = bench.clusters["primary"], bench.clusters["standby"], bench.workers["standby"]
    healthy = site.ids()

    worker.states["p.source"] = "PAUSED"
    assert site.ids() == healthy | {"connectors_run"}
    worker.states["p.source"] = "RUNNING"
    bench.no_watcher()
    assert site.ids() == healthy | {"watcher_silent"}
    assert [mended["id"] for mended in site.document()["mended"]] == ["connectors_run"]
    bench.journal.show_life(Step.WATCH_OLD_SOURCE)
    copies = target.partitions.pop("orders")
    assert "topics_match" in site.ids() and site.document()["state"] == "NOT_VERIFIED"
    target.partitions["orders"] = copies
    source.log_ends[ORDERS] = 14
    source.records[ORDERS] = {offset: f"n{offset}" for offset in range(10, 14)}
    document = site.check()
    assert document["lag"]["records"] == 4 and document["if_now"]["possible"] == 4
    assert "record_age" in {finding["id"] for finding in document["findings"]}
    source.log_ends[ORDERS] = 10
    assert site.ids() == healthy


@pytest.mark.parametrize("alias", ["primary", "standby"])
def test_a_cluster_that_does_not_answer_is_unknown_and_its_figures_are_null(site: Site, alias: str) -> None:
    """Never verified and never 0, though a drill passed; the next check without the fault is verified again."""
    site.drilled()
    site.bench.clusters[alias].away = True
    document = site.check()
    assert document["state"] == "UNKNOWN", document["reasons"]
    assert document["lag"] is None and document["if_now"]["possible"] is None and document["if_now"]["certain"] is None
    assert {"certain", "possible"} <= document["if_now"]["unknown"].keys()
    site.bench.clusters[alias].away = False
    assert site.check()["state"] == "VERIFIED"


def test_a_worker_that_does_not_answer_is_unknown(site: Site) -> None:
    """Its connectors' states cannot be read."""
    site.drilled()
    site.bench.workers["standby"].away = True
    assert site.check()["state"] == "UNKNOWN"


def test_a_flow_whose_clusters_a_procedure_holds_is_left_alone(site: Site) -> None:
    """The document names the procedure, and nothing is read that the procedure needs."""
    site.bench.dag_id, site.bench.params = "planned_failover", {"source": "primary", "target": "standby", "reason": "r"}
    site.bench.opened()
    site.bench.dag_id, site.bench.params = "readiness_check", {}
    for worker in site.bench.workers.values():
        worker.away = True
    document = site.check()
    assert [finding["id"] for finding in document["findings"] if finding["severity"] == "failed"] == ["pair_held"]
    assert "planned_failover-r1" in document["reasons"][0] and document["state"] == "NOT_VERIFIED"
    assert document["mended"] == [] and set(document["if_now"]["unknown"]) == FIGURES


def test_without_params_every_flow_is_checked(site: Site) -> None:
    """The one that is stopped for the opposite flow says so, and is at rest."""
    site.bench.params = {"source": None, "target": None}
    site.check()
    reverse = site.document("standby-to-primary")
    assert set(reverse["if_now"]["unknown"]) == FIGURES and reverse["if_now"]["possible"] is None
    assert reverse["at_rest"] and [f["id"] for f in reverse["findings"]] == ["flow_at_rest"]
    assert not site.document()["at_rest"]


def test_params_that_name_no_flow_are_refused(site: Site) -> None:
    """An unknown cluster, and one param alone; no retry, and the page is named."""
    for params in ({"source": "primary", "target": "moon"}, {"source": "primary", "target": None}):
        site.bench.params = params
        with pytest.raises(AirflowFailException, match=r"runbooks/readiness_check\.md#check_flows"):
            site.check()
    assert not site.folder.exists()


def test_one_flow_that_cannot_be_checked_keeps_no_other_from_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task fails, and the document of the other flow is written."""

    def failing(run: Any) -> dict[str, Any]:
        if run.request.source == "standby":
            raise ConnectUnavailable("the journal is away", "no answer", "look")
        return check_flow(run)

    monkeypatch.setattr("kafka_dr.steps.always_on.check_flows.check_flow", failing)
    site.bench.params = {}
    with pytest.raises(AirflowException, match="the journal is away"):
        site.check()
    assert site.document()["state"] and not (site.folder / "standby-to-primary.json").exists()


def test_the_offset_option_is_compared_with_what_runs(site: Site) -> None:
    """What contradicts the record is a warning, which leaves the state; it is gone once the connector agrees."""
    site.drilled()
    assert site.check()["offset_option"]["recorded"] is False
    record_option(site.bench)
    document = site.check()
    (finding,) = [one for one in document["findings"] if one["id"] == "offset_option_differs"]
    assert finding["severity"] == "warning" and "sync.group.offsets.enabled" in finding["text"]
    assert document["state"] == "VERIFIED" and document["offset_option"]["person"] == "J. Doe"
    site.bench.workers["standby"].settings["sync.group.offsets.enabled"] = "true"
    assert "offset_option_differs" not in site.ids()


def test_a_damaged_document_is_as_none(site: Site) -> None:
    """It is written anew."""
    site.check()
    for damaged in ("{", "[]", '{"form": 0, "findings": 7}'):
        (site.folder / "primary-to-standby.json").write_text(damaged)
        assert site.check()["mended"] == []


def test_what_the_first_steps_of_a_procedure_refuse_is_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence that others may read, and a connection of Spark that shows logins."""

    def shown(connection_id: str) -> None:
        raise BadInput(f"Connection {connection_id} would show secrets", "yarn", "name another master")

    healthy = site.ids()
    (site.bench.folder / "evidence").chmod(0o755)
    assert site.ids() == healthy | {"open_files"} and site.document()["state"] == "NOT_VERIFIED"
    (site.bench.folder / "evidence").chmod(0o700)
    monkeypatch.setattr(site.bench.connections, "check_spark", shown)
    assert site.ids() == healthy | {"spark"}


def test_signs_of_life_are_looked_at(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats that grow old or cannot be read, and a certificate that ends."""
    topology = json.loads(site.bench.topology.read_text())
    topology["flows"][0]["connectors"]["heartbeat"] = "p.heartbeat"
    site.bench.topology.write_text(json.dumps(topology))
    assert {f["about"] for f in site.check()["findings"] if f["id"] == "figure_unknown"} == {"heartbeat"}
    assert site.document()["state"] == "UNKNOWN" and site.document()["ages"]["heartbeat"] is None
    now = site.bench.journal.now().timestamp()
    monkeypatch.setattr("kafka_dr.actions.readiness.flow_check.heartbeat_at", lambda _run: now - 100)
    monkeypatch.setattr("kafka_dr.actions.readiness.flow_check.certificate_ends", lambda _run: {"primary CA": now - 1})
    found = {finding["id"] for finding in site.check()["findings"]}
    assert {"replication_latency", "certificate_ends"} <= found and 100 <= site.document()["ages"]["heartbeat"] < 160


def completed_by_command(journal: Journal, procedure_id: str, machine: str, **changes: Any) -> None:
    """A run of the command `run` that was opened on a machine, and closed."""
    facts = {"run_id": f"{COMMAND_RUN}2026", "source": "primary", "target": "standby", "outcome": "completed"} | changes
    opened = ProcedureOpened(
        dag_id="reconcile_clusters", run_id=facts["run_id"], source=facts["source"], target=facts["target"],
        reason="proof", triggered_at="2026-01-01T00:00:00+00:00", request={}, opened_on=machine,
    )  # fmt: skip
    closed = ProcedureClosed(
        outcome=facts["outcome"], failing_step=None, reason_for_outcome="", digest="0" * 64, signature=None
    )
    journal.append(procedure_id, Step.OPEN_PROCEDURE, opened.kind, 0, opened.payload())
    journal.append(procedure_id, Step.CLOSE_PROCEDURE, closed.kind, 0, closed.payload())


def test_a_warm_machine_is_awaited_where_the_topology_names_one(site: Site) -> None:
    """Only a completed run of the command, of this flow, on this machine counts."""
    healthy = site.ids()
    topology = json.loads(site.bench.topology.read_text())
    topology["flows"][0]["readiness"] = {"warm_machine": {"machine": "standby-1"}}
    site.bench.topology.write_text(json.dumps(topology))
    assert site.ids() == healthy | {"warm_machine_unproven"}
    completed_by_command(site.bench.journal, "other-machine", "primary-1")
    completed_by_command(site.bench.journal, "in-airflow", "standby-1", run_id="manual__2026")
    completed_by_command(site.bench.journal, "other-flow", "standby-1", source="standby", target="primary")
    completed_by_command(site.bench.journal, "failed", "standby-1", outcome="failed")
    assert site.ids() == healthy | {"warm_machine_unproven"}
    completed_by_command(site.bench.journal, "proof", "standby-1")
    assert site.ids() == healthy


def test_checkpoints_that_stop_although_groups_move_are_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two checks see the movement, the third one the silence; a checkpoint ends it."""
    source = site.bench.clusters["primary"]
    clock = iter(range(0, 100_000, 200))
    began, newest = site.bench.journal.now(), [0.0]
    monkeypatch.setattr(Journal, "now", lambda _self: now[0])
    monkeypatch.setattr("kafka_dr.actions.readiness.flow_check.checkpoint_at", lambda _run: newest[0])
    monkeypatch.setattr("kafka_dr.actions.readiness.flow_check.watcher_at", lambda _run: now[0].timestamp())
    now, found = [began], []
    newest[0] = began.timestamp() - 500
    for at in (next(clock) for _ in range(4)):
        now[0] = began + timedelta(seconds=at)
        source.committed["app"] = {ORDERS: Position(10 + at)}
        for cluster in site.bench.clusters.values():
            cluster.log_ends[ORDERS] = 10 + at
        site.bench.workers["standby"].replicated = {ORDERS: 9 + at}
        found.append("checkpoints_quiet" in site.ids())
    assert found == [False, False, True, True]
    newest[0] = now[0].timestamp()
    assert "checkpoints_quiet" not in site.ids()


def test_a_new_topic_is_given_the_time_in_which_it_is_looked_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning until MirrorMaker 2 must have found it; a topic that was copied before fails at once."""
    site.bench.workers["standby"].settings |= {"topics": ".*", "refresh.topics.interval.seconds": "100"}
    site.drilled()
    site.bench.clusters["primary"].partitions["born"] = {0: 1}
    site.bench.clusters["primary"].log_ends[TopicPartition("born", 0)] = 0
    document = site.check()
    assert document["state"] == "VERIFIED" and "topics_new" in {f["id"] for f in document["findings"]}
    later = site.bench.journal.now() + timedelta(seconds=170)
    monkeypatch.setattr(Journal, "now", lambda _self: later)
    site.bench.journal.show_life(Step.WATCH_OLD_SOURCE)
    assert "topics_match" in site.ids() and site.document()["state"] == "NOT_VERIFIED"
    site.bench.workers["standby"].replicated[TopicPartition("born", 0)] = 3
    (site.folder / "primary-to-standby.json").unlink()
    assert "topics_match" in site.ids()


def test_a_topic_that_is_deleted_between_two_readings_is_no_finding(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is made again at once."""
    site.drilled()
    real, failures = flow_check.measure_lag, [KafkaUnavailable("listing offsets failed", "no such topic", "look")]

    def failing_once(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return real(*args)

    monkeypatch.setattr(flow_check, "measure_lag", failing_once)
    assert site.check()["state"] == "VERIFIED" and not failures


@pytest.mark.parametrize(("seconds", "checks"), [(60.0, 4), (0.0, 1)])
def test_what_cannot_be_read_is_read_again_within_bounds(
    site: Site, monkeypatch: pytest.MonkeyPatch, seconds: float, checks: int
) -> None:
    """Four checks at most, and none after a minute; then it is a finding."""
    site.drilled()
    monkeypatch.setattr(flow_check, "_AGAIN_SECONDS", seconds)
    tries: list[str] = []

    def failing(*_args: Any) -> Any:
        tries.append("measured")
        raise KafkaUnavailable("listing offsets failed", "UNKNOWN_LEADER_EPOCH", "look")

    monkeypatch.setattr(flow_check, "measure_lag", failing)
    assert "cannot_read" in site.ids() and len(tries) == checks


def test_a_topic_that_is_deleted_between_two_listings_fails_no_check(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scope is read first, and the source's topics once more with their settings."""
    source, target = (site.bench.clusters[alias] for alias in ("primary", "standby"))
    site.bench.workers["standby"].settings["topics"] = ".*"
    for cluster in (source, target):
        cluster.partitions["gone"] = {0: 1}
    listed = source.topics

    def listed_once(*names: Any, **how: Any) -> dict[str, Any]:
        answer = listed(*names, **how)
        source.partitions.pop("gone", None)
        return answer

    monkeypatch.setattr(source, "topics", listed_once)
    assert "cannot_read" not in site.ids() and "gone" not in source.partitions


def test_topics_that_are_deleted_during_a_check_are_left_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics go while others are read: once in each of three readings."""
    source, target = (site.bench.clusters[alias] for alias in ("primary", "standby"))
    site.bench.workers["standby"].settings["topics"] = ".*"
    site.drilled()
    ends, starts = source.ends, source.starts
    leaving = iter(["gone-1", "gone-2", "gone-3"])

    def reads(read: Callable[..., Any]) -> Callable[..., Any]:
        def while_topics_leave(partitions: Any, **how: Any) -> Any:
            asked = list(partitions)
            if left := [tp for tp in asked if tp.topic not in source.partitions]:
                raise KafkaUnavailable("listing offsets failed", f"UNKNOWN_TOPIC_OR_PART ({left})", "look")
            answer = read(asked, **how)
            if gone := next(leaving, None):
                del source.partitions[gone]
            return answer

        return while_topics_leave

    for cluster in (source, target):
        cluster.partitions |= {f"gone-{number}": {0: 1} for number in (1, 2, 3)}
    monkeypatch.setattr(source, "ends", reads(ends))
    monkeypatch.setattr(source, "starts", reads(starts))
    document = site.check()
    assert not {"cannot_read", "figure_unknown"} & {finding["id"] for finding in document["findings"]}
    assert next(leaving, None) is None and document["lag"]["records"] == 0


def test_a_drill_of_another_flow_or_an_old_one_does_not_count(site: Site) -> None:
    """The newest of this flow counts."""
    site.drilled(source="standby", target="primary")
    assert "drill_missing" in site.ids()
    long_ago = Journal(site.bench.url).now() - timedelta(days=93)
    site.drilled(ended_at=long_ago.isoformat())
    assert "drill_due" in site.ids()
    site.drilled()
    assert "drill_due" not in site.ids()


@pytest.mark.parametrize(
    "wrong", [{"record_age_seconds": 0}, {"copied_share": 2}, {"lag_records": -1}, {"record_age": 5}]
)
def test_limits_that_make_no_sense_are_refused(site: Site, wrong: dict[str, Any]) -> None:
    """With their place in the file."""
    topology = json.loads(site.bench.topology.read_text())
    topology["flows"][0]["readiness"] = wrong
    with pytest.raises(BadInput, match=r"flows\[0\]\.readiness|flows.0.readiness"):
        check_topology(topology, "the topology")


def with_metrics_file(site: Site) -> Path:
    """State a metrics file in the topology."""
    topology = json.loads(site.bench.topology.read_text())
    site.bench.topology.write_text(json.dumps(topology | {"metrics": {"file": "switchback.prom"}}))
    return site.bench.folder / "switchback.prom"


def test_the_metrics_file_follows_each_check(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that could check nothing, because the journal is away: the metrics say so."""
    path = with_metrics_file(site)
    connection = {"conn_type": "generic", "extra": {"url": site.bench.url}}
    monkeypatch.setenv("AIRFLOW_CONN_JOURNAL", json.dumps(connection))
    site.check()
    values = samples_in(path.read_text())
    assert values["switchback_journal_up",] == 1
    assert values["switchback_readiness_state", "primary", "NEEDS_VERIFICATION", "standby"] == 1
    monkeypatch.setenv("AIRFLOW_CONN_JOURNAL", json.dumps(connection | {"extra": {"url": "sqlite:////no/where/j.db"}}))
    monkeypatch.setattr(site.bench, "url", "sqlite:////no/where/j.db")
    with pytest.raises(AirflowException, match="the journal is not"):
        CheckFlows(task_id="check_flows").execute({"params": {}, "outlet_events": site.events})
    assert samples_in(path.read_text())["switchback_journal_up",] == 0


def test_a_metrics_file_that_cannot_be_written_fails_no_check(site: Site) -> None:
    """The document is written, and the file has no half of its content."""
    path = with_metrics_file(site)
    path.mkdir()
    assert site.check()["state"] == "NEEDS_VERIFICATION"
    assert path.is_dir() and not list(path.iterdir()) and not list(site.bench.folder.glob(".switchback*"))
