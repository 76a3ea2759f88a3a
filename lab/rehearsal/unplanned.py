"""Run one unplanned failover on a lab: kill the source's broker and Connect worker with -9, fail over, check.

The load is a set of producers that ignore the drain hook and the routing record; clients are the demo application.
"""

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

from lab.checker import CheckResult, UnplannedCheck, UnplannedObserved
from lab.checker.readers import ClusterReader, Place
from lab.environment.connect import connector_config
from lab.rehearsal.planned import RESTART_SECONDS, SOURCE, TARGET, Rehearsal, wait_for, without_garbage_collection
from lab.workload import GroundTruth

#: The flight recorder's default sampling interval, in seconds.
SAMPLING_SECONDS = 10.0
SAMPLE_WAIT = 60.0
#: Folder of the flow's samples in the flight recorder's archive.
FLOW = f"{SOURCE}-to-{TARGET}"
WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Accident:
    """How the source is lost.

    Args:
        after: seconds of load before the source is killed.
        kill_mirror_maker: kill and restart MirrorMaker 2 before the source is killed, so that the target has repeats.
        lag: seconds for which replication is paused just before the kill, so that replication then lags; 0: no pause.
        offset_lag_max: MirrorMaker 2's `offset.lag.max`; None: the setting is not changed.
    """

    after: float = 5.0
    kill_mirror_maker: bool = False
    lag: float = 0.0
    offset_lag_max: int | None = None

    @classmethod
    def drawn(cls, number: int) -> Accident:
        """Draw an accident: always the same for the same number; eight numbers in a row cover all combinations.

        The combinations are with and without repeats, with and without lag, `offset.lag.max` 0 and 100. A lag is a
        pause of 15 to 25 seconds: MirrorMaker 2 mirrors records that it has fetched, up to 1 MB per partition, even
        after the source was killed, and would so mirror all records of a shorter pause.
        """
        rng = random.Random(number)
        return cls(
            rng.uniform(0.0, 12.0),
            bool(number & 1),
            rng.uniform(15.0, 25.0) if number & 2 else 0.0,
            0 if number & 4 else 100,
        )


class TargetWatch:
    """Reads the target's log ends repeatedly, to find the most records mirrored to each partition in an interval."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader
        self._readings: list[tuple[float, dict[Place, int]]] = []

    @contextmanager
    def watching(self) -> Iterator[TargetWatch]:
        """Yield this object; read the target's log ends once before the block, and every half second in the block."""
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
        """Add one reading of the target's log ends, which was made at `at` (seconds of the monotonic clock)."""
        self._readings.append((at, ends))

    def most(self, seconds: float) -> dict[Place, int]:
        """Return, by (topic, partition) on the target, the most records mirrored in any interval of `seconds`."""
        most: dict[Place, int] = defaultdict(int)
        window: deque[tuple[float, dict[Place, int]]] = deque()
        for at, ends in self._readings:
            window.append((at, ends))
            # The last reading from before the interval counts, too: records mirrored between two readings count in
            # every interval that overlaps with the time between these readings.
            while len(window) > 1 and window[1][0] <= at - seconds:
                window.popleft()
            ends_before = window[0][1]
            for place, end in ends.items():
                # A partition that is not in the first reading did not exist at that time.
                most[place] = max(most[place], end - ends_before.get(place, 0))
        return most

    def look(self) -> None:
        """Read and store the log ends of all partitions that the target has now, except of topics named `__...`."""
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
                # The next reading includes what was mirrored in the meantime.
                continue


def longest_sample(archive: Path, until: int) -> float:
    """Return how long the longest sample in a flight recorder's archive took, in seconds; 0 without samples.

    Args:
        archive: folder of one flow's samples in the archive.
        until: milliseconds since 1970; samples that ended later waited for a killed source, and do not count.
    """
    durations = [0]
    for path in archive.rglob("[!.]*.parquet"):
        try:
            rows = pq.read_table(
                path, columns=["at", "details"], filters=[("kind", "=", "sample")], partitioning=None
            ).to_pylist()
        except FileNotFoundError:
            # The recorder has merged the file.
            continue
        samples = [(row["at"], json.loads(row["details"])["took_ms"]) for row in rows]
        durations += [duration for at, duration in samples if at + duration <= until]
    return max(durations) / 1000


