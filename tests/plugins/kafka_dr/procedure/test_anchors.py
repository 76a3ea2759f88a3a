"""A journal that lost entries, or was changed with its hashes made anew, is refused by its anchors."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.commands.accept_journal import accept_journal
from kafka_dr.config.settings import Request, load_topology
from kafka_dr.domain.anchors import Anchor, read_anchor
from kafka_dr.errors import BadInput, Contradiction, SystemUnavailable
from kafka_dr.hooks.journal.chain import hash_of
from kafka_dr.procedure.entries import AnchorsMissed, JournalAccepted, TryBegun, facts_in
from kafka_dr.procedure.run import Identity, Run
from kafka_dr.steps.base import ProcedureStep
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.steps.shared.redirect_clients import RedirectClients
from kafka_dr.steps.shared.return_to_source import ReturnToSource
from kafka_dr.vocabulary import Entry, Step

from tests.support.bench import Bench


class Acting(ProcedureStep):
    """A step that counts its acts."""

    acted = 0

    def act(self, procedure: Any, context: Any) -> Any:
        """Count."""
        type(self).acted += 1
        raise BadInput("acted")


def act(bench: Bench, step: Step = Step.CHECK_READINESS) -> None:
    """Run the step, which ends with an error in any case."""
    Acting(task_id=step.value).execute(bench.context())


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """A planned failover that was opened, and whose first step has failed once."""
    made = make_bench()
    Acting.acted = 0
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(made.context())
    with pytest.raises(AirflowFailException, match="acted"):
        act(made)
    return made


def anchors(bench: Bench, alias: str) -> list[Anchor]:
    """The anchors of entries on a cluster, in the order written."""
    found = [read_anchor(value) for value in bench.clusters[alias].anchors.values]
    assert None not in found
    return [anchor for anchor in found if anchor is not None and anchor.sequence]


def database(bench: Bench) -> Any:
    """The journal's database, with full rights."""
    return closing(sqlite3.connect(bench.folder / "journal.db", isolation_level=None))


def rewrite(bench: Bench, sequence: int, alter: Callable[[Any], Any]) -> None:
    """Alter one entry's payload and make all later hashes anew, as somebody with full rights on the database."""
    with database(bench) as base:
        base.row_factory = sqlite3.Row
        previous = None
        for row in base.execute("SELECT * FROM entries WHERE sequence >= ? ORDER BY sequence", (sequence,)).fetchall():
            values = dict(row)
            if values["sequence"] == sequence:
                values["payload"] = json.dumps(alter(json.loads(values["payload"])), sort_keys=True)
            else:
                values["previous_hash"] = previous
            previous = hash_of({name: value for name, value in values.items() if name != "hash"})
            base.execute(
                "UPDATE entries SET payload = ?, previous_hash = ?, hash = ? WHERE sequence = ?",
                (values["payload"], values["previous_hash"], previous, values["sequence"]),
            )
    assert bench.journal.verify() is None


def delete_last(bench: Bench, count: int) -> None:
    """Delete the journal's newest entries."""
    with database(bench) as base:
        base.execute("DELETE FROM entries WHERE sequence > (SELECT max(sequence) FROM entries) - ?", (count,))


def test_every_entry_is_anchored_on_both_clusters(bench: Bench) -> None:
    """Sequence, hash, epoch, and which step wrote it."""
    entries = bench.journal.entries()
    for alias in ("primary", "standby"):
        found = [(a.sequence, a.hash, a.epoch, a.step, a.kind) for a in anchors(bench, alias)]
        assert found == [(e.sequence, e.hash, e.epoch, e.step, e.kind) for e in entries]
    assert len(entries) == 5


def test_an_altered_entry_with_new_hashes_is_named(bench: Bench) -> None:
    """The chain is whole, and no step acts."""
    rewrite(bench, 1, lambda opened: {**opened, "reason": "another"})
    for step in (Step.CHECK_READINESS, Step.FORECAST):
        with pytest.raises(AirflowFailException, match=r"entry 1 \(opened of open_procedure, planned_failover-r1\) is"):
            act(bench, step)
    for task in (ReturnToSource, CloseProcedure):
        with pytest.raises(AirflowFailException, match="is another one, by the anchor on primary and standby"):
            task(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context())
    assert Acting.acted == 1 and not list(bench.folder.rglob("evidence.json"))


