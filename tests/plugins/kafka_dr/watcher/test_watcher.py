"""Watching old sources: fenced as soon as they answer, what they accepted listed, and never fenced once clients
may be there.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from kafka_dr.actions.fencing import acl_fence as fencing
from kafka_dr.actions.fencing.acl_fence import added_entries
from kafka_dr.actions.old_source.armed_fence import telling_entries
from kafka_dr.domain.fencing.armed_fence import armed_fences, unstopped_sources, watched_sources
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import KnownTransaction, Producer
from kafka_dr.errors import KafkaUnavailable
from kafka_dr.hooks.brokers.record_writer import WriteAccepted
from kafka_dr.procedure.progress import Progress
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.steps.unplanned.fence_source import FenceSource
from kafka_dr.vocabulary import PROBE_TOPIC, Entry, Step
from kafka_dr.watcher import duties
from kafka_dr.watcher import watcher as watching
from kafka_dr.watcher.authority import STEP
from kafka_dr.watcher.duties import disarm_fences
from kafka_dr.watcher.watcher import Watcher

from tests.support.bench import Connections
from tests.support.facts import entry

ORDERS = TopicPartition("orders", 0)
GRANT = AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow")
DENY = AclEntry("topic", "orders", "literal", "User:app", "*", "write", "deny")
DENIALS = [DENY, replace(DENY, name=PROBE_TOPIC)]
PAIR = "primary+standby"


class Watch:
    """An armed procedure and its watcher."""

    def __init__(self, bench: Any, known_end: int = 10) -> None:
        self.bench, self.source, self.lines = bench, bench.clusters["primary"], []
        self.procedure = bench.lost(known_end=known_end)
        bench.workers["standby"].states.update(dict.fromkeys(("p.source", "p.checkpoint"), "STOPPED"))
        FenceSource(task_id=Step.FENCE_SOURCE.value).execute(bench.context())
        self.watcher = self.another()

    def another(self) -> Watcher:
        """A watcher that knows nothing yet."""
        return Watcher(self.lines.append, lambda: self.bench.connections, patience=60.0)

    def back(self) -> None:
        """The source answers, and the watcher looks."""
        self.source.away = False
        self.watcher.look()

    def close(self) -> None:
        """The procedure completes and lets go of the pair."""
        epoch = self.bench.journal.lease(PAIR).epoch
        self.bench.journal.append(
            self.procedure.id, Step.CLOSE_PROCEDURE, Entry.CLOSED, epoch, {"outcome": "completed", "digest": "d"}
        )
        self.bench.journal.release_lease(PAIR, self.procedure.id, epoch, "completed")

    @property
    def outcomes(self) -> list[Any]:
        """What the watcher wrote as done."""
        return self.bench.journal.entries(step=STEP, kind=Entry.OUTCOME)

    @property
    def armed(self) -> int:
        """How many fences are armed."""
        return len(armed_fences(telling_entries(self.bench.journal)))

    @property
    def state(self) -> str:
        """How far the watch is."""
        return watched_sources(telling_entries(self.bench.journal))[self.procedure.id].state.value

    def accepted(self) -> list[dict[str, Any]]:
        """The list of what the source accepted."""
        return self.procedure.artifacts.load(self.outcomes[-1].payload["accepted"]).to_dict("records")


@pytest.fixture
def watch(bench: Any) -> Watch:
    """A run on two clusters with identity naming, whose source was armed."""
    return Watch(bench)


def test_nothing_armed_is_nothing_done(bench: Any) -> None:
    """A journal in which nobody armed anything is read, and no cluster is asked."""
    bench.opened()
    bench.clusters["primary"].brokers = None
    lines: list[str] = []
    Watcher(lines.append, lambda: bench.connections).look()
    assert lines == ["watching: 0 old sources are watched"]


def test_the_watcher_shows_that_it_lives(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every few seconds, also with nothing armed; a journal that cannot be read is no sign of life."""
    bench.no_watcher()
    before = bench.journal.last_sign(STEP)
    watcher = Watcher(str, lambda: bench.connections)
    watcher.look()
    first = bench.journal.last_sign(STEP)
    watcher.look()
    assert bench.journal.last_sign(STEP) == first > before
    monkeypatch.setattr(
        watching,
        "telling_entries",
        lambda journal: (_ for _ in ()).throw(KafkaUnavailable("the journal is not readable")),
    )
    watcher._sign_due = 0.0
    watcher.look()
    assert bench.journal.last_sign(STEP) == first