class LostSourceRehearsal(Rehearsal):
    """Creates a workload, kills the source under load, runs one unplanned failover, and checks the result.

    Args:
        state: folder of a lab that is up.
        folder: folder for the rehearsal's files.
        seed: seed of topics, records and groups.
        rate: records per second of producers that ignore the drain hook; 0: no load.
        scale: factor on the workload's size.
        groups: maximum number of the workload's groups; None: all groups.
        recorded: True: a flight recorder runs; its samples are awaited before the source is killed, and the check
            requires the positions in them. False: no recorder runs.
        load: `load_topics`: partition counts of the load's topics by name; absent or None: two topics with names from
            the seed.
    """

    dag_id = "unplanned_failover"

    def __init__(
        self, state: Path, folder: Path, seed: int, rate: int = 0, scale: float = 1.0, groups: int | None = None,
        recorded: bool = True, **load: Any,
    ) -> None:  # fmt: skip
        super().__init__(state, folder, seed, rate, scale, groups, **load)
        self.died_at: int | None = None
        self._recorded = recorded
        self._watching = ExitStack()
        self._watch: TargetWatch
        self._most: Mapping[Place, int] | None = None

    @property
    def both_run(self) -> bool:
        """Whether the flow from target to source runs throughout, as the lab's layout has it."""
        return self.lab.load().layout.always

    def seed_topics(self) -> GroundTruth:
        """Create topics, records and groups on the source; return the ground truth.

        Before that, start to count mirrored records, because MirrorMaker 2 mirrors the first records at once.
        """
        self._watch = self._watching.enter_context(TargetWatch(ClusterReader(TARGET, self.status)).watching())
        return super().seed_topics()

    def lose_source(self, accident: Accident) -> None:
        """Start the load, kill the source as `accident` says, and wait until MirrorMaker 2 mirrors no more.

        With a flight recorder, also store the most records mirrored to each target partition in a sampling interval.
        """
        self.suffer(accident)
        self._watching.close()
        # A sample takes time: two readings of a partition may be apart by the sampling interval and the duration of a
        # sample.
        if self._recorded:
            longest = longest_sample(self.lab.collected(self.lab.archive / FLOW), self.died_at)  # type: ignore[arg-type]  # suffer() set it
            self._most = self._watch.most(SAMPLING_SECONDS + longest)

    def suffer(self, accident: Accident) -> None:
        """Start the load, prepare the loss as `accident` says, and kill the source's broker and Connect worker.

        Return when MirrorMaker 2 has mirrored all records that it had fetched.
        """
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
        """Kill the source's broker and Connect worker with -9, wait for the ends of both, and set `died_at`.

        `died_at` is a time after these ends, in milliseconds since 1970.
        """
        self.kill_cluster(self.source)
        self.died_at = int(time.time() * 1000)

    def kill_cluster(self, alias: str) -> None:
        """Kill a cluster's broker and Connect worker with -9, and wait for the ends of both processes."""
        self.kill(f"broker-{alias}", f"connect-{alias}")

    def await_rest(self) -> None:
        """Wait until MirrorMaker 2 has mirrored the records that it had fetched before the source was killed."""
        mirrored = self.mirrored_counter()

        def at_rest() -> bool:
            before = mirrored()
            time.sleep(2 * WATCH_SECONDS)
            return mirrored() == before

        if not wait_for(at_rest, RESTART_SECONDS):
            raise TimeoutError(
                f"MirrorMaker 2 still mirrors {RESTART_SECONDS:.0f} s after {self.source} was killed; read the log of"
                f" connect-{self.target}"
            )

    def bring_source_back(self) -> None:
        """Stop load and clients, and start the killed source's broker again on its old logs."""
        self.stop()
        self.start_again(f"broker-{self.source}")

    def await_samples(self) -> None:
        """Wait until the flight recorder has written two samples, the second of which was begun after this call."""
        for _ in range(2):
            if not wait_for(partial(self._has_sample_after, self._newest_sample()), SAMPLE_WAIT):
                raise TimeoutError(
                    f"the flight recorder wrote no sample under {self.lab.archive} within {SAMPLE_WAIT:.0f} s; start"
                    " the recorder, or read the recorder's log"
                )

    def set_offset_lag_max(self, records: int) -> None:
        """Set MirrorMaker 2's `offset.lag.max`, and wait until all tasks of the source connector have this setting."""
        config = connector_config(self.lab, self.source, self.target, "source") | {"offset.lag.max": str(records)}
        self._connector("PUT", "config", config).raise_for_status()

        def has_setting() -> bool:
            answer = self._connector("GET", "tasks")
            tasks = answer.json() if answer.ok else []
            return bool(tasks) and all(task["config"].get("offset.lag.max") == str(records) for task in tasks)

        if not wait_for(has_setting, RESTART_SECONDS):
            raise TimeoutError(
                f"MirrorMaker 2's tasks do not have offset.lag.max={records} after {RESTART_SECONDS:.0f} s; read the"
                f" log of connect-{self.target}"
            )
        self.await_state("RUNNING")

    def pause_replication(self) -> None:
        """Pause MirrorMaker 2's source connector, and wait until the connector and its tasks are PAUSED."""
        self._ask("pause")
        self.await_state("PAUSED")

    def hold_replication_back(self, seconds: float) -> None:
        """Pause replication for `seconds`, resume replication, and wait for the first mirrored records.

        Replication then lags behind the load.
        """
        self.pause_replication()
        time.sleep(seconds)
        self._ask("resume")
        mirrored = self.mirrored_counter()
        before = mirrored()
        if not wait_for(lambda: mirrored() > before, RESTART_SECONDS):
            raise TimeoutError(
                f"MirrorMaker 2 mirrored nothing within {RESTART_SECONDS:.0f} s after its source connector was resumed;"
                f" read the log of connect-{self.target}"
            )

    def kill_source_held_back(self, seconds: float) -> None:
        """Pause replication, wait for samples and kill the source, so that records from the pause are certainly lost.

        Args:
            seconds: seconds of load during the pause, before the wait for two more samples.
        """
        self.pause_replication()
        time.sleep(seconds)
        self.await_samples()
        self.kill_source()

    def checker_for(self, evidence: Mapping[str, Any], approver: str | None) -> UnplannedCheck:
        """Return the check of this rehearsal's failover; load and clients must be stopped before the check runs."""
        facts = {"died_at": self.died_at, "recorded": self._recorded, "mirrored_in_interval": self._most}
        trip = self._trip(evidence, approver, self.truth.positions, **facts)
        return UnplannedCheck(UnplannedObserved(self.make_ledger(), trip, self.status))

    def check_returned(self, evidence: Mapping[str, Any], stranded: Path) -> CheckResult:
        """Compare a list of stranded records with the source, which must be up again; return the check's result.

        Args:
            evidence: evidence of the failover; target records below its boundary count as mirrored.
            stranded: folder of the list, `stranded/*.parquet`; it may have `loss.parquet`, recomputed loss rows.
        """
        with without_garbage_collection():
            verdict = self.checker_for(evidence, None).check_returned(stranded)
        (self.folder / f"verdict-returned-{self.seed}.json").write_text(
            json.dumps(verdict.document(), indent=1), encoding="utf-8"
        )
        return verdict

    def stop(self) -> None:
        """Stop load, clients and the count of mirrored records; do nothing if all these are stopped."""
        super().stop()
        self._watching.close()

    def _has_sample_after(self, moment: float) -> bool:
        return self._newest_sample() > moment

    def _newest_sample(self) -> float:
        times = []
        # Only samples have names that begin with digits (the time of day): temporary and merged files do not count.
        for path in self.lab.collected(self.lab.archive / FLOW).rglob("[0-9]*.parquet"):
            try:
                times.append(path.stat().st_mtime)
            except FileNotFoundError:
                # The recorder has merged the file.
                continue
        return max(times, default=0.0)

    def _ask(self, action: str) -> None:
        self._connector("PUT", action).raise_for_status()


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
) -> tuple[CheckResult, Path]:
    """Run a whole rehearsal of an unplanned failover on a running lab, from the workload to the check.

    Args:
        accident: how the source is lost.
        stranded: called once the source has been started again; returns the folder with the list of stranded records.
            None: the source is not started again.
        recorded: True: a flight recorder runs; its samples are awaited before the source is killed, and the check
            requires the positions in them. False: no recorder runs.
        scale: factor on the workload's size.
        groups: maximum number of the workload's groups (clients and load have further groups); None for all.
        load_topics: partition counts of the load's topics by name; None: two topics with ten partitions together.
        params: further params of the run.

    Returns:
        The checker's result, and the procedure's evidence folder.
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
            returned = rehearsal.check_returned(evidence, stranded(rehearsal))
            verdict.add(returned.findings, **returned.figures)
        return verdict, evidence_folder
    finally:
        rehearsal.stop()
