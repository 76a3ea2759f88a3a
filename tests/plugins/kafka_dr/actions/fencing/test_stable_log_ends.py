"""The last proof of a fence: log ends that stand still, with no transaction open; what does not is named."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from kafka_dr.actions.fencing import open_transactions
from kafka_dr.actions.scope.position_frames import partitions_frame
from kafka_dr.domain.kafka_model.acl import AclEntry
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.domain.kafka_model.transactions import KnownTransaction, OpenTransaction
from kafka_dr.errors import KafkaUnavailable, LeaseLost
from kafka_dr.hooks.brokers.record import Record, Tail
from kafka_dr.procedure import progress
from kafka_dr.steps.planned.fence_producers import FenceProducers
from kafka_dr.vocabulary import Entry, Step

from tests.support.clusters import Message
from tests.support.facts import figures_of

STEP = Step.FENCE_PRODUCERS
ORDERS = TopicPartition("orders", 0)
RIGHTS = {
    AclEntry("topic", "*", "literal", "User:app", "*", "write", "allow"),
    AclEntry("transactional_id", "*", "literal", "User:orchestrator", "*", "describe", "allow"),
}


class Log:
    """The log of orders-0: its end grows by a script, its last stable offset stands where the oldest open
    transaction begins.
    """

    def __init__(self) -> None:
        self.growing: list[int] = []
        self.end, self.open = 10, {}
        self.last: Record | None = None
        self.broken = False

    def ends(self, partitions: list[TopicPartition], isolation: str = "read_uncommitted") -> dict[TopicPartition, int]:
        """The end after the next step of the script, or the last stable offset."""
        if isolation == "read_committed":
            return dict.fromkeys(partitions, min(self.open, default=self.end))
        self.end += self.growing.pop(0) if self.growing else 0
        return dict.fromkeys(partitions, self.end)

    def last_records(self, partitions: list[TopicPartition], take: Any) -> dict[TopicPartition, Tail]:
        """The newest record."""
        if self.broken:
            raise KafkaUnavailable("not everything could be read")
        return dict.fromkeys(partitions, Tail((take(Message(self.last)),) if self.last else (), 0, self.end))

    def ranges(self, spans: Any, limit: int | None = None, take: Any = None) -> dict[TopicPartition, list[Any]]:
        """The first record of a transaction."""
        return {tp: [SimpleNamespace(timestamp=5_000)] for tp in spans}


class Transactions:
    """The brokers' transactions on that log."""

    known_states: list[KnownTransaction] = []
    ended: list[Any] = []
    log: Log
    broken = False

    def open_on(self, partitions: list[TopicPartition]) -> list[OpenTransaction]:
        """What is open there."""
        if Transactions.broken:
            raise KafkaUnavailable("the broker said no")
        return [
            OpenTransaction(*partition, offset, producer)
            for partition in partitions
            for offset, producer in sorted(self.log.open.items())
        ]

    def known(self) -> list[KnownTransaction]:
        """What coordinators say."""
        return list(Transactions.known_states)

    def starts_and_timeouts(self, transactional_ids: set[str]) -> dict[str, tuple[int, int]]:
        """Times."""
        return dict.fromkeys(transactional_ids, (1_000, 60_000))

    def end(self, transactional_id: str) -> None:
        """Ends it, unless the broker does not."""
        self.ended.append(transactional_id)
        mine = {k.producer_id for k in Transactions.known_states if k.transactional_id == transactional_id}
        self.log.open = {offset: producer for offset, producer in self.log.open.items() if producer not in mine}

    def abort(self, partition: TopicPartition, start_offset: int) -> None:
        """Ends it on the partition alone."""
        self.ended.append((partition, start_offset))
        del self.log.open[start_offset]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """A log, and the transactions on it."""
    made = Log()
    monkeypatch.setattr(Transactions, "log", made, raising=False)
    monkeypatch.setattr(Transactions, "ended", [])
    monkeypatch.setattr(Transactions, "broken", False)
    monkeypatch.setattr(
        Transactions,
        "known_states",
        [KnownTransaction("pay-1", 7, "Ongoing"), KnownTransaction("pay-2", 8, "PrepareCommit")],
    )
    monkeypatch.setattr("tests.support.fake_systems.FakeSystems.transactions", lambda *_: Transactions())
    monkeypatch.setattr(open_transactions, "ASK_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(open_transactions, "END_AFTER_SECONDS", 0.0)
    return made


def ready(
    make_bench: Any,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    abort: bool = False,
    **deadlines: float,
) -> Any:
    """An approved run on that log; the plan says whether transactions are aborted."""
    limits = {"stable_seconds": 0.01, "fence_seconds": 0.3, "transaction_seconds": 2.0} | deadlines
    bench = make_bench(deadlines=limits)
    if abort:
        known = bench.planned.__globals__
        made = known["FailoverPlan"]
        monkeypatch.setitem(
            known, "FailoverPlan", lambda *given, **named: made(*given, abort_open_transactions=True, **named)
        )
    bench.planned()
    source = bench.clusters["primary"]
    source.acls = set(RIGHTS)
    source.ends = log.ends
    bench.reader = lambda alias, isolation="read_uncommitted": log
    return bench


def fence(bench: Any) -> dict[str, Any]:
    """Execute the step and return its figures."""
    FenceProducers(task_id=STEP.value).execute(bench.context())
    return bench.entries(STEP)[-1].payload


def test_a_stray_writers_newest_record_is_named(make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offset, time, a hash of the key and the size tell whose it is; the key itself, which may be personal, is not
    shown.
    """
    bench = ready(make_bench, log, monkeypatch)
    log.growing = [0, 5] * 100
    log.last = Record("orders", 0, 10**6, 1_700_000_000_000, False, b"customer-4711", b"v" * 100, (("trace", b"xy"),))
    with pytest.raises(AirflowFailException, match="Writes still get through") as error:
        fence(bench)
    said = str(error.value)
    assert "orders-0: newest record at offset 1000000, 2023-11-14T22:13:20.000+00:00, key with SHA-256 " in said
    assert "115 bytes" in said
    assert "super user" in said and "customer-4711" not in said
    assert Entry.OUTCOME not in bench.kinds(STEP) and bench.entries(STEP)[-1].kind == Entry.REFUSAL


def test_a_record_without_key_and_time_is_named_too(make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a record does not have is said so."""
    bench = ready(make_bench, log, monkeypatch)
    log.growing, log.last = [0, 5] * 100, Record("orders", 0, 10**6, None, False, None, None, ())
    with pytest.raises(AirflowFailException, match="no timestamp, no key, 0 bytes"):
        fence(bench)


def test_moving_ends_that_cannot_be_read_are_named_by_offset(
    make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that fails hides no writer."""
    bench = ready(make_bench, log, monkeypatch)
    log.growing, log.broken = [0, 5] * 100, True
    with pytest.raises(AirflowFailException, match=r"orders-0 from offset \d+ on \(not everything could be read\)"):
        fence(bench)


def test_the_end_of_a_transaction_is_no_writer(make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers move the log end without a record; the cut-off is taken after them, also when the fence's own deadline
    has passed.
    """
    bench = ready(make_bench, log, monkeypatch, fence_seconds=0.05, transaction_seconds=30.0)
    log.growing = [0, 1] * 3
    log.last = Record("orders", 0, 9, None, False, None, b"", ())
    figures = fence(bench)
    assert bench.procedure().artifacts.load(figures["cut_off"])["offset"].tolist() == [13]
    assert figures["open_transactions"] == figures["transactions_aborted"] == []


def test_open_transactions_are_named_and_waited_for_not_aborted(
    make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with its partition, producer, id, start and age; at the deadline the ways out are named, and nothing was
    ended.
    """
    bench = ready(make_bench, log, monkeypatch)
    log.open = {4: 7, 6: 9}
    with pytest.raises(AirflowFailException, match="Transactions stay open") as error:
        fence(bench)
    said = str(error.value)
    assert "orders-0 from offset 4, producer 7, transactional id 'pay-1'" in said
    assert "aborted by the broker after 60 s" in said
    assert (
        "orders-0 from offset 6, producer 9, no coordinator names its transactional id" in said
        and "abort_open_transactions" in said
    )
    assert Transactions.ended == [] and Entry.OUTCOME not in bench.kinds(STEP)
    noted = [e.payload for e in bench.entries(STEP) if e.kind == Entry.NOTE]
    found = [[(t["start_offset"], t["producer_id"]) for t in note["open_transactions"]] for note in noted]
    assert found == [[(4, None)], [(4, 7), (6, 9)]]


def test_a_transaction_that_ends_in_time_is_only_named(
    make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker ends it while it is waited for; the cut-off is taken then."""
    bench = ready(make_bench, log, monkeypatch, transaction_seconds=30.0)
    log.open = {4: 7}
    looks = iter(range(100))
    sleep = progress.time.sleep
    monkeypatch.setattr(
        progress.time,
        "sleep",
        lambda s: (log.open.clear() if next(looks) > 3 else None, sleep(min(s, 0.01)))[1],
    )
    figures = fence(bench)
    assert [t["transactional_id"] for t in figures["open_transactions"]] == ["pay-1"]
    assert figures["transactions_aborted"] == []


def test_brokers_that_fail_leave_the_log_and_are_asked_again(
    make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a transaction begins and how old it is are in the log itself; the brokers' error stands beside it."""
    bench = ready(make_bench, log, monkeypatch, abort=True)
    log.open, Transactions.broken = {4: 7}, True
    described = r"orders-0 from offset 4, \d+ s old; the brokers could not describe the transactions: "
    with pytest.raises(AirflowFailException, match=described + "the broker said no"):
        fence(bench)
    assert Transactions.ended == []
    Transactions.broken = False
    bench.params |= {"transaction_seconds": 60.0}
    assert figures_of(bench.procedure(), STEP) is None
    FenceProducers(task_id=STEP.value).execute(bench.context(attempt=2))
    assert Transactions.ended == ["pay-1"]


def test_by_decision_what_stays_open_is_ended(make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through its coordinator where one knows it, on the partition alone where none does; each is in an intent
    before.
    """
    bench = ready(make_bench, log, monkeypatch, abort=True, transaction_seconds=60.0)
    log.open = {4: 7, 6: 9}
    figures = fence(bench)
    assert Transactions.ended == ["pay-1", (ORDERS, 6)]
    meant = next(e for e in bench.entries(STEP) if "aborts_transactions" in e.payload)
    assert meant.kind == Entry.INTENT and [t["start_offset"] for t in meant.payload["aborts_transactions"]] == [4, 6]
    assert [t["producer_id"] for t in figures["transactions_aborted"]] == [7, 9]
    assert [t["producer_id"] for t in figures["open_transactions"]] == [7, 9]


def test_brokers_are_not_asked_about_what_ends_in_moments(
    make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients stand still meanwhile."""
    monkeypatch.setattr(open_transactions, "ASK_AFTER_SECONDS", 60.0)
    bench = ready(make_bench, log, monkeypatch)
    log.open = {4: 7}
    with pytest.raises(AirflowFailException, match=r"orders-0 from offset 4, \d+ s old"):
        fence(bench)
    assert not any(t["producer_id"] for e in bench.entries(STEP) for t in e.payload.get("open_transactions", []))


def test_what_is_being_committed_is_waited_for(make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that its coordinator has accepted is never undone, whatever was decided."""
    bench = ready(make_bench, log, monkeypatch, abort=True)
    log.open = {4: 8}
    with pytest.raises(AirflowFailException, match="Transactions stay open"):
        fence(bench)
    assert Transactions.ended == [] and not [e for e in bench.entries(STEP) if "aborts_transactions" in e.payload]


def test_what_is_only_not_shown_to_us_is_not_ended(make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to see every transactional id, a producer that nobody names may be alive: its commit would
    be broken.
    """
    bench = ready(make_bench, log, monkeypatch, abort=True)
    bench.clusters["primary"].acls = {e for e in RIGHTS if e.resource_type == "topic"}
    log.open = {6: 9}
    with pytest.raises(AirflowFailException, match="DESCRIBE on every transactional id"):
        fence(bench)
    assert Transactions.ended == []


def test_some_seconds_are_left_to_the_application(make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was named a moment ago is not ended yet."""
    monkeypatch.setattr(open_transactions, "END_AFTER_SECONDS", 60.0)
    bench = ready(make_bench, log, monkeypatch, abort=True)
    log.open = {4: 7}
    with pytest.raises(AirflowFailException):
        fence(bench)
    assert Transactions.ended == []


def test_a_lost_lease_ends_nothing(make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease is looked at just before each transaction is ended."""
    bench = ready(make_bench, log, monkeypatch, abort=True)
    log.open = {4: 7}
    procedure = bench.procedure()
    procedure.authority.write(STEP, Entry.INTENT, {"try": 1})
    look = open_transactions.OpenTransactions(procedure, STEP)
    look.look({ORDERS: 4}, {ORDERS: 10})
    assert "1 partitions hold open transactions" in look.look({ORDERS: 4}, {ORDERS: 10}) and Transactions.ended == [
        "pay-1"
    ]
    Transactions.ended.clear()
    log.open = {5: 7}
    look.look({ORDERS: 5}, {ORDERS: 10})
    monkeypatch.setattr(type(procedure.lease), "hold", _refuse)
    with pytest.raises(LeaseLost):
        look.look({ORDERS: 5}, {ORDERS: 10})
    assert Transactions.ended == []


def _refuse(_: Any) -> None:
    raise LeaseLost("held by another")


def test_a_woken_step_goes_on_from_what_it_named(make_bench: Any, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait of more than some seconds gives the slot back; woken, the same transaction is not named a second time,
    and the time counts from the beginning.
    """
    monkeypatch.setattr("kafka_dr.procedure.progress.PATIENCE_SECONDS", 0.0)
    bench = ready(make_bench, log, monkeypatch, transaction_seconds=60.0)
    log.open = {4: 7}
    step = FenceProducers(task_id=STEP.value)
    with pytest.raises(TaskDeferred):
        step.execute(bench.context())
    with pytest.raises(TaskDeferred):
        step.resume(bench.context())
    log.open.clear()
    time.sleep(0.3)
    step.resume(bench.context())
    assert [e.kind for e in bench.entries(STEP)].count(Entry.NOTE) == 2
    assert bench.entries(STEP)[-1].payload["still_after_seconds"] >= 0.3
    assert (
        bench.procedure()
        .artifacts.load(bench.entries(STEP)[-1].payload["cut_off"])
        .equals(partitions_frame({ORDERS: 10}, "offset"))
    )
