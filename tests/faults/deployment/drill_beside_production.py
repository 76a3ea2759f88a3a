"""Production at work while a drill runs beside it, and the checker's judgement whether it was touched."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from lab.checker import CheckResult, Finding
from lab.checker.readers import ClusterReader, Place
from lab.checker.untouched.connect_history import history_findings, read_changes, read_rebalances, storage_topics
from lab.checker.untouched.denials import denial_findings, read_denials
from lab.checker.untouched.heartbeat_rates import Periods, rate_findings, rates_of, read_times
from lab.checker.untouched.record_ids import id_findings, id_of, read_ids
from lab.checker.untouched.samples import Sampler, count_grown, sample_findings
from lab.checker.untouched.site_state import SiteReader, State, state_findings
from lab.checker.untouched.steady_consumer import SteadyConsumer
from lab.environment.acls import create_bindings
from lab.environment.production.site import process_names
from lab.environment.progress import wait_until
from lab.environment.state import ALIASES, DRILL_CLIENT, Lab
from lab.workload.load import ROW, Load
from tests.faults.drills.whole_drill import WholeDrills
from tests.faults.support.stepping import stepping
from tests.support.lab_clients import change_or_list_configs

SOURCE, TARGET = ALIASES
#: The producer with an ALLOW entry on `*`, and the one with entries on a prefix, each with a client that reads.
WILDCARD, PREFIXED, PREFIX = "producer", "orders-app", "orders."
TOPICS = {WILDCARD: {"payments.captured": 6, "payments.audit": 2}, PREFIXED: {"orders.eu": 4, "orders.us": 2}}
#: Numbers of the load processes; an odd number is an idempotent producer, which writes each record once.
NUMBERS = {WILDCARD: 1, PREFIXED: 3}
#: Seconds in which production is looked at before and after the drill.
AROUND_SECONDS = 45.0
READY_SECONDS = 300.0
#: Longer than MirrorMaker 2 takes to notice a topic or a group.
QUIET_SECONDS = 20.0
Answer = TypeVar("Answer")


class DrillBesideProduction:
    """Clients of production on one lab, a drill beside them, and what the checker saw.

    Args:
        lab: of the profile `production`, with Airflow.
        folder: for the files of load and drill.
        rate: records per second of all producers together.
    """

    def __init__(self, lab: Lab, folder: Path, rate: int) -> None:
        self.lab, self.status, self._folder = lab, lab.status(), folder
        self._readers = {alias: ClusterReader(alias, self.status) for alias in ALIASES}
        self._admins = {alias: AdminClient(self._properties(alias, "admin")) for alias in ALIASES}
        self._password = lab.load().passwords[WILDCARD][::-1]
        self.loads = {who: self._load(who, folder, rate // len(TOPICS)) for who in TOPICS}
        self.consumers: dict[SteadyConsumer, tuple[str, list[str]]] = {}
        self.verdict = CheckResult()

    def _properties(self, alias: str, principal: str) -> dict[str, str]:
        if principal != PREFIXED:
            return self.lab.client_properties(alias, principal)
        login = {"sasl.username": PREFIXED, "sasl.password": self._password}
        return self.lab.client_properties(alias, WILDCARD) | login

    def _load(self, who: str, folder: Path, rate: int) -> Load:
        cluster = self.status["clusters"][SOURCE]
        properties = cluster["client_properties"] | {"producer": self._properties(SOURCE, who)}
        status = {"clusters": {SOURCE: cluster | {"client_properties": properties}}}
        return Load(status, folder / f"load-{who}", rate, topics=TOPICS[who], workers=1, first=NUMBERS[who])

    def on_target(self, topic: str) -> str:
        """Return the name that a topic of the source has on the target."""
        return topic if self.lab.load().policy == "identity" else f"{SOURCE}.{topic}"

    # -- production -------------------------------------------------------------------------------------------------

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Run production's clients while the block runs."""
        for alias in ALIASES:
            self._make_user(alias)
        with ExitStack() as ending:
            for load in self.loads.values():
                load.create_topics()
            mirrored = [self.on_target(topic) for topics in TOPICS.values() for topic in topics]
            wait_until(lambda: set(mirrored) <= set(self._readers[TARGET].partitions()), "topics", READY_SECONDS)
            for load in self.loads.values():
                ending.callback(load.stop)
                load.start()
            everything = [topic for topics in TOPICS.values() for topic in topics]
            self._consume(ending, SOURCE, "consumer", "payments-ledger", everything)
            self._consume(ending, SOURCE, PREFIXED, "orders-desk", list(TOPICS[PREFIXED]))
            self._consume(ending, TARGET, "consumer", "standby-reports", mirrored)
            wait_until(lambda: all(one.assignments for one in self.consumers), "consumers", READY_SECONDS)
            self._await_quiet_workers()
            yield
            for load in self.loads.values():
                load.stop()
            self._await_ends()

    def _await_quiet_workers(self) -> None:
        """Wait until MirrorMaker 2 has taken up the new topics and groups, for which it restarts tasks."""
        seen: dict[str, dict[Place, int]] = {}

        def is_quiet() -> bool:
            nonlocal seen
            earlier, seen = seen, self._stored_ends()
            return earlier == seen

        wait_until(is_quiet, "production's tasks to be left alone", READY_SECONDS, pause=QUIET_SECONDS)

    def _stored_ends(self) -> dict[str, dict[Place, int]]:
        """Return the ends of the topics in which production's workers note every change, by cluster."""
        return {alias: self._ends(alias, storage_topics(f"__connect_{alias}")) for alias in ALIASES}

    def _make_user(self, alias: str) -> None:
        """Create the user with the rights on a prefix; on the standby a standing fence refuses its writes."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        update = UserScramCredentialUpsertion(PREFIXED, credential, password=self._password.encode())
        for future in self._admins[alias].alter_user_scram_credentials([update]).values():
            future.result()
        prefixes = {PREFIX, self.on_target(PREFIX)}
        rights = [(ResourceType.TOPIC, prefix, name) for prefix in prefixes for name in ("READ", "DESCRIBE", "WRITE")]
        rights += [(ResourceType.GROUP, "orders-", name) for name in ("READ", "DESCRIBE")]
        create_bindings(self._admins[alias], [entry_on(*one) for one in rights])
        if alias == TARGET:
            fence = [entry_on(ResourceType.TOPIC, one, "WRITE", AclPermissionType.DENY) for one in prefixes]
            create_bindings(self._admins[alias], fence)

    def _consume(self, ending: ExitStack, alias: str, principal: str, group: str, topics: list[str]) -> None:
        consumer = SteadyConsumer(self._properties(alias, principal), group, topics)
        self.consumers[consumer] = (alias, topics)
        ending.callback(consumer.stop)
        consumer.start()

    def _ends(self, alias: str, topics: list[str]) -> dict[Place, int]:
        reader = self._readers[alias]
        partitions = reader.partitions()
        return reader.ends((topic, number) for topic in topics for number in range(partitions[topic]))

    def _await_ends(self) -> None:
        """Wait until all records are on the target, and all consumers have read them; what is late is judged later."""
        names = [topic for topics in TOPICS.values() for topic in topics]
        written = sum(self._ends(SOURCE, names).values())
        ends_at = time.monotonic() + READY_SECONDS
        while time.monotonic() < ends_at:
            copied = sum(self._ends(TARGET, list(map(self.on_target, names))).values())
            if copied >= written and not any(self._unread(one) for one in self.consumers):
                return
            time.sleep(1.0)

    def _unread(self, consumer: SteadyConsumer) -> list[Finding]:
        return consumer.findings(self._ends(*self.consumers[consumer]))

    # -- the drill --------------------------------------------------------------------------------------------------

    def run_drill(self) -> dict[str, Any]:
        """Run a canary drill step by step; return its evidence."""
        with stepping(self.lab, self._folder / "steps") as driver:
            drills = WholeDrills(self.lab, driver)
            return drills.whole(drills.new()[0])

    def watch(self, act: Callable[[], Answer]) -> Answer:
        """Look at production before, while and after something is done beside it; judge, and return the answer."""
        groups = {alias: [one.group for one, (at, _) in self.consumers.items() if at == alias] for alias in ALIASES}
        before, sampler, since = self._state(), Sampler(self.status, groups), datetime.now(UTC)
        stored = self._stored_ends()
        times = [time.time()]
        with sampler.watching():
            time.sleep(AROUND_SECONDS)
            times.append(time.time())
            answer = act()
            times.append(time.time())
            time.sleep(AROUND_SECONDS)
        times.append(time.time())
        after = self._state()
        self.verdict.add(state_findings(before, after), things_compared=sum(map(len, before.values())))
        self._judge_samples(sampler)
        self._judge_logs(since, stored)
        self._judge_heartbeats(Periods(*itertools.pairwise(times)))
        print(f"seconds of the drill: {times[2] - times[1]:.0f}", flush=True)
        return answer

    def _state(self) -> State:
        return {kind: found for alias in ALIASES for kind, found in SiteReader(alias, self.status).read().items()} | {
            f"quotas of {alias}": {
                kind: change_or_list_configs(self.lab, alias, "--describe", "--entity-type", kind)
                for kind in ("users", "clients")
            }
            for alias in ALIASES
        }

    # -- judgement --------------------------------------------------------------------------------------------------

    def _judge_samples(self, sampler: Sampler) -> None:
        samples = sampler.samples
        gaps = [later.at - earlier.at for earlier, later in itertools.pairwise(samples)]
        print(f"{len(samples)} samples, longest gap {max(gaps):.1f} s, {len(sampler.failed)} looks failed:"
              f" {sampler.failed[:3]}; {count_grown(samples)} of {len(samples[-1].offsets)} offsets of connectors grew,"
              f" {len(samples[-1].positions)} positions", flush=True)  # fmt: skip
        self.verdict.add(sample_findings(samples), samples=len(samples), offsets_grown=count_grown(samples))

    def _judge_logs(self, since: datetime, stored: dict[str, dict[Place, int]]) -> None:
        nodes = [name for alias in ALIASES for name in process_names(self.lab, f"broker-{alias}")]
        denials, gaps = read_denials(self.lab.logs, nodes)
        denials = [one for one in denials if one.at >= since]
        self.verdict.add([Finding("untouched", text) for text in gaps])
        self.verdict.add(denial_findings(denials, f"User:{DRILL_CLIENT}", ALIASES), denied_to_drill=len(denials))
        changes, rebalances = list[str](), list[str]()
        for alias, begins in stored.items():
            ends = self._ends(alias, storage_topics(f"__connect_{alias}"))
            changes += read_changes(self._properties(alias, "admin"), begins, ends)
            rebalances += read_rebalances(self.lab.logs, process_names(self.lab, f"connect-{alias}"), since)
        self.verdict.add(history_findings(changes, rebalances))
        print(
            f"denied requests: {len(denials)}; changes in Connect: {changes}; rebalances: {len(rebalances)}", flush=True
        )

    def _judge_heartbeats(self, periods: Periods) -> None:
        rates: dict[str, dict[str, float]] = {}
        for alias in ALIASES:
            topics = [name for name in self._readers[alias].partitions() if name.endswith("heartbeats")]
            times = read_times(self._properties(alias, "admin"), self._ends(alias, topics))
            rates |= {f"{topic} of {alias}": rates_of(found, periods) for topic, found in times.items()}
        print(f"heartbeats a second: {rates}", flush=True)
        self.verdict.add(rate_findings(rates), heartbeat_topics=len(rates))

    def judge_records(self) -> None:
        """Compare, after production's clients have ended, their records by their ids, and what consumers saw."""
        for consumer in self.consumers:
            self.verdict.add(self._unread(consumer), read_by_consumers=sum(consumer.run_of.next_offsets.values()))
        names = [topic for topics in TOPICS.values() for topic in topics]
        source = read_ids(self._properties(SOURCE, "admin"), self._ends(SOURCE, names))
        copies = read_ids(self._properties(TARGET, "admin"), self._ends(TARGET, list(map(self.on_target, names))))
        target = {name: copies[self.on_target(name)] for name in names}
        acknowledged, refused, failed = np.array([], np.int64), 0, 0
        for who, load in self.loads.items():
            rows = np.concatenate([np.fromfile(path, ROW) for path in load.folder.glob("*.acks")])
            acknowledged = np.concatenate([acknowledged, id_of(NUMBERS[who], rows["number"])])
            counts = np.unique(rows["at"] // 1000, return_counts=True)[1][1:-1]
            print(f"{who}: {rows.size} records, {int(np.median(counts))} in the median second", flush=True)
            refused, failed = refused + load.counts()["refused"], failed + load.counts()["failed"]
        self.verdict.add(id_findings(acknowledged, source, target), records=acknowledged.size)
        if refused or failed:
            self.verdict.add([Finding("untouched", f"producers of production had {refused} refusals, {failed} errors")])


def entry_on(
    kind: ResourceType, name: str, operation: str, permission: AclPermissionType = AclPermissionType.ALLOW
) -> AclBinding:
    """Return an ACL entry on a prefix, of the producer that has rights on a prefix alone."""
    principal = f"User:{PREFIXED}"
    return AclBinding(kind, name, ResourcePatternType.PREFIXED, principal, "*", AclOperation[operation], permission)
