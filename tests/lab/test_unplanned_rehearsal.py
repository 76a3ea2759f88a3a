"""The parts of an unplanned rehearsal that need no lab: what is killed, what is counted, what is shown."""

from __future__ import annotations

import json
import os
import threading
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaException
from rich.console import Console

from lab.checker import UnplannedCheck
from lab.demo.__main__ import DEMOS, main
from lab.demo.failback import FailbackDemo
from lab.demo.lost_source import LostSourceDemo
from lab.demo.showing import loss_table, rereads_table
from lab.environment.bring_up import _new_record
from lab.environment.processes import ProcessTable
from lab.environment.state import LabRecord
from lab.rehearsal import unplanned as lost_source_rehearsal
from lab.rehearsal.planned import Rehearsal
from lab.rehearsal.unplanned import Accident, LostSourceRehearsal, TargetWatch, longest_sample

PLACE = ("orders", 0)
NAMES = ("broker-primary", "connect-primary", "broker-standby", "connect-standby")


class Sleepers:
    """A lab whose processes only sleep."""

    def __init__(self, folder: Path) -> None:
        self.root, self.archive = folder, folder / "archive"
        self.processes = ProcessTable(folder / "processes", folder / "logs", marker=str(folder))
        for name in NAMES:
            self.processes.start(name, ["sleep", "600"], {}, folder)

    def load(self) -> LabRecord:
        """The record of a small lab."""
        return _new_record("identity", "read_uncommitted")

    def collected(self, folder: Path) -> Path:
        """Everything is there."""
        return folder

    def status(self) -> dict[str, Any]:
        """What a lab tells of itself, as far as it is asked here."""
        pids = {
            alias: {kind: self.processes.pid(f"{kind}-{alias}") for kind in ("broker", "connect")}
            for alias in ("primary", "standby")
        }
        return {
            "clusters": {alias: {"pids": found} for alias, found in pids.items()},
            "policy": "identity",
            "evidence": str(self.root / "evidence"),
        }


@pytest.fixture
def rehearsal(tmp_path: Path) -> Any:
    """A rehearsal on sleeping processes."""
    lab = Sleepers(tmp_path)
    rehearsal = LostSourceRehearsal(tmp_path, tmp_path / "rehearsal", 1)
    rehearsal.lab = lab  # type: ignore[assignment]
    yield rehearsal
    lab.processes.stop(0.0)


def test_the_sources_broker_and_worker_die_and_nobody_else(rehearsal: LostSourceRehearsal) -> None:
    """Killed with -9, gone when it is said so, and the moment is kept."""
    rehearsal.kill_source()
    alive = {name for name in NAMES if rehearsal.lab.processes.pid(name)}
    assert alive == {"broker-standby", "connect-standby"}
    assert rehearsal.died_at is not None


def test_the_case_holds_what_is_known_of_the_death(rehearsal: LostSourceRehearsal) -> None:
    """The check of an unplanned rehearsal is the one that does without the source."""
    rehearsal.died_at = 7
    check = rehearsal.checker_for({"procedure_id": "p"}, "approver")
    assert isinstance(check, UnplannedCheck)
    found = (check.trip.died_at, check.trip.approver, check.trip.recorded, check.trip.folder.name)
    assert found == (7, "approver", True, "p")


def test_samples_of_the_flow_itself_are_waited_for(rehearsal: LostSourceRehearsal) -> None:
    """What is kept of the way back is no sample of the source, nor is a file that is being written, or a merged one."""
    names = (
        "standby-to-primary/hour/2.parquet",
        "primary-to-standby/hour/1.parquet",
        "primary-to-standby/hour/.writing-2.parquet",
        "primary-to-standby/hour/merged-1.parquet",
    )
    for age, name in enumerate(reversed(names)):
        path = rehearsal.lab.archive / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1000 - age, 1000 - age))
    assert rehearsal._newest_sample() == 998