def test_an_altered_entry_with_its_old_hash_is_named(bench: Bench) -> None:
    """Where it is read, without an anchor."""
    with database(bench) as base:
        base.execute("UPDATE entries SET payload = replace(payload, 'maintenance', 'another') WHERE sequence = 1")
    with pytest.raises(Contradiction, match="The journal's entry 1 was changed"):
        bench.procedure()


def test_an_entry_in_the_middle_that_is_gone_is_named(bench: Bench) -> None:
    """The chain has a hole."""
    with database(bench) as base:
        base.execute("DELETE FROM entries WHERE sequence = 2")
    with pytest.raises(AirflowFailException, match="entry 2 is missing"):
        act(bench)


@pytest.mark.parametrize("lost", range(1, 6))
def test_a_journal_without_its_last_entries_is_refused(bench: Bench, lost: int) -> None:
    """As a standby that was promoted without them: each missing entry is named, whatever it was."""
    entries = bench.journal.entries()
    delete_last(bench, lost)
    with pytest.raises(AirflowFailException) as refused:
        act(bench)
    for entry in entries[-lost:]:
        assert f"entry {entry.sequence} ({entry.kind} of {entry.step}, {entry.procedure_id}) is missing" in str(
            refused.value
        )
    assert Acting.acted == 1
    assert len(bench.journal.entries()) == len(entries) - lost


def test_an_older_copy_of_the_whole_database_is_refused(bench: Bench, tmp_path: Path) -> None:
    """With its leases; also an empty database."""
    for table in ("entries", "leases"):
        with database(bench) as base:
            base.execute(f"CREATE TABLE kept_{table} AS SELECT * FROM {table}")
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)
    for table in ("entries", "leases"):
        with database(bench) as base:
            base.execute(f"DELETE FROM {table}")
            base.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}")
    with pytest.raises(AirflowFailException, match="entry 6 .failure of check_readiness.* is missing"):
        act(bench)
    shutil.rmtree(tmp_path, ignore_errors=True)
    with database(bench) as base:
        base.execute("DELETE FROM entries")
        base.execute("DELETE FROM leases")
    with pytest.raises(AirflowFailException, match="entry 1 .opened of open_procedure.* is missing"):
        OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context("r2"))
    assert bench.journal.lease("primary+standby") is None


def test_a_database_at_its_anchor_goes_on(bench: Bench) -> None:
    """A promotion without loss changes no content, whatever else it changes."""
    with database(bench) as base:
        base.execute("VACUUM")
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)
    assert Acting.acted == 2


@pytest.mark.parametrize("when", ["before its first entry", "after its intent"])
def test_entries_that_are_lost_while_a_step_runs_end_it(bench: Bench, when: str) -> None:
    """A standby is promoted between two transactions of one process: it does not act under a journal without them."""

    class Losing(ProcedureStep):
        acted = 0

        def begin(self, procedure: Any, context: Any, woken: bool = False) -> None:
            if when == "before its first entry":
                delete_last(bench, 1)
            super().begin(procedure, context, woken)

        def act(self, procedure: Any, context: Any) -> Any:
            if when == "after its intent":
                delete_last(bench, 1)
            procedure.authority.hold()
            type(self).acted += 1
            return TryBegun(attempt=9)

    before = bench.journal.entries()
    with pytest.raises(AirflowFailException, match="lost entries while this process used it") as refused:
        Losing(task_id=Step.FORECAST.value).execute(bench.context())
    assert re.search(r"entry \d+ was there before, and is now missing", str(refused.value))
    assert Losing.acted == 0
    assert bench.journal.entries() == before[: 4 if when == "before its first entry" else 5]
    with pytest.raises(AirflowFailException, match="is missing, by the anchor on"):
        act(bench)


def test_another_process_may_write_meanwhile(bench: Bench) -> None:
    """Its entries follow the ones that a step has seen."""

    class Disturbed(ProcedureStep):
        def act(self, procedure: Any, context: Any) -> Any:
            bench.journal.append("another-procedure", "step", "note", 0, {})
            procedure.authority.hold()
            return TryBegun(attempt=9)

    Disturbed(task_id=Step.CHECK_READINESS.value).execute(bench.context())
    assert bench.kinds(Step.CHECK_READINESS)[-1] == Entry.INTENT


