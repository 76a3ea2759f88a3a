"""One unplanned failover on a lab: kill the source's broker and Connect worker with -9, go on, and judge."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import KafkaException

from lab.checker import UnplannedCheck, UnplannedObserved, Verdict
from lab.checker.readers import ClusterReader, Place
from lab.environment.connect import connector_config
from lab.rehearsal.planned import RESTART_SECONDS, SOURCE, TARGET, Rehearsal, wait_for, without_garbage_collection
from lab.workload import GroundTruth

#: As the product's topology has it where it says nothing.
SAMPLING_SECONDS = 10.0
SAMPLE_WAIT = 60.0
#: What is recorded of the flow from the source, in the archive.
FLOW = f"{SOURCE}-to-{TARGET}"
WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Accident:
    """How the source is lost.

    Args:
        after: seconds of load before it dies.
        kill_mirror_maker: kill MirrorMaker 2 with -9 before, so that the target has repeats.
        lag: seconds that replication is paused before, so that it lags when the source dies; 0 for replication that
            runs.
        offset_lag_max: of MirrorMaker 2's offset syncs; None leaves it as it is.
    """

    after: float = 5.0
    kill_mirror_maker: bool = False
    lag: float = 0.0
    offset_lag_max: int | None = None

    @classmethod
    def drawn(cls, number: int) -> Accident:
        """Draw an accident, the same per number; eight in a row cover repeats, lag and both settings of syncs.

        What MirrorMaker 2 fetches at once, a megabyte a partition, is mirrored also after the source is dead: a shorter
        pause would leave no lag.
        """
        rng = random.Random(number)
        return cls(
            rng.uniform(0.0, 12.0),
            bool(number & 1),
            rng.uniform(15.0, 25.0) if number & 2 else 0.0,
            0 if number & 4 else 100,
        )


class TargetWatch:
    """Measures the most records mirrored to each partition within some seconds; new topics are included."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader
        self._looks: list[tuple[float, dict[Place, int]]] = []

    @contextmanager
    def watching(self) -> Iterator[TargetWatch]:
        """Look once before the block runs, and again and again while it does."""
        self.look()
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()

    def take(self, at: float, ends: dict[Place, int]) -> None:
        """Take one look into account."""
        self._looks.append((at, ends))

    def most(self, seconds: float) -> dict[Place, int]:
        """Tell the most that any interval of so many seconds brought to each partition."""
        most: dict[Place, int] = defaultdict(int)
        within: deque[tuple[float, dict[Place, int]]] = deque()
        for at, ends in self._looks:
            within.append((at, ends))
            # One look from before the interval stays: records between two looks belong to every interval that touches
            # them.
            while len(within) > 1 and within[1][0] <= at - seconds:
                within.popleft()
            first = within[0][1]
            for place, end in ends.items():
                # What was not there at the beginning of the interval held nothing then.
                most[place] = max(most[place], end - first.get(place, 0))
        return most

    def look(self) -> None:
        """Look at every partition that the target has now; of its internal topics nobody asks."""
        counts = self._reader.partitions()
        self.take(
            time.monotonic(),
            self._reader.ends(
                [(topic, p) for topic, count in counts.items() if not topic.startswith("__") for p in range(count)]
            ),
        )

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(WATCH_SECONDS):
            try:
                self.look()
            except KafkaException:
                # The next look covers what this one missed.
                continue


def longest_sample(archive: Path, until: int) -> float:
    """Return how long one sample of a recorder's archive took at most, in seconds; 0 where none tells.

    Args:
        until: in milliseconds since 1970; a sample that ended later waited for a source that was dead.
    """
    took = [0]
    for path in archive.rglob("[!.]*.parquet"):
        try:
            rows = pq.read_table(
                path, columns=["at", "details"], filters=[("kind", "=", "sample")], partitioning=None
            ).to_pylist()
        except FileNotFoundError:
            # Merged meanwhile.
            continue
        spans = [(row["at"], json.loads(row["details"])["took_ms"]) for row in rows]
        took += [length for at, length in spans if at + length <= until]
    return max(took) / 1000