def test_a_source_that_is_away_is_looked_at_and_left(watch: Watch) -> None:
    """Nothing is written however often it is looked at, and it is said once."""
    before = len(watch.bench.journal.entries())
    for _ in range(3):
        watch.watcher.look()
    assert len(watch.bench.journal.entries()) == before and watch.armed == 1
    assert watch.lines == [f"{watch.procedure.id}: primary does not answer", "watching: 1 old sources are watched"]


def test_a_source_that_comes_back_is_fenced_and_told(watch: Watch) -> None:
    """The denial is there, proven by the probe; the intent came before it; window and offsets are in the journal."""
    watch.source.log_ends[ORDERS] = 17
    watch.back()
    (done,) = watch.outcomes
    told = done.payload
    assert watch.source.acls == {GRANT, *DENIALS} and added_entries(watch.procedure) == DENIALS
    found = (told["fenced"], told["brokers_refusing"], told["acl_entries_added"], told["source"])
    assert found == ("by acl", [1], 2, "primary")
    assert told["window_seconds"] >= 0
    assert datetime.fromisoformat(told["answers_since"]) <= datetime.fromisoformat(told["fenced_at"])
    assert watch.accepted() == [{"topic": "orders", "partition": 0, "from_offset": 10, "to_offset": 17}]
    assert (told["records_at_most"], told["partitions_written"], told["partitions_not_known_before"]) == (7, 1, 0)
    assert told["newest_records"][0].startswith("orders-0: newest record at offset 16")
    assert told["may_have_written"] == ["User:app"]
    assert (
        watch.procedure.artifacts.load(told["ends_at_fence"])["offset"].tolist()
        == [17]
        == watch.procedure.artifacts.load(told["ends_when_seen"])["offset"].tolist()
    )
    assert watch.armed == 0 and watch.state == "over"


def test_a_source_that_accepted_nothing_is_said_to_have_accepted_nothing(watch: Watch) -> None:
    """An empty list, by its still ends."""
    watch.back()
    assert watch.accepted() == [] and watch.outcomes[0].payload["records_at_most"] == 0
    assert watch.outcomes[0].payload["may_have_written"] == []


@pytest.fixture
def listing(watch: Watch) -> Watch:
    """The same, with two producers on its brokers, one of them transactional."""
    watch.source.transactions = [KnownTransaction("pay-1", 7, "Empty")]
    watch.source.producers = {ORDERS: [Producer(7, 0), Producer(8, None)]}
    return watch


def producers(watch: Watch) -> list[Any]:
    """Notes of the watcher that name producers."""
    return [e.payload for e in watch.bench.journal.entries(step=STEP, kind=Entry.NOTE) if "producers" in e.payload]


def test_producers_are_named_once_everything_stands(listing: Watch) -> None:
    """After the list and the fence, by what brokers remember of the partitions that accepted most; and only once."""
    listing.source.log_ends[ORDERS] = 17
    listing.bench.workers["primary"].away = True
    listing.back()
    assert listing.state == "fenced" and producers(listing) == []
    listing.bench.workers["primary"].away = False
    listing.watcher.look()
    listing.watcher.look()
    (told,) = producers(listing)
    assert told["producers"] == {
        "orders-0": [
            "producer 7, transactional id 'pay-1', newest record 1970-01-01T00:00:00.000+00:00",
            "producer 8, newest record no timestamp",
        ]
    }
    assert listing.state == "over"