def test_one_cluster_that_answers_suffices(bench: Bench) -> None:
    """The other one may be the site that was lost."""
    bench.clusters["primary"].away = True
    delete_last(bench, 1)
    with pytest.raises(AirflowFailException, match="entry 5 .* by the anchor on standby"):
        act(bench)


def test_an_epoch_is_never_given_twice(bench: Bench) -> None:
    """A lease that was lost with the database stays an epoch that was given."""
    newest = bench.journal.lease("primary+standby")
    assert newest is not None
    with database(bench) as base:
        base.execute("DELETE FROM leases WHERE epoch = ?", (newest.epoch,))
        base.execute("UPDATE leases SET released_at = NULL, outcome = NULL")
    assert bench.journal.lease("primary+standby").epoch == newest.epoch - 1
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)
    assert bench.journal.lease("primary+standby").epoch == newest.epoch + 1


def test_a_cluster_that_takes_no_anchor_is_named_and_delays_nothing(bench: Bench) -> None:
    """The step goes on; the journal says what is not anchored, and where."""
    bench.clusters["primary"].away = True
    before = len(anchors(bench, "primary"))
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)
    assert len(anchors(bench, "primary")) == before < len(anchors(bench, "standby"))

    class Passing(ProcedureStep):
        def act(self, procedure: Any, context: Any) -> Any:
            return TryBegun(attempt=9)

    Passing(task_id=Step.CHECK_READINESS.value).execute(bench.context())
    missed = bench.procedure().progress.done(AnchorsMissed)
    assert missed is not None and (set(missed.unread), missed.anchored_on) == ({"primary"}, ["standby"])
    assert "asking primary failed" in missed.unread["primary"]


def test_the_routing_record_has_the_head(make_bench: Callable[..., Bench]) -> None:
    """It is outside both clusters, and counts like an anchor there."""
    bench = make_bench()
    bench.stopped()
    bench.tell(bench.procedure(), Step.OPEN_TARGET, Entry.OUTCOME, {})
    redirect = RedirectClients(task_id=Step.REDIRECT_CLIENTS.value)
    redirect.execute(bench.context())
    record = json.loads((bench.folder / "routing.json").read_text())
    begun = bench.entries(Step.REDIRECT_CLIENTS)[0]
    assert (record["cluster"], record["switchback_journal"]["hash"]) == ("standby", begun.hash)
    for cluster in bench.clusters.values():
        cluster.anchors.values.clear()
    delete_last(bench, 3)
    with pytest.raises(AirflowFailException, match="intent of redirect_clients.* by the anchor on the routing record"):
        redirect.execute(bench.context())


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"null", b'{"generation": 1}', b"\xff", b'{"generation": "x"}'])
def test_what_is_no_anchor_is_not_read(bench: Bench, value: bytes) -> None:
    """Somebody else's record in the topic neither counts nor stops a step."""
    bench.clusters["primary"].anchors.values.append(value)
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)


def accepting(bench: Bench) -> Run:
    """The run under which a person accepts the journal."""
    request = Request(source="primary", target="standby", reason="accept the journal")
    systems = bench.connections.systems(request, load_topology(bench.topology))
    return Run(Identity("accept_journal", "1"), request, bench.journal, systems)


def test_a_person_may_accept_what_is_lost(bench: Bench) -> None:
    """Once, by name and with a reason; the journal says what it lacked, and later losses are named again."""
    delete_last(bench, 2)
    told = accept_journal(accepting(bench), "olga", "the former database burnt")
    assert "entry 4 " in told and "entry 5 " in told
    (accepted,) = facts_in(bench.journal.entries("accept_journal-1"), JournalAccepted)
    assert (accepted.accepted_by, accepted.reason, len(accepted.lacked)) == ("olga", "the former database burnt", 2)
    assert anchors(bench, "standby")[-1].accepted == "olga: the former database burnt"
    assert "nothing to accept" in accept_journal(accepting(bench), "olga", "again")
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)
    delete_last(bench, 1)
    with pytest.raises(AirflowFailException, match="is missing"):
        act(bench)


