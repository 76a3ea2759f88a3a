"""Round trips on a lab, planned or after the source died; each change of sides is judged."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from lab.checker import Finding, Ledger, Names, RoundTripCheck, RoundTripObserved, Trip, Verdict
from lab.checker.readers import PROBE_DIGEST, ClusterReader, Place
from lab.checker.records import Held
from lab.checker.round_trip.observed import FAILBACK, PLANNED, UNPLANNED
from lab.environment.state import ALIASES
from lab.rehearsal.planned import RESTART_SECONDS, Rehearsal, wait_for, without_garbage_collection
from lab.rehearsal.unplanned import Accident, LostSourceRehearsal
from lab.workload import GroundTruth, Load, Workload, leave_transactions_open, write_more
from lab.workload.group_positions import ADMIN, Committer, GroupPlan

APPROVER = "approver"
#: What flows on has arrived when nothing more does for so long.
STILL_SECONDS = 3.0
#: How long a transaction that nobody ends stays open.
OPEN_SECONDS = 10.0
MOVED_GROUPS = 4
RUN_SECONDS = 900


@dataclass(frozen=True)
class Leaving:
    """How clients leave the cluster that they are on.

    Args:
        accident: how it is lost; None for a planned failover.
        kill_mirror_maker: before a planned failover kill MirrorMaker 2 with -9, so that the target has repeats.
        standby: after a planned failover the new primary gets a standby at once.
        more: records that are written before to each partition of the workload's topics, of every kind, and replicated.
        stranded: as many of every kind that are not, for replication stands when the source dies; some in a transaction
            that nobody ends. Of an accident only.
        params: of the run, beside source, target and reason.
    """

    accident: Accident | None = None
    kill_mirror_maker: bool = False
    standby: bool = False
    more: int = 0
    stranded: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def drawn(cls, number: int) -> Leaving:
        """Draw one, the same per number: every other an accident; eight vary repeats, standby and strandings."""
        rng = random.Random(number)
        if number % 2 == 0:
            return cls(None, kill_mirror_maker=bool(number & 2), standby=bool(number & 4), more=rng.randrange(1, 40))
        accident = Accident(rng.uniform(0.0, 5.0), kill_mirror_maker=bool(number & 2))
        return cls(accident, more=rng.randrange(1, 40), stranded=rng.randrange(5, 60) if number & 4 else 0)

    @property
    def crashed(self) -> bool:
        """Say whether MirrorMaker 2 is killed."""
        return self.kill_mirror_maker or (self.accident is not None and self.accident.kill_mirror_maker)


@dataclass(frozen=True)
class Returning:
    """How clients return.

    Args:
        mode: `append` or `recreate`.
        stranded: what becomes of stranded records by topic or expression; None leaves out the param.
        more: records that are written before to each partition where clients are.
        born: clients make a topic, with groups on it, before.
        crashed: MirrorMaker 2 was killed since clients left, so that it may have repeated records.
    """

    mode: str = "append"
    stranded: Mapping[str, str] | None = None
    more: int = 0
    born: bool = False
    crashed: bool = False

    @property
    def params(self) -> dict[str, Any]:
        """Params of the run, beside source, target and reason."""
        decided = {} if self.stranded is None else {"stranded": dict(self.stranded)}
        return {} if self.mode == "append" and not decided else {"mode": self.mode, **decided}


class RoundTrips(LostSourceRehearsal):
    """A workload whose clients go to and fro, and the judge of every change of sides.

    Attributes:
        ledger: everything that clients ever wrote, and what the judge has kept.
        approver: user who answers the gates; None waits for a person.
        seconds: how long to wait for the end of a procedure.
        meddle: called before the judge looks, with what is to be judged.
    """

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
        """As an unplanned rehearsal."""
        super().__init__(state, folder, seed, rate, scale, groups, recorded, **load)
        self.approver: str | None = APPROVER
        self.seconds = RUN_SECONDS
        self.meddle: Callable[[Trip], object] = lambda _: None
        self.ledger = Ledger(self.source, Names(ALIASES, self.policy), _now())
        self._chance = random.Random(seed)
        self._client_folders: list[Path] = []
        self._rate, self._written, self._loads = rate, 0, 0
        self._more = self._stranding = 0

    # -- clients ----------------------------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """How many changes of sides there were."""
        return len(self.ledger.periods) - 1

    def seed_topics(self) -> GroundTruth:
        """As a planned rehearsal: how much is mirrored at a time, nobody asks."""
        truth = Rehearsal.seed_topics(self)
        self.ledger.take_truth(truth)
        self.ledger.take_loads([], self.load.topics if self.load else {})
        return truth

    def start_clients(self) -> None:
        """Start the demo application where clients are, with a folder of its own."""
        self._client_folder = self.folder / f"clients-{self.seed}-{len(self._client_folders)}"
        self._client_folders.append(self._client_folder)
        super().start_clients()

    def start_load(self, seconds: float = 3.0) -> None:
        """Load where clients are; its records have numbers of their own every time."""
        if self.load and self._loads:
            folder = self.folder / f"load-{self.seed}-{self._loads}"
            self.load = Load(
                self.status, folder, self._rate, self.seed, self.load.topics, cluster=self.source, first=2 * self._loads
            )
        self._loads += 1
        super().start_load(seconds)

    def write_more(self, count: int) -> None:
        """Write records of every kind where clients are, each acknowledged or aborted when this returns."""
        self._written += 1
        if count:
            self.ledger.take_truth(
                write_more(self._properties("producer"), self.truth, self.source, self.seed + self._written, count)
            )

    def leave_transactions_open(self, count: int) -> None:
        """Write records of which nobody is ever told."""
        self._written += 1
        self.ledger.take_truth(
            leave_transactions_open(
                self._properties("producer"), self.truth, self.source, self.seed + self._written, count, OPEN_SECONDS
            )
        )

    def make_topic(self) -> None:
        """Clients make a topic where they are, and groups read it."""
        self._written += 1
        made = Workload(
            self.seed + 1000 + self._written, self.status, self.source, scale=0.02, kinds=("plain",), groups=3
        ).create()
        self.ledger.take_truth(made)

    def move_groups(self) -> None:
        """Some groups without a consumer go on, or back, where clients are."""
        reader = ClusterReader(self.source, self.status)
        idle = self.idle_groups
        moved = reader.positions(self._chance.sample(idle, min(MOVED_GROUPS, len(idle))))
        places = {place for positions in moved.values() for place in positions}
        starts, ends = reader.starts(places), reader.ends(places)
        anew = {
            group: {place: self._chance.randint(starts[place], ends[place]) for place in positions}
            for group, positions in moved.items()
            if positions
        }
        Committer(AdminClient(dict(self._properties("admin"))), self._properties("consumer")).commit(
            GroupPlan(group, ADMIN, positions) for group, positions in anew.items()
        )

    def _properties(self, principal: str) -> Mapping[str, str]:
        properties: Mapping[str, str] = self.status["clusters"][self.source]["client_properties"][principal]
        return properties

    # -- changes of sides -------------------------------------------------------------------------------------------

    def leave(self, how: Leaving, writes: bool = False) -> Verdict:
        """Move clients to the other cluster and let them work there; the cluster they left is up again after that.

        Args:
            how: they leave.
            writes: the judge also tries to write on both clusters, at the very end.
        """
        params = {"start_reverse_replication": True, **how.params} if how.standby else how.params
        self.start_clients()
        if how.accident is None:
            self._work(how)
            return self._change(PLANNED, params, writes, crashed=how.crashed, flows_on=how.standby)
        self._stranding, self._more = how.stranded, how.more
        self.suffer(how.accident)
        mirrored = ClusterReader(self.target, self.status).ends(self._places(self.target))
        return self._change(
            UNPLANNED, params, writes, crashed=how.crashed, mirrored_until=mirrored, died_at=self.died_at
        )

    def come_back(self, how: Returning = Returning(), writes: bool = False) -> Verdict:
        """Clients return to the cluster that they left last, and work there.

        Args:
            how: they return.
            writes: the judge also tries to write on both clusters, at the very end.
        """
        returned = self._logs(self.target)
        self.move_groups()
        if how.born:
            self.make_topic()
        self.start_clients()
        self.start_load()
        self.write_more(how.more)
        return self._change(
            FAILBACK,
            how.params,
            writes,
            returned=returned,
            crashed=how.crashed,
            flows_on=True,
            mode=how.mode,
            decisions=how.stranded or {},
        )

    def suffer(self, accident: Accident) -> None:
        """As in an unplanned rehearsal; to strand records of every kind, the source dies while replication stands."""
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
        """Load, records of every kind, and MirrorMaker 2 killed if that is wanted."""
        self.start_load()
        self.write_more(how.more)
        if how.kill_mirror_maker:
            self.restart_mirror_maker()

    def _change(self, dag_id: str, params: Mapping[str, Any], writes: bool, **facts: Any) -> Verdict:
        number, source, target = self.number, self.source, self.target
        before = self._positions(target)
        self.dag_id = dag_id
        self.ledger.turn(target, _now())
        code = self.run(self.approver, f"rehearsal of seed {self.seed}, change {number}", self.seconds, **params)
        unsettled = self.settle() if code == 0 else []
        self.stop()
        folder, evidence = self.evidence()
        if code != 0:
            # Given back or refused, it is no change of sides; what clients were told meanwhile counts all the same.
            self.ledger.periods.pop()
            self._take_in(number)
            return Verdict(
                [Finding("run", f"{dag_id} ended as {evidence.get('outcome')}: {evidence.get('reason_for_outcome')}")]
            )
        if dag_id == UNPLANNED:
            self.bring_source_back()
        self._take_in(number)
        trip = Trip(number, dag_id, source, target, evidence, folder, before=before, approver=self.approver, **facts)
        if trip.flows_on:
            self.await_copies()
        self.meddle(trip)
        verdict = self._judged(trip, writes)
        verdict.add(unsettled)
        self.source, self.target = target, source
        return verdict

    def bring_source_back(self) -> None:
        """Start the source's broker again on the log that it left, and the worker beside it."""
        super().bring_source_back()
        self.start_again(f"connect-{self.source}")

    def await_copies(self) -> None:
        """Wait until what clients wrote on the target has flowed on to the source."""

        def still() -> bool:
            before = self._count(self.source)
            time.sleep(STILL_SECONDS)
            return self._count(self.source) == before

        if not wait_for(still, RESTART_SECONDS):
            raise TimeoutError(
                f"replication to {self.source} still goes on {RESTART_SECONDS:.0f} s after clients have stopped"
            )

    def mirrored_counter(self) -> Callable[[], int]:
        """Return what tells how many records the target holds so far."""
        return lambda: self._count(self.target)

    # -- the judge --------------------------------------------------------------------------------------------------

    def _take_in(self, number: int) -> None:
        """What clients and load were told, in the period in which they were sent."""
        if self.load:
            self.ledger.take_loads(self.load.acknowledgements(), self.load.topics, number)
        self.ledger.take_clients(*self._client_folders)

    def _judged(self, trip: Trip, writes: bool) -> Verdict:
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
        compacted = {topic for topic, known in self.ledger.topics.items() if known.compacted}
        places = self._places(alias)
        keyed = {name for name, _ in places if self.ledger.names.local(name) in compacted}
        found = ClusterReader(alias, self.status).read(places, "read_uncommitted", keyed)
        return {place: [one for one in held if one.digest != PROBE_DIGEST] for place, held in found.items()}

    def _places(self, alias: str) -> list[Place]:
        existing = ClusterReader(alias, self.status).partitions()
        names = [name for topic in self.ledger.topics for name in self.ledger.names.names_on(alias, topic)]
        return [(name, p) for name in names for p in range(existing.get(name, 0))]

    def _count(self, alias: str) -> int:
        return sum(ClusterReader(alias, self.status).ends(self._places(alias)).values())