def test_the_most_that_was_mirrored_in_an_interval() -> None:
    """Growth between looks, over the interval and not over the whole time."""
    watch = TargetWatch(None)  # type: ignore[arg-type]
    for at, end in enumerate([0, 10, 20, 100, 110, 120, 130]):
        watch.take(float(at), {PLACE: end})
    assert watch.most(2.0) == {PLACE: 90}
    assert watch.most(1.0) == {PLACE: 80}


def test_the_longest_sample_is_one_that_the_source_lived_to_see_the_end_of(tmp_path: Path) -> None:
    """A sample that waits for a source that died is no measure of an interval, nor is an unfinished one."""
    rows = [
        ("sample", 1_000, {"took_ms": 900}),
        ("partition", 1_000, None),
        ("sample", 11_000, {"took_ms": 1_500}),
        ("sample", 20_000, {"took_ms": 6_000}),
    ]
    table = pa.table(
        {
            "kind": [kind for kind, _, _ in rows],
            "at": [at for _, at, _ in rows],
            "details": [details and json.dumps(details) for _, _, details in rows],
        }
    )
    (tmp_path / "hour").mkdir()
    pq.write_table(table, tmp_path / "hour" / "1.parquet")
    (tmp_path / "hour" / ".writing-2.parquet").write_text("half")
    assert longest_sample(tmp_path, 25_000) == 1.5
    assert longest_sample(tmp_path, 26_000) == 6.0
    assert longest_sample(tmp_path / "nothing", 26_000) == 0.0


