"""A reader without a group keeps its own positions; translated by the command, it goes on where clients go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.checker.readers import ClusterReader
from lab.environment.state import Lab
from lab.rehearsal.planned import Rehearsal
from tests.faults.support.lost_scene import lost_scene
from tests.faults.support.stepping import Run, stepping
from tests.support.lab_clients import mirrored, new_topic
from tests.support.readers.keeping_reader import KeepingReader, WrittenRecords, translated_by_command
from tests.support.rehearsals import SEED, kept_if_it_fails

PARAMS = {"source": "primary", "target": "standby", "reason": "readers with positions of their own"}
#: How far the reader had got, by partition, as a share of what was written after the last repeat.
READ = {0: 0.5, 1: 1.0, 2: 0.1}
WRITTEN, MOST_KILLS = 3_000, 5


def with_repeats(made: Rehearsal, written: WrittenRecords, remote: str) -> dict[int, int]:
    """Write records and kill MirrorMaker 2 until the standby holds repeats; return the standby's log ends."""
    for _ in range(MOST_KILLS):
        written.write("primary", WRITTEN)
        made.kill("connect-standby")
        made.start_again("connect-standby")
        made.await_state("RUNNING", 2.0)
        ends = written.await_copies(remote, {p: len(ids) for p, ids in written.ids.items()})
        if any(ends[p] > len(ids) for p, ids in written.ids.items()):
            return ends
    raise AssertionError("MirrorMaker 2 was killed, and repeated nothing")


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_each_record_once_across_a_planned_failover(
    policy: str, fresh_lab: Callable[..., Path], tmp_path: Path
) -> None:
    """During the procedure and after clients have written on the target: the same offsets, and every id once."""
    lab = Lab(fresh_lab(policy, airflow=False))
    with kept_if_it_fails(lab.root, tmp_path), stepping(lab, tmp_path / "s") as driver:
        made = Rehearsal(lab.root, tmp_path / "r", SEED, scale=0.05, groups=4)
        made.seed_topics()
        written = WrittenRecords(lab, new_topic(lab, "primary"))
        topic, remote = written.topic, mirrored(lab, written.topic)
        ends = with_repeats(made, written, remote)
        before = {p: len(ids) for p, ids in written.ids.items()}
        print(f"repeats by partition: { {p: ends[p] - count for p, count in before.items()} }", flush=True)
        written.write("primary", WRITTEN)
        written.await_copies(remote, ends)
        reader = KeepingReader(lab)
        reader.read_on(
            "primary",
            {(topic, p): 0 for p in before},
            {(topic, p): count + int(READ[p] * WRITTEN) for p, count in before.items()},
        )
        reader.save(tmp_path / "savepoint.json")

        run = Run(PARAMS)
        assert driver.forward(run, until="translate_offsets"), run.texts
        code, rows = translated_by_command(lab, run.procedure_id, tmp_path / "savepoint.json", tmp_path / "during.json")
        assert code == 0 and all(row["exact"] and row["bound"] == 0 for row in rows), rows
        evidence = driver.whole(run, after="translate_offsets")
        assert evidence["outcome"] == "completed", evidence["reason_for_outcome"]
        written.write("standby", WRITTEN)
        later = translated_by_command(lab, run.procedure_id, tmp_path / "savepoint.json", tmp_path / "later.json")
        assert later == (0, rows), "clients that write on the target changed the answer"
        print([(row["partition"], row["offset"], row["target_offset"], row["class"]) for row in rows], flush=True)

        begin = {(row["target_topic"], row["partition"]): row["target_offset"] for row in rows}
        assert [row["partition"] for row in rows] == list(before) and {row["target_topic"] for row in rows} == {remote}
        assert any(row["target_offset"] != row["offset"] for row in rows), "the repeats moved no offset"
        # Under default naming clients go on writing to the topic's own name, which readers read from its beginning.
        begin |= {(topic, p): 0 for p in before if remote != topic}
        reader.read_on("standby", begin, ClusterReader("standby", lab.status()).ends(list(begin)))
        assert reader.seen == Counter(id_ for ids in written.ids.values() for id_ in ids), "lost, or read again"


def test_never_ahead_and_within_the_bound_after_the_source_died(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """Judged by ids: all that the target has and the reader had not read is read; no more is read again than said."""
    with lost_scene(fresh_lab("identity", airflow=False), tmp_path, rate=500, clients=False) as scene:
        lab, reader = scene.lab, KeepingReader(scene.lab)
        written: list[WrittenRecords] = []

        def read_some() -> None:
            made = WrittenRecords(lab, new_topic(lab, "primary"))
            written.append(made)
            with_repeats(scene.rehearsal, made, made.topic)
            scene.rehearsal.await_samples()
            made.write("primary", WRITTEN)
            counts = {p: len(ids) - WRITTEN + int(READ[p] * WRITTEN) for p, ids in made.ids.items()}
            begin = {(made.topic, p): 0 for p in counts}
            reader.read_on("primary", begin, {(made.topic, p): count for p, count in counts.items()})
            reader.save(tmp_path / "savepoint.json")

        scene.put_under_load(meanwhile=read_some)
        scene.rehearsal.kill_source()
        run = scene.run()
        evidence = scene.completed(run)
        code, rows = translated_by_command(lab, run.procedure_id, tmp_path / "savepoint.json", tmp_path / "out.json")
        assert code == 0 and len(rows) == len(READ), rows
        boundary = {(one["topic"], one["partition"]): one["offset"] for one in evidence["boundary"]}
        had, topic = Counter(reader.seen), written[0].topic
        begin = {(topic, row["partition"]): row["target_offset"] for row in rows}
        reader.read_on("standby", begin, {place: boundary[place] for place in begin})
        whole = KeepingReader(lab)
        whole.read_on("standby", dict.fromkeys(begin, 0), {place: boundary[place] for place in begin})
        assert set(whole.seen) <= set(reader.seen), "a record of the target was skipped"
        for row in rows:
            own = f"{row['partition']}/"
            again = sum(n for id_, n in (reader.seen - had).items() if id_.startswith(own) and id_ in had)
            print(f"{own[:-1]}: {row['class']}, bound {row['bound']}, read again {again}", flush=True)
            assert again <= row["bound"] and row["bound"] is not None