def rehearse_round_trips(
    state: Path, folder: Path, seed: int, rate: int, trips: Sequence[tuple[Leaving, Returning]], **workload: Any
) -> Verdict:
    """Move clients to and fro on a running lab, with a verdict after each change; end at the first failing one.

    Args:
        rate: records per second of producers that ignore the drain hook; 0 for none.
        trips: how clients leave and return, trip by trip.
        workload: `scale`, `groups`, `recorded` and `load_topics`, as of `RoundTrips`.

    Returns:
        Findings and figures of all changes together.
    """
    rehearsal, verdict = RoundTrips(state, folder, seed, rate, **workload), Verdict()
    try:
        rehearsal.seed_topics()
        for number, (leaving, returning) in enumerate(trips, 1):
            for change, how, last in (
                (partial(rehearsal.leave, leaving), leaving, False),
                (partial(rehearsal.come_back, returning), returning, number == len(trips)),
            ):
                found = change(writes=last)
                print(f"change {rehearsal.number - 1}, {rehearsal.dag_id}, {how}: {dict(found.figures)}", flush=True)
                verdict.add(found.findings, **found.figures)
                if not found.passed:
                    return verdict
        return verdict
    finally:
        rehearsal.stop()


def _now() -> int:
    return int(time.time() * 1000)
