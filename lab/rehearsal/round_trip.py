"""Round trips of clients on a lab: failover (planned, or after a loss of the source) and failback, checked."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lab.checker import CheckResult, Finding, Ledger, Names, RoundTripCheck, RoundTripObserved, Trip
from lab.checker.readers import PROBE_DIGEST, ClusterReader, Place
from lab.checker.records import Held
from lab.checker.round_trip.observed import FAILBACK, PLANNED, UNPLANNED
from lab.environment.state import ALIASES
from lab.rehearsal.planned import RESTART_SECONDS, Rehearsal, wait_for, without_garbage_collection
from lab.rehearsal.unplanned import Accident, LostSourceRehearsal
from lab.workload import GroundTruth, Load, Workload, leave_transactions_open, write_more
from lab.workload.group_positions import ADMIN, Committer, GroupPlan

APPROVER = "approver"
#: Seconds for which the source's log ends must be stable: the flow from target to source has then mirrored all records.
STILL_SECONDS = 3.0
#: Transaction timeout, in seconds, of the transactions that stay open.
OPEN_SECONDS = 10.0
MOVED_GROUPS = 4
RUN_SECONDS = 900


@dataclass(frozen=True)
class Leaving:
    """How clients leave their cluster: by a planned failover, or by an unplanned failover after an accident.

    Args:
        accident: how the cluster is lost; None for a planned failover.
        kill_mirror_maker: kill MirrorMaker 2 with -9 before a planned failover, so that the target has repeats.
        standby: a planned failover starts the reverse flow at once, so that the new primary has a standby.
        more: number of records written to each partition of the workload's topics, and mirrored, before clients leave.
        stranded: for an accident only: number of records written to each partition while replication is paused, just
            before the source is lost; as many more are written in transactions that stay open.
        params: further params of the run.
    """

    accident: Accident | None = None
    kill_mirror_maker: bool = False
    standby: bool = False
    more: int = 0
    stranded: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def drawn(cls, number: int) -> Leaving:
        """Draw how clients leave: always the same for the same number; eight numbers in a row cover all combinations.

        | number % 8 | leave | MirrorMaker 2 killed | standby | stranded records |
        | --- | --- | --- | --- | --- |
        | 0, 2, 4, 6 | planned | 2, 6 | 4, 6 | - |
        | 1, 3, 5, 7 | accident | 3, 7 | - | 5, 7 |
        """
        rng = random.Random(number)
        if number % 2 == 0:
            return cls(None, kill_mirror_maker=bool(number & 2), standby=bool(number & 4), more=rng.randrange(1, 40))
        accident = Accident(rng.uniform(0.0, 5.0), kill_mirror_maker=bool(number & 2))
        return cls(accident, more=rng.randrange(1, 40), stranded=rng.randrange(5, 60) if number & 4 else 0)

    @property
    def crashed(self) -> bool:
        """Whether MirrorMaker 2 is killed before clients leave, after which the logs may have repeats."""
        return self.kill_mirror_maker or (self.accident is not None and self.accident.kill_mirror_maker)


@dataclass(frozen=True)
class Returning:
    """How clients return, by a failback.

    Args:
        mode: `append` or `recreate`.
        stranded: param `stranded` of the run: decisions by topic or expression; None: the run gets no such param.
        more: number of records written, before the failback, to each partition on the clients' cluster.
        born: True: before the failback, create a topic with records and groups on the clients' cluster.
        crashed: MirrorMaker 2 was killed after clients left, so that the logs may have repeats.
    """

    mode: str = "append"
    stranded: Mapping[str, str] | None = None
    more: int = 0
    born: bool = False
    crashed: bool = False

    @property
    def params(self) -> dict[str, Any]:
        """Params of the failback's run, except source, target and reason."""
        decisions = {} if self.stranded is None else {"stranded": dict(self.stranded)}
        return {} if self.mode == "append" and not decisions else {"mode": self.mode, **decisions}