class LostSourceRehearsal(Rehearsal):
    """A workload whose source dies under load, one unplanned failover, and the judge."""

    dag_id = "unplanned_failover"

    def __init__(
        self,
        state: Path,
        folder: Path,
        seed: int,
        rate: int = 0,
        scale: float = 1.0,
        groups: int | None = None,
        recorded: bool = True,
        **load: Any,
    ) -> None:
        """As a planned rehearsal; `recorded` says that the flight recorder is expected to run."""
        super().__init__(state, folder, seed, rate, scale, groups, **load)
        self.died_at: int | None = None
        self._recorded = recorded
        self._watching = ExitStack()
        self._watch: TargetWatch
        self._most: Mapping[Place, int] | None = None

    def seed_topics(self) -> GroundTruth:
        """As in a planned rehearsal; also count from now on what is mirrored: most topics are mirrored only here."""
        self._watch = self._watching.enter_context(TargetWatch(ClusterReader(TARGET, self.status)).watching())
        return super().seed_topics()

    def lose_source(self, accident: Accident) -> None:
        """Start the load and cause the accident: on return, the source's broker and its Connect worker are dead."""
        self.suffer(accident)
        self._watching.close()
        # A sample takes a moment: by so much the looks of two samples at one partition may lie further apart than their
        # beginnings.
        if self._recorded:
            longest = longest_sample(self.lab.collected(self.lab.archive / FLOW), self.died_at)  # type: ignore[arg-type]  # suffer() set it
            self._most = self._watch.most(SAMPLING_SECONDS + longest)

    def suffer(self, accident: Accident) -> None:
        """The same where nobody asks how much was mirrored at a time."""
        if accident.offset_lag_max is not None:
            self.set_offset_lag_max(accident.offset_lag_max)
        self.start_load()
        if accident.kill_mirror_maker:
            self.restart_mirror_maker()
        if self._recorded:
            self.await_samples()
        time.sleep(accident.after)
        if accident.lag:
            self.hold_replication_back(accident.lag)
        self.kill_source()
        self.await_rest()

    def kill_source(self) -> None:
        """Kill the source's broker and the Connect worker beside it with -9, and wait until they are gone."""
        self.kill_cluster(self.source)
        self.died_at = int(time.time() * 1000)

    def kill_cluster(self, alias: str) -> None:
        """The same of either cluster."""
        self.kill(f"broker-{alias}", f"connect-{alias}")

    def await_rest(self) -> None:
        """Wait until what was on its way when the source died has arrived."""
        mirrored = self.mirrored_counter()

        def at_rest() -> bool:
            before = mirrored()
            time.sleep(2 * WATCH_SECONDS)
            return mirrored() == before

        if not wait_for(at_rest, RESTART_SECONDS):
            raise TimeoutError(f"MirrorMaker 2 still mirrors {RESTART_SECONDS:.0f} s after {self.source} died")

    def bring_source_back(self) -> None:
        """Start the source's broker again on the log that it left; nothing that writes or reads runs any more."""
        self.stop()
        self.start_again(f"broker-{self.source}")

    def await_samples(self) -> None:
        """Wait until the recorder has written twice: the second sample was begun after this was called."""
        for _ in range(2):
            if not wait_for(partial(self._has_sample_after, self._newest_sample()), SAMPLE_WAIT):
                raise TimeoutError(f"the recorder wrote nothing under {self.lab.archive} within {SAMPLE_WAIT:.0f} s")

    def set_offset_lag_max(self, records: int) -> None:
        """Set MirrorMaker 2's `offset.lag.max`, and wait until its tasks have it."""
        config = connector_config(self.lab, self.source, self.target, "source") | {"offset.lag.max": str(records)}
        self._connector("PUT", "config", config).raise_for_status()

        def told() -> bool:
            answer = self._connector("GET", "tasks")
            tasks = answer.json() if answer.ok else []
            return bool(tasks) and all(task["config"].get("offset.lag.max") == str(records) for task in tasks)

        if not wait_for(told, RESTART_SECONDS):
            raise TimeoutError(
                f"MirrorMaker 2's tasks are not told offset.lag.max={records} after {RESTART_SECONDS:.0f} s"
            )
        self.await_state("RUNNING")

    def pause_replication(self) -> None:
        """Have MirrorMaker 2 mirror nothing any more, and wait until it stands."""
        self._ask("pause")
        self.await_state("PAUSED")

    def hold_replication_back(self, seconds: float) -> None:
        """Pause replication, then let it go on: it lags when this returns."""
        self.pause_replication()
        time.sleep(seconds)
        self._ask("resume")
        mirrored = self.mirrored_counter()
        before = mirrored()
        if not wait_for(lambda: mirrored() > before, RESTART_SECONDS):
            raise TimeoutError(f"MirrorMaker 2 mirrored nothing within {RESTART_SECONDS:.0f} s after it was resumed")

    def kill_source_held_back(self, seconds: float) -> None:
        """Pause replication, then kill the source: what the recorder saw it take meanwhile is certainly lost.

        Args:
            seconds: of load beyond what the recorder needs to see that the source is ahead.
        """
        self.pause_replication()
        time.sleep(seconds)
        self.await_samples()
        self.kill_source()

    def judge_of(self, evidence: Mapping[str, Any], approver: str | None) -> UnplannedCheck:
        """Return the judge of this rehearsal; load and clients are stopped."""
        facts = {"died_at": self.died_at, "recorded": self._recorded, "mirrored_in_interval": self._most}
        trip = self._trip(evidence, approver, self.truth.positions, **facts)
        return UnplannedCheck(UnplannedObserved(self.make_ledger(), trip, self.status))

    def judge_returned(self, evidence: Mapping[str, Any], stranded: Path) -> Verdict:
        """Hold a list of stranded records against the source that is back.

        Args:
            evidence: of the failover, whose boundary tells what was mirrored.
            stranded: a folder that holds `stranded/*.parquet` and `loss.parquet`.
        """
        with without_garbage_collection():
            verdict = self.judge_of(evidence, None).judge_returned(stranded)
        (self.folder / f"verdict-returned-{self.seed}.json").write_text(
            json.dumps(verdict.document(), indent=1), encoding="utf-8"
        )
        return verdict

    def stop(self) -> None:
        """Stop load, clients and the counting; may be called again."""
        super().stop()
        self._watching.close()

    def _has_sample_after(self, moment: float) -> bool:
        return self._newest_sample() > moment

    def _newest_sample(self) -> float:
        times = []
        # Samples are named by the time of day: one that is being written aside, or a merged one, is no new sample.
        for path in self.lab.collected(self.lab.archive / FLOW).rglob("[0-9]*.parquet"):
            try:
                times.append(path.stat().st_mtime)
            except FileNotFoundError:
                # Merged meanwhile.
                continue
        return max(times, default=0.0)

    def _ask(self, what: str) -> None:
        self._connector("PUT", what).raise_for_status()