@pytest.mark.parametrize("during", [True, False])
def test_the_evidence_says_that_a_person_accepted_the_journal(bench: Bench, during: bool) -> None:
    """If that was while the run lasted: what the run did then may be missing from its evidence."""
    run = "r1"
    delete_last(bench, 1)
    accept_journal(accepting(bench), "olga", "the former database burnt")
    if during:
        with pytest.raises(AirflowFailException, match="acted"):
            act(bench)
    else:
        lease = bench.journal.lease("primary+standby")
        bench.journal.release_lease(lease.pair, lease.holder, lease.epoch, "failed")
        run = "r2"
        OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context(run))
    with pytest.raises(AirflowFailException, match="failed"):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context(run))
    (path,) = (bench.folder / "evidence").glob(f"*{run}/evidence.json")
    problems = json.loads(path.read_text())["problems"]
    assert len(problems) == int(during)
    for text in problems:
        assert re.match("olga accepted the journal as it was: entry 5 .* is missing.*: the former database burnt", text)


def test_a_lost_site_does_not_keep_a_person_from_accepting(bench: Bench) -> None:
    """Its older anchors count no more when it comes back."""
    delete_last(bench, 1)
    bench.clusters["primary"].away = True
    assert "Not anchored on primary" in accept_journal(accepting(bench), "olga", "the site is lost")
    bench.clusters["primary"].away = False
    with pytest.raises(AirflowFailException, match="acted"):
        act(bench)


def test_nobody_accepts_without_a_name_a_whole_chain_and_a_cluster(bench: Bench) -> None:
    """What is refused changes no anchor that counts."""
    delete_last(bench, 1)
    with pytest.raises(BadInput, match="Name or reason"):
        accept_journal(accepting(bench), " ", "x")
    for cluster in bench.clusters.values():
        cluster.anchors.takes = False
    with pytest.raises(SystemUnavailable, match="No cluster took the new anchor.*primary"):
        accept_journal(accepting(bench), "olga", "x")
    with pytest.raises(AirflowFailException, match="is another one"):
        act(bench)
    with database(bench) as base:
        base.execute("DELETE FROM entries WHERE sequence = 2")
    with pytest.raises(Contradiction, match="chain of hashes is broken"):
        accept_journal(accepting(bench), "olga", "x")


def delete_topic(topic: Any) -> None:
    """Delete all anchors."""
    topic.values.clear()


def fill_topic(topic: Any) -> None:
    """Put records of others in the place of the anchors."""
    topic.values[:] = [b"{}"]


@pytest.mark.parametrize("remove", [delete_topic, fill_topic])
def test_a_topic_without_its_anchors_is_named(bench: Bench, remove: Callable[[Any], None]) -> None:
    """The step goes on, and says that this cluster's anchors were not compared."""
    remove(bench.clusters["standby"].anchors)
    procedure = bench.procedure()
    procedure.anchors.refuse_contradicted_journal()
    assert list(procedure.anchors.unread) == ["standby"]
    assert "has no anchor of this journal that counts" in procedure.anchors.unread["standby"]


def test_a_run_of_another_pair_left_no_anchors_for_this_pair(make_bench: Callable[..., Bench]) -> None:
    """A cluster of two pairs has anchors of the pair that ran; nothing is missing when the other runs first."""
    made = make_bench()
    other = made.procedure("other")
    opened = {"dag_id": "planned_failover", "run_id": "other", "source": "primary", "target": "third", "reason": "r"}
    binding = {"clusters": {}, "topology_digest": "d", "addresses": {}}
    entry = {**opened, "triggered_at": other.now(), "request": opened, "binding": binding}
    other.journal.append("planned_failover-other", Step.OPEN_PROCEDURE, Entry.OPENED, 1, entry)
    procedure = made.procedure()
    procedure.anchors.refuse_contradicted_journal()
    assert procedure.anchors.unread == {}


def test_a_new_journal_misses_no_anchors(make_bench: Callable[..., Bench]) -> None:
    """The first run of a pair of clusters creates the topics, and nothing is missing."""
    made = make_bench()
    procedure = made.procedure()
    procedure.anchors.refuse_contradicted_journal()
    assert procedure.anchors.unread == {}
