"""The checker of a drill beside production finds each planted difference, and nothing where nothing was touched."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from lab.checker.readers import NothingRead
from lab.checker.untouched.connect_history import history_findings, read_rebalances
from lab.checker.untouched.denials import denial_findings, read_denials
from lab.checker.untouched.heartbeat_rates import Periods, rate_findings, rates_of
from lab.checker.untouched.record_ids import id_findings, id_of
from lab.checker.untouched.samples import SiteLook, count_grown, sample_findings
from lab.checker.untouched.site_state import state_findings, task_states
from lab.checker.untouched.steady_consumer import OffsetRun

STATE = {
    "topics of primary": {"orders": "id AAA, replicas [[1, 2, 3]]"},
    "settings of topics of primary": {"orders": "{}"},
    "settings of brokers of primary": {"1": "{}"},
    "ACL entries of primary": {"ALLOW producer WRITE *": "there"},
    "users of primary": {"producer": "SCRAM-SHA-512"},
    "groups of primary": {"desk": "there"},
    "connectors of standby": {"source": '{"topics": ".*"}'},
    "tasks of standby": {"source-0": "RUNNING on w1"},
    "quotas of primary": {"users": ""},
}


def changed(kind: str, **names: str | None) -> dict[str, dict[str, str]]:
    """The state with other names of one kind; None removes one."""
    found = {name: state for name, state in {**STATE[kind], **names}.items() if state is not None}
    return {**STATE, kind: found}


def test_an_untouched_site_has_no_finding() -> None:
    """Also after the first procedure has made the topic of the journal's anchors."""
    assert state_findings(STATE, STATE) == []
    assert state_findings(STATE, changed("topics of primary", __switchback_journal="id B")) == []


@pytest.mark.parametrize("kind", STATE)
def test_whatever_is_new_gone_or_different_is_named(kind: str) -> None:
    """Of each kind of thing; a topic that was deleted and made again has another id."""
    (name,) = STATE[kind]
    for after in (changed(kind, **{name: "other"}), changed(kind, **{name: None}), changed(kind, new="there")):
        (finding,) = state_findings(STATE, after)
        assert kind in finding.text and ("new" in finding.text or name in finding.text)


def test_the_anchors_topic_is_not_replaced_either() -> None:
    """If it was there before the drill, it is a topic like others."""
    before = changed("topics of primary", __switchback_journal="id B")
    assert state_findings(before, changed("topics of primary", __switchback_journal="id C"))


TASKS = {"standby: source": "RUNNING on w1", "standby: source-0": "RUNNING on w1"}
OFFSETS = {'standby: source {"partition": 0, "topic": "orders"}': 10}
POSITIONS = {"primary: desk orders-0": 5}


def samples(*later: dict) -> list[SiteLook]:
    """A first look, and later ones that differ from it."""
    first = SiteLook(0.0, TASKS, OFFSETS, POSITIONS)
    return [first, *(first._replace(at=float(number), **fields) for number, fields in enumerate(later, 1))]


def test_growing_offsets_have_no_finding() -> None:
    """And how many grew is counted, so that a flow that stood still is seen."""
    (name,), (place,) = OFFSETS, POSITIONS
    seen = samples({"offsets": {name: 11}, "positions": {place: 6}}, {"offsets": {name: 12, "new": 1}})
    seen[-1] = seen[-1]._replace(positions={place: 6})
    assert sample_findings(seen) == [] and count_grown(seen) == 2
    assert count_grown(samples({})) == 0


@pytest.mark.parametrize(
    "later",
    [
        {"offsets": {next(iter(OFFSETS)): 9}},
        {"offsets": {}},
        {"offsets": {**OFFSETS, 'standby: source {"topic": "switchback-drill.0123456789.orders.replica"}': 1}},
        {"positions": {next(iter(POSITIONS)): 4}},
        {"positions": {}},
        {"tasks": {**TASKS, "standby: source-0": "RUNNING on w2"}},
        {"tasks": {**TASKS, "standby: source-0": "FAILED on w1"}},
        {"tasks": {"standby: source": "RUNNING on w1"}},
        {"tasks": {**TASKS, "standby: source-1": "RUNNING on w1"}},
    ],
    ids=str,
)
def test_a_look_that_differs_is_found(later: dict) -> None:
    """Even if the next look is as the first one."""
    assert sample_findings(samples(later))
    assert sample_findings(samples(later, {}))