def test_a_source_that_dies_while_replication_is_held_back(
    rehearsal: LostSourceRehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paused first, seen by the recorder, and then killed; nobody lets replication go on."""
    done: list[str] = []
    monkeypatch.setattr(rehearsal, "_ask", done.append)
    monkeypatch.setattr(rehearsal, "await_state", done.append)
    monkeypatch.setattr(
        rehearsal,
        "await_samples",
        lambda: done.append("sampled, " + ("alive" if rehearsal.died_at is None else "dead")),
    )
    rehearsal.kill_source_held_back(0.0)
    assert (done, rehearsal.died_at is None) == (["pause", "PAUSED", "sampled, alive"], False)


class Target:
    """A target whose topics are made while it is watched; a partition that is not there cannot be asked."""

    def __init__(self) -> None:
        self.counts, self.log_ends, self.away = {"old": 1, "__consumer_offsets": 1}, {("old", 0): 500}, False

    def partitions(self) -> dict[str, int]:
        """The topics now."""
        if self.away:
            raise KafkaException("no answer")
        return dict(self.counts)

    def ends(self, places: Any) -> dict[Any, int]:
        """Their ends."""
        return {place: self.log_ends[place] for place in places}

    def mirror(self, topic: str, records: int) -> None:
        """A topic appears with its records, as when its first look comes late."""
        self.counts[topic], self.log_ends[topic, 0] = 1, records


def test_topics_that_are_made_while_it_is_watched_count_from_their_beginning() -> None:
    """Of a topic that is seeded once, all was mirrored in one interval; what stood before does not count."""
    target = Target()
    watch = TargetWatch(target)  # type: ignore[arg-type]
    watch.look()
    target.mirror("static", 300)
    watch.look()
    assert watch.most(1000.0) == {("old", 0): 0, ("static", 0): 300}


def test_seeding_is_watched_until_the_source_is_lost(
    rehearsal: LostSourceRehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is mirrored while topics are seeded counts, and a look that failed voids no other."""
    target = Target()
    monkeypatch.setattr(lost_source_rehearsal, "ClusterReader", lambda alias, status: target)
    monkeypatch.setattr(lost_source_rehearsal, "WATCH_SECONDS", 0.01)

    def seeded(_: Rehearsal) -> None:
        target.away = True
        time.sleep(0.05)
        target.mirror("static", 300)
        target.away = False

    monkeypatch.setattr(Rehearsal, "seed_topics", seeded)
    monkeypatch.setattr(rehearsal, "await_samples", lambda: None)
    monkeypatch.setattr(rehearsal, "mirrored_counter", lambda: lambda: 300)
    before = threading.active_count()
    rehearsal.seed_topics()
    rehearsal.lose_source(Accident(after=0.1))
    found = rehearsal.checker_for({"procedure_id": "p"}, None).trip.mirrored_in_interval
    assert found == {("old", 0): 0, ("static", 0): 300}
    assert threading.active_count() == before


def test_accidents_are_drawn_from_a_number() -> None:
    """Ten numbers give ten moments; the first eight combine settings of the syncs, lag and repeats."""
    drawn = [Accident.drawn(number) for number in range(10)]
    assert drawn == [Accident.drawn(number) for number in range(10)]
    assert len({accident.after for accident in drawn}) == 10
    assert (
        len({(accident.offset_lag_max, accident.kill_mirror_maker, bool(accident.lag)) for accident in drawn[:8]}) == 8
    )


def test_what_is_on_its_way_when_the_source_dies_is_waited_for(
    rehearsal: LostSourceRehearsal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted until nothing more arrives; a MirrorMaker 2 that never comes to rest is named."""
    monkeypatch.setattr(lost_source_rehearsal, "WATCH_SECONDS", 0.01)
    counts = iter([1, 5, 5, 8, 8, 8])
    monkeypatch.setattr(rehearsal, "mirrored_counter", lambda: lambda: next(counts))
    rehearsal.await_rest()
    assert next(counts, None) is None
    monkeypatch.setattr(lost_source_rehearsal, "RESTART_SECONDS", 0.1)
    monkeypatch.setattr(rehearsal, "mirrored_counter", lambda: time.monotonic)
    with pytest.raises(TimeoutError, match="still mirrors"):
        rehearsal.await_rest()


def text(table: Any) -> str:
    """Return a table as a plain log shows it."""
    shown = StringIO()
    Console(file=shown, width=140, force_terminal=False).print(table)
    return shown.getvalue()


def test_the_demo_shows_what_was_foretold_to_be_lost() -> None:
    """Open ends are told as such, whatever the numbers look like."""
    loss = [
        {"topic": "orders", "partition": 0, "from_offset": 40, "certain_to": 62.0, "possible_to": None},
        {"topic": "orders", "partition": 1, "from_offset": 4, "certain_to": None, "possible_to": 9},
    ]
    shown = text(
        loss_table(
            {"loss": loss, "plan": {"inventory": {"certain": 22, "possible": None, "records_per_second": 12345678.5}}}
        )
    )
    assert [word in shown for word in ("orders-0", "40", "62 ", "no bound", "none", "22", "unknown", "12345678.5")] == [
        True
    ] * 8


def test_the_demo_shows_both_bounds_beside_each_other() -> None:
    """Ours and MirrorMaker 2's own, by group, names as they are."""
    figures = {
        "rereads_by_group": [{"group": "[red]x", "bound": None, "mirror_maker": 900}],
        "bound": 12,
        "mirror_maker_bound": 512,
        "mirror_maker_missing": 3,
    }
    shown = text(rereads_table({"steps": [{"id": "translate_offsets", "figures": figures}]}))
    assert [word in shown for word in ("[red]x", "no bound", "900", "12", "512", "3")] == [True] * 6


def test_evidence_of_a_refused_run_can_be_shown() -> None:
    """Nothing was assessed, nothing translated."""
    assert "unknown" in text(loss_table({"plan": None, "loss": []}))
    assert "no bound" in text(rereads_table({"steps": []}))


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["sideways"], {}),
        (["unplanned", "more"], {}),
        (["unplanned"], {"TAMPER": "group"}),
        (["unplanned"], {"APPROVE": "no"}),
    ],
)
def test_bad_values_are_refused_before_anything_starts(
    arguments: list[str],
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both demos refuse alike."""
    for name in ("TAMPER", "APPROVE"):
        monkeypatch.setenv(name, environment.get(name, ""))
    assert main(arguments) == 2
    assert "is unknown" in capsys.readouterr().err
    assert (DEMOS["unplanned"], DEMOS["failback"]) == (LostSourceDemo, FailbackDemo)