def test_brokers_that_do_not_answer_are_said_and_change_nothing(listing: Watch) -> None:
    """The list stands, and the watch is over; where nothing was accepted nobody is asked."""
    listing.source.transactions = KafkaUnavailable("the brokers said no")
    listing.source.log_ends[ORDERS] = 17
    listing.back()
    (told,) = producers(listing)
    assert told["producers"] == {} and "the brokers said no" in told["producers_problem"] and listing.state == "over"
    assert len(listing.accepted()) == 1


def test_where_nothing_was_accepted_no_producer_is_asked_for(listing: Watch) -> None:
    """There is none to name."""
    listing.back()
    assert listing.state == "over" and producers(listing) == []


def test_a_log_that_is_shorter_than_known_is_named(bench: Any) -> None:
    """The source lost records when it died: that is no acceptance."""
    watch = Watch(bench, known_end=12)
    watch.back()
    assert watch.accepted() == [] and watch.outcomes[0].payload["logs_shorter_than_known"] == ["orders-0: 12 -> 10"]


def test_without_known_ends_everything_may_be_new(watch: Watch) -> None:
    """The inventory's file is gone: nothing is claimed to be old, and why is said."""
    next(watch.procedure.artifacts.folder.glob("source_ends-*")).unlink()
    watch.back()
    told = watch.outcomes[0].payload
    assert watch.procedure.artifacts.load(told["accepted"])["from_offset"].isna().tolist() == [True]
    assert told["partitions_not_known_before"] == 1 and "source_ends" in told["known_ends_problem"]