def test_an_offset_that_fell_to_where_it_had_been_is_found() -> None:
    """It is compared with the highest one, not with that of the look before."""
    (name,) = OFFSETS
    assert len(sample_findings(samples({"offsets": {name: 20}}, {"offsets": {name: 15}}, {"offsets": {name: 16}}))) == 2


def test_connectors_and_tasks_have_their_workers() -> None:
    """A task that moves to another worker is another state."""
    status = {"connector": {"state": "RUNNING", "worker_id": "a"}, "tasks": [{"id": 0, "state": "X", "worker_id": "b"}]}
    assert task_states("c", {"status": status}) == {"c": "RUNNING on a", "c-0": "X on b"}


LINE = (
    "2026-11-27T11:54:19,123 INFO  logger Principal = User:{who} is Denied operation = {operation} from host ="
    " 127.0.0.1 on resource = {resource} for request = Produce with resourceRefCount = 1 based on rule DefaultDeny\n"
)
DRILL_TOPIC = "Topic:LITERAL:switchback-drill.0123456789.orders.replica"
NODES = ("controller-primary", "broker-primary", "broker-primary-2", "controller-standby", "broker-standby")


def logs(folder: Path, lines: dict[str, str]) -> Path:
    """Logs of all nodes, with these lines more."""
    for node in NODES:
        (folder / f"{node}.log").write_text("2026-11-27T11:50:00,000 INFO  Server started\n" + lines.get(node, ""))
    return folder


def denied(who: str = "switchback-drill", operation: str = "WRITE", resource: str = DRILL_TOPIC) -> str:
    """A line as the authorizer writes it."""
    return LINE.format(who=who, operation=operation, resource=resource)


FENCED = {"broker-primary-2": denied(), "broker-standby": denied()}


def judged(folder: Path, **lines: str) -> list[str]:
    """Return the findings of logs in which the drill was fenced on both clusters, and these lines stand, too."""
    merged = {node: FENCED.get(node, "") + lines.get(node.replace("-", "_"), "") for node in NODES}
    denials, gaps = read_denials(logs(folder, merged), NODES)
    assert gaps == []
    return [one.text for one in denial_findings(denials, "User:switchback-drill", ("primary", "standby"))]


def test_denied_requests_of_the_drill_on_its_own_names_are_its_fence(tmp_path: Path) -> None:
    """They are read from the logs of every node."""
    assert judged(tmp_path) == []
    assert len(read_denials(tmp_path, NODES)[0]) == 2


@pytest.mark.parametrize(
    "line",
    [
        denied("producer", resource="Topic:LITERAL:payments.captured"),
        denied("orders-app", resource="Topic:LITERAL:orders.eu"),
        denied("mm2", "READ"),
        denied("mm2", "ALTER_CONFIGS", "Topic:LITERAL:payments.captured"),
        denied("CN=cert-producer"),
        denied(resource="Topic:LITERAL:payments.captured"),
        denied(operation="READ", resource="Group:LITERAL:desk"),
    ],
)
def test_a_denied_request_of_production_is_found(tmp_path: Path, line: str) -> None:
    """Of whichever principal, in a broker's or a controller's log; also the drill's client on a name of production."""
    for node in ("broker_primary", "controller_standby"):
        (text,) = judged(tmp_path, **{node: line})
        assert text.startswith("a request of production was denied")


@pytest.mark.parametrize("alias", ["primary", "standby"])
def test_a_log_without_the_drills_fence_proves_nothing(tmp_path: Path, alias: str) -> None:
    """The authorizer may not log at all."""
    lines = {node: text for node, text in FENCED.items() if not node.startswith(f"broker-{alias}")}
    denials, _ = read_denials(logs(tmp_path, lines), NODES)
    (finding,) = denial_findings(denials, "User:switchback-drill", ("primary", "standby"))
    assert f"no broker of {alias} has logged" in finding.text


def test_rolled_logs_are_read_too(tmp_path: Path) -> None:
    """An empty log, and one whose beginning may be gone, are named."""
    logs(tmp_path, {})
    (tmp_path / "broker-primary.log.1").write_text(denied("producer"))
    denials, gaps = read_denials(tmp_path, NODES)
    assert len(denials) == 1 and gaps == []
    (tmp_path / "broker-primary.log.2").write_text("")
    (tmp_path / "broker-standby.log").write_text("")
    assert len(read_denials(tmp_path, NODES)[1]) == 2


