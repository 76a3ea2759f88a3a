"""reconcile_stranded_records on a log in memory that knows transactions and fences; on real brokers:
tests/integration/test_record_replay.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kafka_dr.actions.failback import replay as replaying
from kafka_dr.actions.failback.stranded_decision import planned_return
from kafka_dr.actions.failback.stranded_export import progress_record
from kafka_dr.domain.failback.stranded import Decision
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import NotReady, Superseded
from kafka_dr.hooks.brokers.record import OffsetSpan, Record
from kafka_dr.hooks.brokers.transactional_writer import Outgoing
from kafka_dr.procedure.authority import record_fact
from kafka_dr.procedure.entries import ReplayBegun, StrandedExport, StrandedRecordsFound
from kafka_dr.steps.failback.reconcile_stranded_records import ReconcileStrandedRecords
from kafka_dr.vocabulary import PROGRESS_TOPIC, Entry, Step

from tests.support.drills.scopes import NAMES
from tests.support.facts import figures_of, tell
from tests.support.fake_systems import FakeSystems
from tests.support.replay_process import failed_over, found_stranded, stranded

STEP = Step.RECONCILE_STRANDED_RECORDS
ORDERS = TopicPartition("orders", 0)


class Killed(BaseException):
    """What a process cannot catch."""


@dataclass
class World:
    """The new primary's logs: rows, each committed, aborted or open; markers take offsets, too."""

    cluster: Any
    logs: dict[TopicPartition, list[tuple[Outgoing | None, str]]] = field(default_factory=dict)
    writer: Any = None
    transactions: int = 0
    #: What happens just before the commit of a transaction, by its number.
    accidents: dict[int, Callable[[], None]] = field(default_factory=dict)

    def add(self, record: Outgoing | None, state: str) -> None:
        """Append."""
        log = self.logs.setdefault(TopicPartition(record.topic, record.partition), [])
        log.append((record, state))
        self.cluster.log_ends[TopicPartition(record.topic, record.partition)] = len(log)

    def client(self, key: bytes) -> None:
        """A client writes."""
        self.add(Outgoing("orders", 0, key, b"client"), "committed")

    def decide(self, state: str) -> None:
        """The open transaction ends."""
        for where, log in self.logs.items():
            if any(found == "open" for _, found in log):
                self.logs[where] = [(row, state if found == "open" else found) for row, found in log] + [
                    (None, "marker")
                ]
                self.cluster.log_ends[where] = len(self.logs[where])

    def records(self, isolation: str, where: TopicPartition) -> Iterator[Record]:
        """What a reader finds."""
        for offset, (row, state) in enumerate(self.logs.get(where, [])):
            if row is not None and (state == "committed" or isolation == "read_uncommitted"):
                yield Record(*where, offset, row.timestamp or 99, False, row.key, row.value, row.headers)

    def origins(self, where: TopicPartition = ORDERS, isolation: str = "read_committed") -> list[int]:
        """Offsets of the replayed records' origins."""
        return [
            int(dict(r.headers)["switchback.origin"].split(b"/")[3])
            for r in self.records(isolation, where)
            if r.headers
        ]


class Writer:
    """A writer to the world, as the broker lets it."""

    def __init__(self, world: World) -> None:
        self.world = world

    def fence(self) -> None:
        """Whoever wrote before can do nothing any more."""
        self.world.writer = self
        self.world.decide("aborted")

    def write(self, records: Iterable[Outgoing], still_allowed: Callable[[], object]) -> None:
        """All or nothing; an accident happens in the middle."""
        together = [*records]
        still_allowed()
        self.must_be_the_one()
        for record in together:
            self.world.add(record, "open")
        self.world.transactions += 1
        try:
            self.world.accidents.get(self.world.transactions, lambda: None)()
            self.must_be_the_one()
        except Killed:
            raise
        except BaseException:
            self.world.decide("aborted")
            raise
        self.world.decide("committed")

    def must_be_the_one(self) -> None:
        """A fenced writer is told so."""
        if self.world.writer is not self:
            raise Superseded("writing on east was refused", "_FENCED", "Nothing")

    def close(self) -> None:
        """Nothing to let go of."""