def test_the_window_begins_with_the_first_answer(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered, froze before its fence was proven, and thawed: the first answer counts, over a restart of the
    watcher too.
    """
    watch.bench.probe_answers[0] = WriteAccepted(1, 1)
    monkeypatch.setattr(Progress, "wait", lambda self, step, what, look, seconds: look())
    watch.back()
    assert watch.outcomes == [] and watch.armed == 1 and "brokers did not refuse the probe's write" in watch.lines[0]
    (first,) = armed_fences(telling_entries(watch.bench.journal))
    watch.bench.probe_answers.clear()
    watch.another().look()
    assert watch.outcomes[0].payload["answers_since"] == first.answers_since is not None
    assert len(watch.bench.journal.entries(step=STEP, kind=Entry.NOTE)) == 1


def test_looking_again_does_nothing_more(watch: Watch) -> None:
    """What is over is over."""
    watch.back()
    before = len(watch.bench.journal.entries())
    watch.watcher.look()
    assert len(watch.bench.journal.entries()) == before


def test_writes_that_go_on_leave_it_armed(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A super user passes every ACL: the list would be wrong a moment later, so there is none yet."""
    ends = watch.source.ends

    def growing(partitions: Any, **given: Any) -> Any:
        watch.source.log_ends[ORDERS] += 1
        return ends(partitions, **given)

    monkeypatch.setattr(watch.source, "ends", growing)
    watch.back()
    assert watch.outcomes == [] and watch.armed == 1 and "Writes still get through on the old source" in watch.lines[0]
    monkeypatch.undo()


def test_a_source_without_authorizer_stays_armed(watch: Watch) -> None:
    """Nothing was added, so nothing is called a fence."""
    watch.source.authorizer = False
    watch.back()
    assert watch.outcomes == [] and watch.armed == 1 and "has no authorizer" in watch.lines[0]


def test_a_fence_that_is_not_taken_stays_armed(watch: Watch) -> None:
    """Read back, it is not there."""
    watch.source.takes_acls = False
    watch.back()
    assert watch.outcomes == [] and watch.armed == 1 and "may still act" in watch.lines[0]


# -- MirrorMaker 2 -------------------------------------------------------------------------------------------------


def test_a_revived_mirror_maker_is_stopped(watch: Watch) -> None:
    """The flow from the old source and, under identity naming, the one to it; the intent names what was running."""
    watch.bench.workers["standby"].states.update(dict.fromkeys(("p.source", "p.checkpoint"), "RUNNING"))
    watch.bench.workers["primary"].states["s.source"] = "RUNNING"
    watch.back()
    assert watch.bench.workers["standby"].asked == [("stop", "p.source"), ("stop", "p.checkpoint")]
    intents = [
        e.payload["stops_connectors"]
        for e in watch.bench.journal.entries(step=STEP, kind=Entry.INTENT)
        if "stops_connectors" in e.payload
    ]
    assert sorted(intents) == [["p.source", "p.checkpoint"], ["s.source", "s.checkpoint"]]
    assert watch.outcomes[0].payload["mirror_maker"] == dict.fromkeys(
        ("p.source", "p.checkpoint", "s.source", "s.checkpoint"), "STOPPED"
    )


def test_a_worker_that_was_frozen_is_asked_whatever_it_says(watch: Watch) -> None:
    """It says STOPPED, and is about to go on with what it was told just before: the request comes after that."""
    worker = watch.bench.workers["primary"]
    watch.back()
    assert ("stop", "s.source") in worker.asked and ("stop", "s.checkpoint") in worker.asked
    assert watch.outcomes[0].payload["mirror_maker"] == dict.fromkeys(
        ("p.source", "p.checkpoint", "s.source", "s.checkpoint"), "STOPPED"
    )


def test_before_it_answers_only_what_the_procedure_stopped_is_held_stopped(watch: Watch) -> None:
    """Somebody resumed the flow while the source is away: it would copy at the first moment."""
    worker = watch.bench.workers["standby"]
    worker.states["p.source"] = "RUNNING"
    watch.watcher.look()
    assert worker.asked == []
    watch.bench.procedure().authority.write(Step.STOP_MIRROR_MAKER, Entry.INTENT, {"try": 1})
    watch.watcher.look()
    assert worker.asked == [("stop", "p.source")] and watch.armed == 1


def test_a_worker_that_comes_back_later_is_stopped_then(watch: Watch) -> None:
    """The fence does not wait for it; the watch does, and the source is not fenced twice."""
    watch.bench.workers["primary"].away = True
    watch.bench.workers["primary"].states["s.source"] = "RUNNING"
    watch.back()
    assert watch.armed == 0 and watch.state == "fenced" and DENY in watch.source.acls
    assert watch.outcomes[0].payload["mirror_maker_stopped"] is False
    watch.watcher.look()
    assert len(unstopped_sources(telling_entries(watch.bench.journal))) == 1
    watch.bench.workers["primary"].away = False
    watch.watcher.look()
    assert watch.state == "over" and watch.bench.workers["primary"].states["s.source"] == "STOPPED"
    assert (
        len([e for e in watch.bench.journal.entries(step=STEP, kind=Entry.INTENT) if "adds_acl_entries" in e.payload])
        == 1
    )


def test_a_connector_that_still_has_to_stop_is_named_and_asked_under_the_same_intent(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connect may take a minute: the source is fenced meanwhile, and the journal does not grow with every look."""
    monkeypatch.setattr(duties, "STOP_SECONDS", 0.0)
    worker = watch.bench.workers["standby"]
    worker.states["p.source"], worker.late = "RUNNING", {"p.source"}
    watch.back()
    watch.watcher.look()
    assert watch.state == "fenced"
    assert watch.lines[-1].startswith(f"{watch.procedure.id}: primary is fenced (p.source: ")
    watch.watcher.look()
    assert worker.asked.count(("stop", "p.source")) == 3
    asked = [
        e.payload["stops_connectors"] for e in watch.bench.journal.entries(step=STEP) if "stops_connectors" in e.payload
    ]
    assert sum("p.source" in names for names in asked) == 1 and len(asked) == 4
    worker.states["p.source"] = "STOPPED"
    watch.watcher.look()
    assert watch.state == "over"


@pytest.mark.parametrize("answers", [False, True])
def test_a_source_that_is_away_is_not_kept_waiting_for_by_its_connectors(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    """They take a minute to stop without it, in which its first answer would be missed; beside a fence they are
    waited for.
    """
    waited: list[float] = []
    monkeypatch.setattr(
        duties, "stop_flow", lambda procedure, step, flow, ask, stop, trusted: waited.append(stop) or {}
    )
    watch.bench.procedure().authority.write(Step.STOP_MIRROR_MAKER, Entry.INTENT, {"try": 1})
    watch.source.away = not answers
    watch.watcher.look()
    assert set(waited) == {duties.STOP_SECONDS if answers else 0.0}


def test_under_default_naming_the_flow_to_the_old_source_is_left(make_bench: Any) -> None:
    """Names protect against loops, and it does no harm."""
    bench = make_bench(naming={"policy": "default", "separator": "."})
    bench.workers["primary"].states["s.source"] = "RUNNING"
    watch = Watch(bench)
    watch.back()
    assert bench.workers["primary"].asked == [] and watch.state == "over"


def test_dedicated_processes_are_ended_by_their_hook(make_bench: Any) -> None:
    """No REST API: the hook is asked, and its count says whether they ended."""
    names = {k: f"p.{k}" for k in ("source", "checkpoint")}
    bench = make_bench(
        flows=[{"source": "primary", "target": "standby", "stop_hook": "processes", "connectors": names}]
    )
    watch = Watch(bench)
    watch.back()
    assert ("stop", "primary->standby") in bench.hook.asked and bench.hook.processes == {"primary->standby": 0}
    assert watch.outcomes[0].payload["mirror_maker"] == {"primary->standby": "STOPPED"} and watch.state == "over"


def test_what_the_watcher_stopped_is_resumed_by_the_return(watch: Watch) -> None:
    """The procedure had not begun to stop MirrorMaker 2: as it was found means running."""
    worker = watch.bench.workers["standby"]
    worker.states.update(dict.fromkeys(("p.source", "p.checkpoint"), "RUNNING"))
    watch.back()
    ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(watch.bench.context())
    assert worker.states == dict.fromkeys(("p.source", "p.checkpoint"), "RUNNING") and watch.source.acls == {GRANT}
    assert watch.state == "reopened"


# -- who may act ---------------------------------------------------------------------------------------------------


def test_while_the_procedure_is_open_its_journal_has_it_all(watch: Watch) -> None:
    """Under its id and its epoch, without taking a new one: its own step would be superseded."""
    epoch = watch.bench.journal.lease(PAIR).epoch
    watch.back()
    entries = watch.bench.journal.entries(step=STEP)
    assert {(e.procedure_id, e.epoch) for e in entries} == {(watch.procedure.id, epoch)}
    assert watch.bench.journal.lease(PAIR).epoch == epoch


@pytest.mark.parametrize("another", [False, True])
def test_after_the_procedure_was_closed_it_is_fenced_all_the_same(watch: Watch, another: bool) -> None:
    """Also while another procedure holds the pair: under the watcher's own name; and what was added is known to be
    this procedure's.
    """
    watch.close()
    if another:
        watch.bench.opened("r2")
    watch.source.log_ends[ORDERS] = 11
    watch.back()
    entries = watch.bench.journal.entries(step=STEP)
    assert {(e.procedure_id, e.epoch, e.payload["procedure_id"]) for e in entries} == {(STEP, 0, watch.procedure.id)}
    assert DENY in watch.source.acls and watch.state == "over" and watch.accepted()[0]["to_offset"] == 11
    assert added_entries(watch.bench.procedure()) == DENIALS and added_entries(watch.bench.procedure("r2")) == []


def test_a_failed_procedure_that_was_closed_is_not_in_hand_again(watch: Watch) -> None:
    """It holds its lease; its last entry stays the one that closed it."""
    epoch = watch.bench.journal.lease(PAIR).epoch
    watch.bench.journal.append(
        watch.procedure.id, Step.CLOSE_PROCEDURE, Entry.CLOSED, epoch, {"outcome": "failed", "digest": "d"}
    )
    watch.back()
    assert watch.bench.journal.entries(watch.procedure.id)[-1].kind == Entry.CLOSED and watch.state == "over"


def test_two_watchers_at_once_end_in_the_same_state(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stands still just before its act while the other does all of it: what the other proved is not undone."""
    act, once = fencing.acting_under, []

    def frozen(authority: Any, undo: Any) -> Any:
        if not once:
            once.append(1)
            watch.another().look()
        return act(authority, undo)

    monkeypatch.setattr(fencing, "acting_under", frozen)
    watch.back()
    assert watch.source.acls == {GRANT, *DENIALS} and watch.state == "over" and len(watch.outcomes) == 2, watch.lines


def late(watch: Watch, meanwhile: Any) -> None:
    """The watcher stands still just before its entries are added; meanwhile something happens."""
    own = watch.bench.acls

    class Frozen:
        """Adds after a while."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def add(self, entries: Any) -> None:
            meanwhile()
            self.inner.add(entries)

    watch.bench.acls = lambda cluster: Frozen(own(cluster))
    watch.back()


def test_a_fence_too_late_for_the_return_is_undone(watch: Watch) -> None:
    """The source was given back meanwhile: its clients must not be refused."""
    late(watch, lambda: ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(watch.bench.context()))
    assert (
        watch.source.acls == {GRANT}
        and watch.outcomes == []
        and "has no right to fence the old source" in watch.lines[0]
    )


def tell(journal: Any, procedure_id: str, step: Step, kind: Entry, epoch: int = 0, **given: Any) -> None:
    """Write a whole entry for any procedure."""
    journal.append(procedure_id, step, kind, epoch, entry(step, kind, **given).payload)


def opened_back(watch: Watch, run_id: str = "f") -> Any:
    """A later procedure that moves clients onto the old source, and has begun to open it."""
    watch.bench.params = watch.bench.params | {"source": "standby", "target": "primary"}
    procedure = watch.bench.procedure(run_id)
    epoch = watch.bench.journal.take_lease(PAIR, procedure.id)
    told = {"dag_id": "failback", "run_id": run_id, "source": "standby", "target": "primary"}
    tell(watch.bench.journal, procedure.id, Step.OPEN_PROCEDURE, Entry.OPENED, epoch, **told)
    procedure.authority.write(Step.OPEN_TARGET, Entry.INTENT, {"removes_acl_entries": []})
    return procedure


def test_a_fence_too_late_for_an_opening_is_undone(watch: Watch) -> None:
    """A failback opened the old source meanwhile."""
    watch.close()
    late(watch, lambda: opened_back(watch))
    assert watch.source.acls == {GRANT} and watch.outcomes == []


def test_what_a_newer_procedure_may_need_by_now_is_left(watch: Watch) -> None:
    """Opened, ended, and in another procedure's hands since: the same denial may be that one's fence."""

    def long_ago() -> None:
        failback = opened_back(watch)
        watch.bench.journal.release_lease(PAIR, failback.id, watch.bench.journal.lease(PAIR).epoch, "completed")
        watch.bench.opened("r3")
        watch.source.acls.add(DENY)

    watch.close()
    late(watch, long_ago)
    assert DENY in watch.source.acls and watch.outcomes == []


@pytest.mark.parametrize("end", ["returned", "opened", "disarmed"])
def test_what_clients_may_use_again_is_never_fenced(watch: Watch, end: str) -> None:
    """Neither after the return, nor after an opening by a later procedure, nor after it was disarmed."""
    watch.source.away = False
    if end == "returned":
        ReturnToSource(task_id=Step.RETURN_TO_SOURCE.value).execute(watch.bench.context())
    else:
        watch.close()
        failback = opened_back(watch) if end == "opened" else watch.bench.opened("r2")
        if end == "disarmed":
            disarm_fences(failback, "primary", "fenced by the failback")
    watch.watcher.look()
    assert watch.source.acls == {GRANT} and watch.armed == 0


def test_disarming_names_the_cluster(watch: Watch) -> None:
    """A failback ends the watch over the cluster that it fenced itself, of whichever procedure; another cluster's
    goes on.
    """
    watch.close()
    failback = watch.bench.opened("r2")
    assert disarm_fences(failback, "standby", "r") == () and watch.armed == 1
    assert [fence.procedure_id for fence in disarm_fences(failback, "primary", "r")] == [watch.procedure.id]
    assert watch.armed == 0
    assert disarm_fences(failback, "primary", "r") == ()


def test_a_fence_disarmed_meanwhile_is_not_undone(watch: Watch) -> None:
    """Whoever took it over found the watcher's entries there and counts on them."""
    watch.close()
    late(watch, lambda: disarm_fences(watch.bench.opened("r2"), "primary", "fenced by the failback"))
    assert DENY in watch.source.acls and watch.outcomes == [] and watch.state == "disarmed"
    assert "has no right to fence the old source" in watch.lines[0]


# -- what goes wrong -----------------------------------------------------------------------------------------------


def test_one_that_goes_wrong_keeps_no_other_waiting(watch: Watch) -> None:
    """A procedure whose request cannot be read any more is told; the other source is fenced."""
    journal = watch.bench.journal
    odd = {"source": "x", "odd": 1}
    tell(journal, "broken", Step.OPEN_PROCEDURE, Entry.OPENED, request=odd)
    tell(journal, "broken", Step.FENCE_SOURCE, Entry.INTENT, arms_fence={"source": "x", "target": "y", "topics": []})
    watch.back()
    assert watch.state == "over" and any(line.startswith("broken: ValidationError") for line in watch.lines)


def test_one_that_is_slow_keeps_no_other_waiting(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its look lasts; the others are looked at again meanwhile, it is not, and once it has ended it is again."""
    for alias in ("slow", "quick"):
        arms = {"source": alias, "target": "y", "topics": []}
        tell(bench.journal, alias, Step.OPEN_PROCEDURE, Entry.OPENED, target="y")
        tell(bench.journal, alias, Step.FENCE_SOURCE, Entry.INTENT, arms_fence=arms)
    looks: list[str] = []
    thaws = threading.Event()

    def attend(self: Watcher, fence: Any, duty: Any, entries: Any) -> str:
        looks.append(fence.source)
        return str(fence.source != "slow" or thaws.wait(60))

    monkeypatch.setattr(Watcher, "_attend", attend)
    watcher = Watcher(lambda line: None, lambda: bench.connections, patience=0.05)
    for _ in range(3):
        watcher.look()
    assert sorted(looks) == ["quick", "quick", "quick", "slow"]
    thaws.set()
    watcher._begun["slow"].result(60)
    watcher.look()
    assert looks.count("slow") == 2


def test_a_journal_that_is_away_is_told_and_looked_at_again(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it nothing is done, and the watcher goes on."""
    watch.watcher.look()
    away = watching.telling_entries
    monkeypatch.setattr(
        watching,
        "telling_entries",
        lambda journal: (_ for _ in ()).throw(KafkaUnavailable("the journal is not readable")),
    )
    watch.back()
    assert watch.lines[-1] == "watching: the journal is not readable." and DENY not in watch.source.acls
    monkeypatch.setattr(watching, "telling_entries", away)
    watch.watcher.look()
    assert DENY in watch.source.acls


def test_connections_are_asked_for_once_a_minute(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's API is not asked at every look; when it is away, what was read before goes on to hold."""
    made: list[int] = []
    asked: list[str] = []

    class Counting(Connections):
        """Counts what is asked."""

        def __init__(self) -> None:
            super().__init__(watch.bench)
            made.append(1)
            if len(made) > 1:
                raise OSError("Airflow's API is away")

        def kafka(self, connection_id: str) -> dict[str, str]:
            asked.append(connection_id)
            return super().kafka(connection_id)

        def journal_url(self, connection_id: str) -> str:
            asked.append(connection_id)
            return super().journal_url(connection_id)

    watcher = Watcher(watch.lines.append, Counting, patience=60.0)
    for _ in range(3):
        watcher.look()
    assert len(made) == 1 and sorted(asked) == sorted(set(asked))
    monkeypatch.setattr(watching, "_REFRESH_SECONDS", 0.0)
    watch.source.away = False
    watcher.look()
    assert len(made) == 2 and DENY in watch.source.acls