class RoundTrips(LostSourceRehearsal):
    """Creates a workload, moves its clients from one cluster to the other and back, and checks each client move.

    Args:
        state: folder of a lab that is up.
        folder: folder for the round trips' files, such as the clients' event logs.
        seed: seed of topics, records and groups.
        rate: records per second of the load, which ignores the drain hook; 0: none. May be set between client moves.
        scale: factor on the workload's size.
        groups: maximum number of the workload's groups; None: all groups.
        recorded: True: a flight recorder runs, and its samples are awaited before the source is killed.
        load: `load_topics`: partition counts of the load's topics by name; absent or None: two topics with names from
            the seed.

    Attributes:
        source: alias of the cluster on which clients are now; `target` is the alias of the other cluster.
        ledger: the checker's ledger: all records that clients wrote, and what checks of earlier client moves recorded.
        approver: user who answers the gates; None: each gate waits for a person.
        seconds: timeout of the wait for a procedure's end.
        meddle: called before each check with the client move to check; does nothing by default.
    """

    def __init__(
        self, state: Path, folder: Path, seed: int, rate: int = 0, scale: float = 1.0, groups: int | None = None,
        recorded: bool = True, **load: Any,
    ) -> None:  # fmt: skip
        super().__init__(state, folder, seed, rate, scale, groups, recorded, **load)
        self.approver: str | None = APPROVER
        self.seconds = RUN_SECONDS
        self.meddle: Callable[[Trip], object] = lambda _: None
        self.ledger = Ledger(self.source, Names(ALIASES, self.policy), _now())
        self._chance = random.Random(seed)
        self._client_folders: list[Path] = []
        self._written, self._loads = 0, 0
        self._more = self._stranding = 0

    # -- clients ----------------------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """Number of client moves made so far, also the index (from 0) of the next client move."""
        return len(self.ledger.periods) - 1

    def seed_topics(self) -> GroundTruth:
        """Create topics, records and groups on the clients' cluster; return the ground truth."""
        truth = Rehearsal.seed_topics(self)
        self.ledger.take_truth(truth)
        self.ledger.take_loads([], self.load.topics if self.load else {})
        return truth

    def start_clients(self) -> None:
        """Start the demo application on the clients' cluster, with a new folder for its event logs."""
        self._client_folder = self.folder / f"clients-{self.seed}-{len(self._client_folders)}"
        self._client_folders.append(self._client_folder)
        super().start_clients()

    def start_load(self, seconds: float = 3.0) -> None:
        """Start the load on the clients' cluster, with new record ids, and wait `seconds`."""
        if self.load and self._loads:
            folder = self.folder / f"load-{self.seed}-{self._loads}"
            options = {"cluster": self.source, "first": 2 * self._loads, **self.load_options}
            self.load = Load(self.status, folder, self.rate, self.seed, self.load.topics, **options)
        self._loads += 1
        super().start_load(seconds)

    def write_more(self, count: int) -> None:
        """Write `count` records per partition on the clients' cluster; wait until each is acknowledged or aborted."""
        self._written += 1
        if count:
            self.ledger.take_truth(
                write_more(self._properties("producer"), self.truth, self.source, self.seed + self._written, count)
            )

    def leave_transactions_open(self, count: int) -> None:
        """Write `count` records per partition, on the clients' cluster, in transactions that are never committed."""
        self._written += 1
        self.ledger.take_truth(
            leave_transactions_open(
                self._properties("producer"), self.truth, self.source, self.seed + self._written, count, OPEN_SECONDS
            )
        )

    def make_topic(self) -> None:
        """Create a topic with records, and groups with positions on this topic, on the clients' cluster."""
        self._written += 1
        truth = Workload(
            self.seed + 1000 + self._written, self.status, self.source, scale=0.02, kinds=("plain",), groups=3
        ).create()
        self.ledger.take_truth(truth)

    def move_groups(self) -> None:
        """Commit random new positions, on the clients' cluster, for some groups that have no consumer."""
        reader = ClusterReader(self.source, self.status)
        idle = self.idle_groups
        old_positions = reader.positions(self._chance.sample(idle, min(MOVED_GROUPS, len(idle))))
        places = {place for positions in old_positions.values() for place in positions}
        starts, ends = reader.starts(places), reader.ends(places)
        new_positions = {
            group: {place: self._chance.randint(starts[place], ends[place]) for place in positions}
            for group, positions in old_positions.items()
            if positions
        }
        Committer(AdminClient(dict(self._properties("admin"))), self._properties("consumer")).commit(
            GroupPlan(group, ADMIN, positions) for group, positions in new_positions.items()
        )

    def _properties(self, principal: str) -> Mapping[str, str]:
        properties: Mapping[str, str] = self.status["clusters"][self.source]["client_properties"][principal]
        return properties

    # -- client moves ------------------------------------------------------------------------------------------------

    def leave(self, how: Leaving, writes: bool = False) -> CheckResult:
        """Fail over to the other cluster, let clients work on that cluster, check, and return the check's result.

        A source that was killed is started again before the check. With `writes` the check ends with attempts to write
        on both clusters.
        """
        params = {"start_reverse_replication": True, **how.params} if how.standby else how.params
        self.start_clients()
        if how.accident is None:
            self._work(how)
            return self._change(PLANNED, params, writes, crashed=how.crashed, flows_on=how.standby or self.both_run)
        self._stranding, self._more = how.stranded, how.more
        self.suffer(how.accident)
        mirrored = ClusterReader(self.target, self.status).ends(self._places(self.target))
        facts = {"crashed": how.crashed, "mirrored_until": mirrored, "died_at": self.died_at}
        return self._change(UNPLANNED, params, writes, flows_on=self.both_run, **facts)

    def come_back(self, how: Returning = Returning(), writes: bool = False) -> CheckResult:
        """Fail back to the cluster that clients left, let clients work on that cluster, check, and return the result.

        With `writes` the check ends with attempts to write on both clusters.
        """
        returned = self._logs(self.target)
        self.move_groups()
        if how.born:
            self.make_topic()
        self.start_clients()
        self.start_load()
        self.write_more(how.more)
        facts = {"returned": returned, "crashed": how.crashed, "mode": how.mode, "decisions": how.stranded or {}}
        return self._change(FAILBACK, how.params, writes, flows_on=True, **facts)

    def suffer(self, accident: Accident) -> None:
        """Start the load, write the records that the `Leaving` of this client move asks for, and kill the source."""
        if not self._stranding:
            self.write_more(self._more)
            return super().suffer(accident)
        if accident.offset_lag_max is not None:
            self.set_offset_lag_max(accident.offset_lag_max)
        self._work(Leaving(kill_mirror_maker=accident.kill_mirror_maker, more=self._more))
        if self._recorded:
            self.await_samples()
        self.pause_replication()
        self.write_more(self._stranding)
        self.leave_transactions_open(self._stranding)
        time.sleep(accident.after)
        self.kill_source()
        return self.await_rest()

    def _work(self, how: Leaving) -> None:
        """Start the load, write `how.more` records per partition, and kill MirrorMaker 2 if `how` asks for it."""
        self.start_load()
        self.write_more(how.more)
        if how.kill_mirror_maker:
            self.restart_mirror_maker()

    def _change(self, dag_id: str, params: Mapping[str, Any], writes: bool, **facts: Any) -> CheckResult:
        number, source, target = self.number, self.source, self.target
        before = self._positions(target)
        self.dag_id = dag_id
        self.ledger.turn(target, _now())
        code = self.run(self.approver, f"rehearsal of seed {self.seed}, change {number}", self.seconds, **params)
        unsettled = self.settle() if code == 0 else []
        self.stop()
        folder, evidence = self.evidence()
        if code != 0:
            # A run that was refused or returned to the source is no client move: only its period is removed.
            self.ledger.periods.pop()
            self._add_acknowledgements(number)
            return CheckResult(
                [Finding("run", f"{dag_id} ended as {evidence.get('outcome')}: {evidence.get('reason_for_outcome')}")]
            )
        if dag_id == UNPLANNED:
            self.bring_source_back()
        self._add_acknowledgements(number)
        trip = Trip(number, dag_id, source, target, evidence, folder, before=before, approver=self.approver, **facts)
        if trip.flows_on:
            self.await_copies()
        self.meddle(trip)
        verdict = self._check_trip(trip, writes)
        verdict.add(unsettled)
        self.source, self.target = target, source
        return verdict

    def bring_source_back(self) -> None:
        """Start the lost source again: its broker, on its old logs, and its Connect worker."""
        super().bring_source_back()
        self.start_again(f"connect-{self.source}")

    def await_copies(self) -> None:
        """Wait until all records of the target have been mirrored to the source."""
        # Log ends also stand still while a flow has not begun, whose worker was just started again.
        period, names = self.ledger.periods[-1], self.ledger.names
        due = {names.counterpart((self.target, at))[1]: len(period.committed(at)) for at in period.records}

        def is_stable() -> bool:
            try:
                before = self._ends(self.source)
                time.sleep(STILL_SECONDS)
                still = self._ends(self.source) == before
                return still and all(before.get(place, 0) >= number for place, number in due.items())
            except KafkaException:
                return False  # a broker that was just started again answers NOT_LEADER_FOR_PARTITION for a while

        if not wait_for(is_stable, RESTART_SECONDS):
            raise TimeoutError(
                f"log ends on {self.source} still grow, lack copies or cannot be read, {RESTART_SECONDS:.0f} s after"
                f" clients were stopped; read the logs of connect-{self.source} and broker-{self.source}, and find out"
                f" which client writes on {self.source} or {self.target}"
            )

    def mirrored_counter(self) -> Callable[[], int]:
        """Return a function that returns the sum of all log ends on the target at the time of the call."""
        return lambda: sum(self._ends(self.target).values())

    # -- the checker ------------------------------------------------------------------------------------------------

    def _add_acknowledgements(self, number: int) -> None:
        """Add the load's acknowledgements from before client move `number` to the ledger; read clients' logs again."""
        if self.load:
            self.ledger.take_loads(self.load.acknowledgements(), self.load.topics, number)
        self.ledger.take_clients(*self._client_folders)

    def _check_trip(self, trip: Trip, writes: bool) -> CheckResult:
        with without_garbage_collection():
            verdict = RoundTripCheck(RoundTripObserved(self.ledger, trip, self.status)).check(writes)
        (self.folder / f"verdict-{self.seed}-{trip.number}.json").write_text(
            json.dumps(verdict.document(), indent=1), encoding="utf-8"
        )
        return verdict

    def _positions(self, alias: str) -> dict[str, dict[Place, int]]:
        reader = ClusterReader(alias, self.status)
        return reader.positions(reader.groups())

    def _logs(self, alias: str) -> dict[Place, list[Held]]:
        compacted = {topic for topic, properties in self.ledger.topics.items() if properties.compacted}
        places = self._places(alias)
        keyed = {name for name, _ in places if self.ledger.names.local(name) in compacted}
        logs = ClusterReader(alias, self.status).read(places, "read_uncommitted", keyed)
        return {
            place: [record for record in records if record.digest != PROBE_DIGEST] for place, records in logs.items()
        }

    def _places(self, alias: str) -> list[Place]:
        existing = ClusterReader(alias, self.status).partitions()
        names = [name for topic in self.ledger.topics for name in self.ledger.names.names_on(alias, topic)]
        return [(name, p) for name in names for p in range(existing.get(name, 0))]

    def _ends(self, alias: str) -> dict[Place, int]:
        return ClusterReader(alias, self.status).ends(self._places(alias))