class Reader:
    """A reader of the world."""

    def __init__(self, world: World, isolation: str) -> None:
        self.world, self.isolation = world, isolation

    def scan(self, spans: Mapping[TopicPartition, OffsetSpan], timeout: float, take: Any = None) -> Iterator[Record]:
        """What is there, partition by partition."""
        for where, span in spans.items():
            yield from (
                record for record in self.world.records(self.isolation, where) if span.start <= record.offset < span.end
            )

    def read_all(self, topic: str, take: Any = None) -> Iterator[Record]:
        """A topic of one partition."""
        return self.world.records(self.isolation, TopicPartition(topic, 0))


@pytest.fixture
def make(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes the bench of a failback whose stranded records are found and decided on, with two records of clients on
    the new primary.
    """

    def make(
        records: list[Record],
        decision: str = "replay",
        mode: str = "recreate",
        approved: bool = True,
        boundary: int = 1,
        **found: Any,
    ) -> Any:
        bench = make_bench(dag_id="failback")
        bench.params |= {"mode": mode, "stranded": {".*": decision}}
        bench.world = World(bench.clusters["primary"])
        bench.world.client(b"before")
        bench.world.client(b"since")
        monkeypatch.setattr(FakeSystems, "replay_writer", lambda *_: Writer(bench.world))
        monkeypatch.setattr(bench, "reader", lambda alias, isolation: Reader(bench.world, isolation))
        procedure = bench.procedure()
        failed_over(procedure, {ORDERS: boundary})
        bench.opened()
        found_stranded(procedure, records, **found)
        bench.clusters["primary"].settings |= {"orders": {"cleanup.policy": "compact"} if "compacted" in found else {}}
        if approved:
            bench.api.answer(Step.DECIDE_STRANDED_RECORDS, f"Decision {planned_return(procedure).digest}")
        bench.done(procedure, Step.DECIDE_STRANDED_RECORDS, asked=True)
        return bench

    return make


def step() -> ReconcileStrandedRecords:
    """The step, made anew as Airflow does for each try."""
    return ReconcileStrandedRecords(task_id=STEP.value)


def reconcile(bench: Any, attempt: int = 1) -> dict[str, Any]:
    """One try of the step; answers its figures."""
    step().execute(bench.context(attempt=attempt))
    return figures_of(bench.procedure(), STEP)


def some(count: int = 2_500, partition: int = 0) -> list[Record]:
    """Stranded records of one partition."""
    return [stranded("orders", partition, 100 + n, b"k%d" % n, b"v%d" % n) for n in range(count)]


def killed() -> None:
    """The process dies."""
    raise Killed


def test_records_are_replayed_read_back_and_told(make: Any) -> None:
    """In order behind what clients wrote, with marks; the partition's row says where and how many."""
    bench = make(some())
    figures = reconcile(bench)
    assert bench.world.origins() == list(range(100, 2_600)) and bench.world.transactions == 3
    found = (figures["replayed"], figures["quarantined"], figures["aborted"], figures["aborted_are_mirrored"])
    assert found == (2_500, 0, 0, False)
    (row,) = bench.procedure().artifacts.load(figures["by_partition"]).to_dict("records")
    assert (row["topic"], row["place"], row["decision"], row["read_back"]) == ("orders", "orders", "replay", 2_500)
    record = list(bench.world.records("read_committed", ORDERS))[2]
    assert record.headers == (("switchback.origin", b"standby/orders/0/100"), ("switchback.procedure", b"failback-r1"))


def test_a_drill_replays_under_its_own_names(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its transactional id and its topic with progress records; production's are not touched."""
    monkeypatch.setattr(FakeSystems, "own_names", NAMES.own)
    bench = make(some(3), "replay")
    assert reconcile(bench)["transactional_id"] == NAMES.own.replay
    assert reconcile(bench)["replayed"] == 3 and bench.world.transactions == 1
    assert NAMES.own.progress in bench.clusters["primary"].partitions
    assert PROGRESS_TOPIC not in bench.clusters["primary"].partitions


@pytest.mark.parametrize("decision", ["keep", "discard"])
def test_what_is_kept_or_discarded_is_not_written(make: Any, decision: str) -> None:
    """No transaction, no topic of our own."""
    bench = make(some(3), decision, mode="append" if decision == "keep" else "recreate")
    assert reconcile(bench)["replayed"] == 0
    assert bench.world.transactions == 0 and PROGRESS_TOPIC not in bench.clusters["primary"].partitions


def test_without_a_second_persons_word_nothing_is_written(make: Any) -> None:
    """A gate that was only marked successful approves nothing."""
    bench = make(some(3), approved=False)
    with pytest.raises(AirflowFailException, match="never answered"):
        reconcile(bench)
    assert bench.world.transactions == 0 and bench.kinds(STEP)[-1] == Entry.REFUSAL


@pytest.mark.parametrize("dies_at", [(1,), (2,), (3,), (1, 2, 2), (2, 2), (1, 1, 2)])
def test_killed_in_any_transaction_each_record_is_there_once(make: Any, dies_at: tuple[int, ...]) -> None:
    """What it had written is aborted by the next one, and counted; MirrorMaker 2 would mirror it."""
    bench = make(some())
    for number in dies_at:
        bench.world.accidents = {bench.world.transactions + number: killed}
        with pytest.raises(Killed):
            reconcile(bench)
    bench.world.accidents = {}
    figures = reconcile(bench, attempt=9)
    assert bench.world.origins() == list(range(100, 2_600))
    assert figures["aborted"] == len(bench.world.origins(isolation="read_uncommitted")) - 2_500 > 0
    assert figures["replayed"] == 2_500 and figures["aborted_are_mirrored"]


def test_killed_after_the_last_commit_it_only_reads_back(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is in the transaction itself."""
    bench = make(some())
    with monkeypatch.context() as broken:
        broken.setattr(replaying.Replay, "prove", lambda _: killed())
        with pytest.raises(Killed):
            reconcile(bench)
    assert reconcile(bench, attempt=2)["replayed"] == 2_500 and bench.world.transactions == 3
    assert bench.world.origins() == list(range(100, 2_600))


def test_done_is_done(make: Any) -> None:
    """The step runs again and touches nothing."""
    bench = make(some(3))
    reconcile(bench)
    writer = bench.world.writer
    reconcile(bench, attempt=2)
    assert bench.world.writer is writer and bench.world.origins() == [100, 101, 102]


def test_a_newer_process_of_the_run_takes_over(make: Any) -> None:
    """The older one ends the transaction that it has begun, finds a newer epoch before the next one, and says that
    another goes on.
    """
    bench = make(some())
    bench.world.accidents = {2: bench.procedure().lease.take_new_epoch}
    with pytest.raises(AirflowException, match="newer process"):
        reconcile(bench)
    assert bench.world.origins() == list(range(100, 2_100)) and bench.world.transactions == 2
    assert reconcile(bench, attempt=2)["replayed"] == 2_500 and bench.world.origins() == list(range(100, 2_600))


def test_a_process_that_is_fenced_off_by_a_newer_one_does_not_fence_it(make: Any) -> None:
    """In the middle of its transaction it finds out, looks at the lease, and leaves the newer one alone."""
    bench = make(some())
    newer = Writer(bench.world)

    def taken_over() -> None:
        bench.procedure().lease.take_new_epoch()
        newer.fence()

    bench.world.accidents = {2: taken_over}
    with pytest.raises(AirflowException, match="newer process"):
        reconcile(bench)
    assert bench.world.writer is newer and bench.world.origins() == list(range(100, 1_100))


def test_an_older_process_that_wakes_up_late_costs_nothing(make: Any) -> None:
    """It fences off the newer one, which holds the lease and takes its place again."""
    bench = make(some())
    bench.world.accidents = {2: lambda: Writer(bench.world).fence()}
    figures = reconcile(bench)
    assert bench.world.origins() == list(range(100, 2_600))
    # The fence of the older one has aborted what was under way.
    assert (figures["replayed"], figures["aborted"]) == (2_500, 1_000)


def test_a_run_that_goes_back_writes_no_more(make: Any) -> None:
    """Between two transactions an abort is heeded."""
    bench = make(some())
    procedure = bench.procedure()
    bench.world.accidents = {
        1: lambda: tell(procedure, Step.ABORT_PROCEDURE, Entry.ABORT, {"by": "carol", "reason": "wrong day"})
    }
    with pytest.raises(AirflowFailException, match="carol aborted"):
        reconcile(bench)
    assert bench.world.transactions == 1


def test_a_partition_each_goes_on_where_it_was(make: Any) -> None:
    """Progress is kept by partition; both share transactions."""
    bench = make(some(700) + some(700, partition=1))
    bench.clusters["primary"].partitions["orders"] = {0: 1, 1: 1}
    bench.world.accidents = {2: killed}
    with pytest.raises(Killed):
        reconcile(bench)
    assert reconcile(bench, attempt=2)["replayed"] == 1_400
    assert bench.world.origins() == bench.world.origins(TopicPartition("orders", 1)) == list(range(100, 800))
    told = [json.loads(r.value) for r in bench.world.records("read_committed", TopicPartition(PROGRESS_TOPIC, 0))]
    by = ["replay", bench.procedure().id]
    assert told == [[["orders", 0, 800, *by], ["orders", 1, 400, *by]], [["orders", 1, 800, *by]]]


def test_how_far_another_export_came_does_not_count(make: Any) -> None:
    """A topic's offsets begin anew when it is made anew."""
    bench = make(some(3))
    bench.world.add(
        Outgoing(PROGRESS_TOPIC, 0, b"failback-r0", b'[["orders", 0, 102, "replay", "failback-r0"]]'), "committed"
    )
    assert reconcile(bench)["replayed"] == 3 and bench.world.origins() == [100, 101, 102]


def test_keys_written_since_are_dropped_and_keyless_ones_left_out(make: Any) -> None:
    """What clients wrote since the failover counts, what was mirrored before it does not."""
    keys = [b"since", b"before", b"new", None, b"new"]
    bench = make([stranded("orders", 0, n, key, b"v") for n, key in enumerate(keys)], compacted=["orders"])
    figures = reconcile(bench)
    assert bench.world.origins() == [1, 2, 4]
    found = {name: figures[name] for name in ("replayed", "overwritten", "keyless", "overtaken")}
    assert found == {"replayed": 3, "overwritten": 1, "keyless": 1, "overtaken": 0}


def test_keys_that_clients_write_while_it_replays_are_looked_for_before_each_transaction(make: Any) -> None:
    """A key written before its transaction is dropped; one that slips in between the look and the commit is told."""
    records = some(2_500)
    bench = make(records, compacted=["orders"])

    def write_two() -> None:
        bench.world.client(b"k2400")

    bench.world.accidents = {1: write_two}
    figures = reconcile(bench)
    assert 2_500 not in bench.world.origins() and (figures["replayed"], figures["overwritten"]) == (2_499, 1)


def test_a_stranded_value_does_not_drop_a_later_stranded_one_of_its_key(make: Any) -> None:
    """What was replayed before is no client's."""
    records = [stranded("orders", 0, n, b"k", b"v%d" % n) for n in range(1_500)]
    bench = make(records, compacted=["orders"])
    assert reconcile(bench)["replayed"] == 1_500 and bench.world.transactions == 2


def test_a_newer_value_that_was_undone_is_counted(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can prevent it while clients write: it is said."""
    bench = make(some(3), compacted=["orders"])
    write = Writer.write

    def late(self: Writer, records: Iterable[Outgoing], still_allowed: Callable[[], object]) -> None:
        self.world.client(b"k1")
        write(self, records, still_allowed)

    monkeypatch.setattr(Writer, "write", late)
    assert reconcile(bench)["overtaken"] == 1


def test_a_failover_that_nobody_knows_makes_later_keys_unknown(make: Any) -> None:
    """Rather refused than guessed."""
    bench = make(some(3), compacted=["orders"], after="unplanned_failover-x")
    with pytest.raises(AirflowFailException, match="offset from which clients have written"):
        reconcile(bench)
    assert bench.world.origins(isolation="read_uncommitted") == []


def test_uncommitted_records_stay_in_the_export(make: Any) -> None:
    """They are counted apart."""
    bench = make(some(4), uncommitted={ORDERS: {101: "aborted", 103: "undecided"}})
    figures = reconcile(bench)
    assert bench.world.origins() == [100, 102] and (figures["replayed"], figures["uncommitted"]) == (2, 2)


def test_a_quarantine_is_made_with_room_and_time(make: Any) -> None:
    """As many partitions as are needed; the topic itself gets nothing."""
    bench = make([stranded("orders", 2, 7, None, b"v")], decision="quarantine")
    figures = reconcile(bench)
    assert (figures["quarantined"], figures["replayed"]) == (1, 0)
    assert bench.world.origins(TopicPartition("orders.stranded", 2)) == [7] and bench.world.origins() == []
    assert set(bench.clusters["primary"].partitions["orders.stranded"]) == {0, 1, 2}


def test_a_compacted_quarantine_is_refused(make: Any) -> None:
    """It would not keep every record."""
    bench = make(some(3), decision="quarantine")
    bench.clusters["primary"].settings["orders.stranded"] = {"cleanup.policy": "compact"}
    with pytest.raises(AirflowFailException, match=r"are compacted.*orders\.stranded"):
        reconcile(bench)
    assert bench.world.transactions == 0


def test_a_topic_that_is_gone_is_refused_before_anything_is_written(make: Any) -> None:
    """With what to do about it."""
    bench = make([*some(3), stranded("orders", 9, 1, b"k", b"v")])
    with pytest.raises(AirflowFailException, match=r"orders-9.*another decision"):
        reconcile(bench)
    assert bench.world.transactions == 0


def test_a_name_that_kafka_would_refuse_is_told(make: Any) -> None:
    """`.stranded` makes it too long."""
    bench = make([stranded("o" * 245, 0, 1, b"k", b"v")], decision="quarantine")
    with pytest.raises(AirflowFailException, match=f"{'o' * 245}.stranded: the name has 254 characters"):
        reconcile(bench)


def test_another_export_than_the_journals_is_refused(make: Any) -> None:
    """Nobody decided on that."""
    bench = make(some(3))
    (file,) = (bench.procedure().artifacts.folder / "export" / "stranded").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(AirflowFailException, match="is missing, or was changed after the export"):
        reconcile(bench)
    assert bench.world.transactions == 0


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (lambda log: log.append(log[2]), "exported offset 100 was read back twice"),
        (lambda log: log.__delitem__(3), "exported offset 101 is missing"),
        (
            lambda log: log.__setitem__(2, (log[2][0]._replace(value=b"other"), "committed")),
            "exported offset 100 has other content",
        ),
        (
            lambda log: log.__setitem__(2, (log[2][0]._replace(timestamp=1), "committed")),
            "exported offset 100 has another timestamp",
        ),
    ],
)
def test_what_is_read_back_must_be_what_was_exported(
    make: Any, monkeypatch: pytest.MonkeyPatch, tamper: Any, told: str
) -> None:
    """Somebody meddles between writing and reading: the step fails, and there is no outcome."""
    bench = make(some(3))
    run = replaying.Replay.run

    def meddled(self: Any) -> None:
        run(self)
        tamper(bench.world.logs[ORDERS])
        bench.clusters["primary"].log_ends[ORDERS] = len(bench.world.logs[ORDERS])

    monkeypatch.setattr(replaying.Replay, "run", meddled)
    with pytest.raises(AirflowFailException, match=told):
        reconcile(bench)
    assert bench.kinds(STEP)[-1] == Entry.REFUSAL and figures_of(bench.procedure(), STEP) is None


def test_a_topic_that_stamps_records_itself_is_told(make: Any) -> None:
    """They are there, with another time."""
    bench = make(some(3))
    bench.clusters["primary"].settings["orders"] = {"message.timestamp.type": "LogAppendTime"}
    assert reconcile(bench)["restamped"] == 3


@pytest.mark.parametrize("config", [{"max.message.bytes": "1200"}, {"message.timestamp.before.max.ms": "3600000"}])
def test_what_may_be_refused_goes_alone(make: Any, config: dict[str, str]) -> None:
    """A record too large, or too old, takes no other with it."""
    large = stranded("orders", 0, 101, b"k", b"v" * 500, timestamp=1_700_000_000_000)
    bench = make(
        [
            stranded("orders", 0, 100, b"k", b"v", timestamp=None),
            large,
            stranded("orders", 0, 102, b"k", b"v", timestamp=None),
        ]
    )
    bench.clusters["primary"].settings["orders"] = config
    reconcile(bench)
    assert bench.world.transactions == 3


def next_run(bench: Any, name: str, before: Any, finder: Any, of_its_own: bool = False) -> Any:
    """A run after another one, over the export of the one that found what is stranded, or one of its own that holds
    the same.
    """
    before.journal.release_lease(before.pair, before.id, before.journal.lease(before.pair).epoch, "returned")
    found, later = finder.progress.require(StrandedRecordsFound), bench.opened(name)
    frontier, files = (
        later.artifacts.save(name, finder.artifacts.load(receipt))
        for name, receipt in (("frontier", found.frontier), ("files", found.export.files))
    )
    export = StrandedExport("export", files, procedure_id=None if of_its_own else finder.id)
    if of_its_own:
        copytree(
            Path(later.topology.evidence) / finder.id / "export", Path(later.topology.evidence) / later.id / "export"
        )
    record_fact(later.authority, Step.FIND_STRANDED_RECORDS, replace(found, frontier=frontier, export=export))
    bench.done(later, Step.DECIDE_STRANDED_RECORDS, asked=True)
    return later


def another_run_of(bench: Any, dies_at: int) -> Any:
    """A run over the export of the one before, which died in a transaction."""
    bench.world.accidents = {dies_at: killed}
    with pytest.raises(Killed):
        reconcile(bench)
    bench.world.accidents = {}
    return next_run(bench, "r2", bench.procedure(), bench.procedure())


def test_what_a_run_in_between_wrote_is_read_back_by_the_next(make: Any) -> None:
    """The run that found it never came to write: where the places ended before, the second one has noted, and the
    third begins to read there.
    """
    bench = make(some())
    first = bench.procedure()
    next_run(bench, "r2", first, first)
    bench.world.accidents = {2: killed}
    with pytest.raises(Killed):
        step().execute(bench.context("r2"))
    bench.world.accidents = {}
    next_run(bench, "r3", bench.procedure("r2"), first)
    step().execute(bench.context("r3"))
    told = figures_of(bench.procedure("r3"), STEP)
    assert (told["replayed"], told["aborted"], told["export_of"]) == (2_500, 1_000, first.id)


def test_what_another_run_left_undone_is_gone_on_with(make: Any) -> None:
    """By the same export: what the earlier run wrote is not written again."""
    bench = make(some())
    first = bench.procedure().id
    another_run_of(bench, dies_at=2)
    step().execute(bench.context("r2"))
    told = figures_of(bench.procedure("r2"), STEP)
    assert (told["replayed"], told["aborted"], told["export_of"]) == (2_500, 1_000, first)
    assert bench.world.origins() == list(range(100, 2_600))


def test_a_run_that_looked_itself_writes_nothing_again(make: Any) -> None:
    """An earlier run has written a thousand and was given up before clients moved; the next one has found the same
    2,500, by an export of its own.
    """
    bench = make(some())
    bench.world.accidents = {2: killed}
    with pytest.raises(Killed):
        reconcile(bench)
    bench.world.accidents = {}
    first = bench.procedure()
    second = next_run(bench, "r2", first, first, of_its_own=True)
    step().execute(bench.context("r2"))
    told = figures_of(bench.procedure("r2"), STEP)
    assert (told["replayed"], told["aborted"], told["export_of"]) == (2_500, 1_000, second.id)
    assert bench.world.origins() == list(range(100, 2_600))
    second.request.choices["stranded"] = {".*": "discard"}
    with pytest.raises(
        NotReady,
        match=f"orders: {first.id} has already written records of this topic with replay; decide replay again",
    ):
        planned_return(second)


@pytest.mark.parametrize("decision", ["quarantine", "discard"])
def test_what_is_written_in_part_is_not_decided_otherwise(make: Any, decision: str) -> None:
    """The first thousand stand in the topic already: in a quarantine they would be missing, and discarded they are
    not.
    """
    bench = make(some())
    bench.params |= {"stranded": {".*": "replay"}}
    first, second = bench.procedure().id, another_run_of(bench, dies_at=2)
    second.request.choices["stranded"] = {".*": decision}
    with pytest.raises(
        NotReady,
        match=f"orders: {first} has already written records of this topic with replay; decide replay again",
    ):
        planned_return(second)


def test_only_the_decision_that_wrote_binds_the_next_run(make: Any) -> None:
    """The first run was to replay and died in its first transaction; the second one has written some to the
    quarantine.
    """
    bench = make(some())
    bench.params |= {"stranded": {".*": "replay"}}
    first = bench.procedure()
    bench.world.accidents = {1: killed}
    with pytest.raises(Killed):
        reconcile(bench)
    second = next_run(bench, "r2", first, first)
    record_fact(second.authority, STEP, ReplayBegun(replaying=first.id))
    bench.world.add(
        progress_record(PROGRESS_TOPIC, first.id, second.id, {ORDERS: (1_100, Decision.QUARANTINE)}), "committed"
    )
    third = next_run(bench, "r3", second, first)
    third.request.choices["stranded"] = {".*": "quarantine"}
    assert planned_return(third).decisions == {"orders": "quarantine"}
    third.request.choices["stranded"] = {".*": "replay"}
    with pytest.raises(
        NotReady,
        match=f"orders: {second.id} has already written records of this topic with quarantine; decide quarantine again",
    ):
        planned_return(third)


def test_what_is_not_written_yet_may_be_decided_otherwise(make: Any) -> None:
    """The earlier run died in its first transaction."""
    bench = make(some())
    second = another_run_of(bench, dies_at=1)
    second.request.choices["stranded"] = {".*": "quarantine"}
    assert planned_return(second).decisions == {"orders": "quarantine"}