def ids(*numbers: int) -> np.ndarray:
    """Ids of records of producer 1."""
    return id_of(1, np.array(numbers, np.int64))


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ({"t": ids(1, 2, 3)}, {"t": ids(3, 1, 2)}, None),
        ({"t": ids(1, 2)}, {"t": ids(1, 2)}, "absent on the source"),
        ({"t": ids(1, 2, 3, 3)}, {"t": ids(1, 2, 3)}, "on the source more than once"),
        ({"t": ids(1, 2, 3)}, {"t": ids(1, 3)}, "absent on the target"),
        ({"t": ids(1, 2, 3)}, {"t": ids(1, 2, 3, 4)}, "never on the source"),
        ({"t": ids(1, 2, 3)}, {"t": ids(1, 2, 3, 2)}, "on the target more than once"),
        ({"t": ids(1, 2), "u": ids(3)}, {"t": ids(1), "u": ids(3, 2)}, "in another topic"),
    ],
)
def test_a_record_that_is_lost_repeated_or_misplaced_is_found(source: dict, target: dict, found: str | None) -> None:
    """Three records were acknowledged; one that was written without an answer may be there, once on both."""
    findings = [one.text for one in id_findings(ids(1, 2, 3), source, target)]
    assert findings == [] if found is None else (len(findings) == 1 and found in findings[0])
    assert id_of(2, 1) != id_of(1, 1)


def test_a_record_without_an_answer_may_be_on_both() -> None:
    """Its producer does not know whether it was written."""
    assert id_findings(ids(1), {"t": ids(1, 2)}, {"t": ids(1, 2)}) == []


def test_offsets_follow_each_other() -> None:
    """A gap, a repeat and a jump back are each noted once, and the run goes on from there."""
    run = OffsetRun()
    for offset in (0, 1, 3, 4, 4, 5):
        run.take("t", 0, offset)
    assert run.jumps == ["t-0: 3 came where 2 had to come", "t-0: 4 came where 5 had to come"]
    assert run.next_offsets == {("t", 0): 6}
    run.take("t", 1, 7)
    assert len(run.jumps) == 3


PERIODS = Periods((0.0, 10.0), (10.0, 30.0), (30.0, 40.0))


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([float(second) for second in range(40)], []),
        ([float(second) for second in range(40) if not 10 <= second < 20], ["during"]),
        ([float(second) for second in range(30)], ["after"]),
        ([float(second) for second in range(40)] + [float(second) for second in range(10, 30)], ["during"]),
        ([float(second) for second in range(10, 40)], ["nothing is compared"]),
    ],
)
def test_heartbeats_that_fall_out_or_double_are_found(times: list[float], found: list[str]) -> None:
    """A second heartbeat connector doubles them; a flow that stood still leaves them out."""
    texts = [one.text for one in rate_findings({"heartbeats": rates_of(times, PERIODS)})]
    assert len(texts) == len(found) and all(word in text for word, text in zip(found, texts, strict=True))


def test_a_new_generation_of_productions_workers_is_found(tmp_path: Path) -> None:
    """Those before the drill are not its work; logs that name none prove nothing."""
    line = "2026-11-27T11:5{}:00,000 INFO  DistributedHerder [Worker c] Joined group at generation {} with\n"
    (tmp_path / "connect-standby.log").write_text(line.format(1, 4))
    (tmp_path / "connect-standby-2.log").write_text("2026-11-27T11:50:00,000 INFO  Herder started\n")
    since, workers = (
        datetime.fromisoformat("2026-11-27T11:55:00").astimezone(),
        ("connect-standby", "connect-standby-2"),
    )
    assert read_rebalances(tmp_path, workers, since) == [] == history_findings([], [])
    (tmp_path / "connect-standby.log").write_text(line.format(1, 4) + line.format(7, 5))
    found = read_rebalances(tmp_path, workers, since)
    assert len(found) == 1 and "generation 5" in history_findings([], found)[0].text
    (tmp_path / "connect-standby.log").write_text("")
    with pytest.raises(NothingRead):
        read_rebalances(tmp_path, workers, since)


def test_a_change_that_workers_noted_is_found() -> None:
    """A connector that was made, changed or restarted leaves a record in the workers' topics."""
    (finding,) = history_findings(["__connect_standby_status: status-task-source-0 RUNNING"], [])
    assert "status-task-source-0" in finding.text