def rehearse_round_trips(
    state: Path, folder: Path, seed: int, rate: int, trips: Sequence[tuple[Leaving, Returning]], **workload: Any
) -> CheckResult:
    """Run round trips on a running lab, with a check after each client move; return all findings and figures.

    The first check with findings ends the run.

    Args:
        rate: records per second of the load, whose producers ignore the drain hook; 0 for no load.
        trips: for each round trip, how clients leave and how they return.
        workload: `scale`, `groups`, `recorded` and `load_topics`: further arguments of `RoundTrips`.
    """
    rehearsal, verdict = RoundTrips(state, folder, seed, rate, **workload), CheckResult()
    try:
        rehearsal.seed_topics()
        for number, (leaving, returning) in enumerate(trips, 1):
            for change, how, last in (
                (partial(rehearsal.leave, leaving), leaving, False),
                (partial(rehearsal.come_back, returning), returning, number == len(trips)),
            ):
                result = change(writes=last)
                print(f"change {rehearsal.number - 1}, {rehearsal.dag_id}, {how}: {dict(result.figures)}", flush=True)
                verdict.add(result.findings, **result.figures)
                if not result.passed:
                    return verdict
        return verdict
    finally:
        rehearsal.stop()


def _now() -> int:
    return int(time.time() * 1000)