def rehearse_lost_source(
    state: Path,
    folder: Path,
    seed: int,
    rate: int,
    accident: Accident,
    stranded: Callable[[LostSourceRehearsal], Path] | None = None,
    recorded: bool = True,
    scale: float = 1.0,
    groups: int | None = None,
    load_topics: Mapping[str, int] | None = None,
    **params: Any,
) -> tuple[Verdict, Path]:
    """A whole rehearsal on a lab that is up: workload, clients, load, accident, failover, verdict.

    Args:
        accident: how the source is lost.
        stranded: called once the source is back, it answers where the list of stranded records is; None does not bring
            the source back.
        recorded: the flight recorder is expected to run.
        scale: factor on the workload's size.
        groups: how many groups at most, besides those of clients and load.
        load_topics: what the load writes to, and how many partitions each has; two topics with ten by default.
        params: of the run, beside source, target and reason.

    Returns:
        The verdict, and the procedure's evidence folder.
    """
    rehearsal = LostSourceRehearsal(state, folder, seed, rate, scale, groups, recorded, load_topics=load_topics)
    try:
        rehearsal.seed_topics()
        rehearsal.start_clients()
        rehearsal.lose_source(accident)
        verdict = rehearsal.conclude("approver", **params)
        evidence_folder, evidence = rehearsal.evidence()
        if stranded is not None and evidence["outcome"] == "completed":
            rehearsal.bring_source_back()
            returned = rehearsal.judge_returned(evidence, stranded(rehearsal))
            verdict.add(returned.findings, **returned.figures)
        return verdict, evidence_folder
    finally:
        rehearsal.stop()
