"""Each finding of readiness_check that a mistake in a setting, right, topic or drill makes, provoked on real clusters.

Found by the next check, each with those that it entails and no other, and gone when the mistake is taken back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka_dr.domain.readiness.owners import MARKER_ENTRY

from lab.environment.connect import call_worker, connector_config, connector_name
from tests.faults.readiness.checked_site import (
    BUSY,
    IDLE,
    CheckedSite,
    ca_certificate,
    changed_items,
    checked_site,
    found,
    remove_entries,
    with_ca,
)
from tests.faults.readiness.one_check import SOURCE, TARGET
from tests.faults.support.fault_proxy import FaultProxy
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run, stepping

_SECONDS = 30.0
SECOND = f"{connector_name(SOURCE, TARGET, 'source')}-second"
Fault = AbstractContextManager[object]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedSite]:
    """A flow that is VERIFIED."""
    with checked_site(tmp_path_factory) as made:
        made.make_verified()
        yield made


# -- settings of connectors ---------------------------------------------------------------------------------------


@contextmanager
def reverse_configured(site: CheckedSite, ask: str | None = None, **changes: str) -> Iterator[None]:
    """Change settings of the reverse flow's source connector; `ask` what Connect is told besides, such as `pause`."""
    name = connector_name(TARGET, SOURCE, "source")
    config = call_worker(site.lab, SOURCE, "GET", f"/connectors/{name}/config").json()

    def put(what: str, body: Any = None) -> None:
        until(lambda: call_worker(site.lab, SOURCE, "PUT", f"/connectors/{name}/{what}", body).ok, what, 60.0)

    put("config", {**config, **changes})
    if ask:
        put(ask)
        time.sleep(3.0)
    try:
        yield
    finally:
        put("stop")
        put("config", config)


@contextmanager
def second_connector(site: CheckedSite) -> Iterator[None]:
    """A second source connector, which stands: for a topic of the first, with another isolation; filters disagree."""
    config = connector_config(site.lab, SOURCE, TARGET, "source")
    own = {"topics": BUSY, "source.consumer.isolation.level": "read_committed"}
    body = {"name": SECOND, "config": config | own, "initial_state": "STOPPED"}
    until(lambda: call_worker(site.lab, TARGET, "POST", "/connectors", body).ok, f"{SECOND} to be made", 60.0)
    names = {
        "source": [connector_name(SOURCE, TARGET, "source"), SECOND],
        "checkpoint": connector_name(SOURCE, TARGET, "checkpoint"),
    }
    try:
        with site.flow(connectors=names, mirror_maker={"topics": "nothing"}):
            yield
    finally:
        until(
            lambda: call_worker(site.lab, TARGET, "DELETE", f"/connectors/{SECOND}").status_code in (204, 404),
            f"{SECOND} to be deleted",
            60.0,
        )


@contextmanager
def unnamed_connector(site: CheckedSite) -> Iterator[None]:
    """A second source connector copies a topic of the flow from now on, and the topology does not name it."""
    config = connector_config(site.lab, SOURCE, TARGET, "source")
    body = {"name": SECOND, "config": config | {"topics": IDLE, "source.consumer.auto.offset.reset": "latest"}}
    until(lambda: call_worker(site.lab, TARGET, "POST", "/connectors", body).ok, f"{SECOND} to be made", 60.0)
    try:
        yield
    finally:
        call_worker(site.lab, TARGET, "DELETE", f"/connectors/{SECOND}").raise_for_status()


@contextmanager
def requests_refused(site: CheckedSite, status: int, *methods: str) -> Iterator[None]:
    """Something between Switchback and the Connect worker answers some requests itself."""
    proxy = FaultProxy(site.lab.connect_url(TARGET))
    proxy.answer(status, methods)
    try:
        with site.connection(f"connect_{TARGET}", host=proxy.url):
            yield
    finally:
        proxy.close()


# -- topics, rights, users, groups --------------------------------------------------------------------------------


@contextmanager
def topic_setting(site: CheckedSite, alias: str, topic: str, name: str, value: str) -> Iterator[None]:
    """Set one setting of a topic inside this context."""

    def alter(operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        (altered,) = site.admins[alias].incremental_alter_configs([resource]).values()
        altered.result(_SECONDS)

    alter(AlterConfigOpType.SET)
    try:
        yield
    finally:
        alter(AlterConfigOpType.DELETE)


def add_partitions(site: CheckedSite, alias: str, topic: str, count: int) -> None:
    """Let a topic have so many partitions."""
    (grown,) = site.admins[alias].create_partitions([NewPartitions(topic, count)]).values()
    grown.result(_SECONDS)


@contextmanager
def more_partitions(site: CheckedSite) -> Iterator[None]:
    """The target's topic has more partitions, until the source's gets as many."""
    add_partitions(site, TARGET, site.remote(IDLE), 2)
    yield
    add_partitions(site, SOURCE, IDLE, 2)


@contextmanager
def retention_overtakes(site: CheckedSite) -> Iterator[None]:
    """The source deletes records that MirrorMaker 2, which stands, has not copied; then it copies newer ones."""
    with site.stopped():
        site.write(IDLE, 4)
        place = TopicPartition(IDLE, 0)
        (end,) = (
            watched.get_watermark_offsets(place, timeout=_SECONDS)[1]
            for watched in [Consumer({**site.lab.client_properties(SOURCE, "admin"), "group.id": "ends"})]
        )
        (deleted,) = site.admins[SOURCE].delete_records([TopicPartition(IDLE, 0, end - 1)]).values()
        deleted.result(_SECONDS)
        yield
    site.write(IDLE, 1)


@contextmanager
def user_of_a_client(site: CheckedSite) -> Iterator[None]:
    """A client's rights are on both clusters, its user only on the source."""
    user = "newcomer"
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    (made,) = (
        site.admins[SOURCE]
        .alter_user_scram_credentials([UserScramCredentialUpsertion(user, credential, b"password")])
        .values()
    )
    made.result(_SECONDS)
    try:
        with ExitStack() as rights:
            for alias in (SOURCE, TARGET):
                rights.enter_context(site.entry(alias, user, "TOPIC", "*", "WRITE"))
            yield
    finally:
        deletion = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)
        (gone,) = site.admins[SOURCE].alter_user_scram_credentials([deletion]).values()
        gone.result(_SECONDS)


@contextmanager
def marker_deleted(site: CheckedSite) -> Iterator[None]:
    """Somebody deletes the ACL entry that shows whether anybody puts ACL entries back; the watcher sets it again."""
    entry = AclBinding(
        ResourceType.TOPIC,
        MARKER_ENTRY.name,
        ResourcePatternType.LITERAL,
        MARKER_ENTRY.principal,
        MARKER_ENTRY.host,
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    remove_entries(site.admins[SOURCE], entry)
    yield


# -- installation -------------------------------------------------------------------------------------------------


@contextmanager
def readable_by_others(site: CheckedSite) -> Iterator[None]:
    """Others may read the evidence."""
    site.lab.evidence.chmod(0o755)
    try:
        yield
    finally:
        site.lab.evidence.chmod(0o700)


@contextmanager
def drill_ended(site: CheckedSite, **drill: Any) -> Iterator[None]:
    """The newest drill ended so; then one passes."""
    site.server.end_drill(**drill)
    yield
    site.server.end_drill()


CHANGED = ("changed_since_drill",)
#: name -> the fault, what it makes the check find, and what may be found with it.
CASES: dict[str, tuple[Callable[[CheckedSite], Fault], tuple[str, ...], tuple[str, ...]]] = {
    "no topic passes the filter": (
        lambda site: site.configured(topics="no-such-topic"),
        ("something_to_move", *CHANGED),
        (),
    ),
    "records may be skipped": (
        lambda site: site.configured(**{"errors.tolerance": "all"}),
        ("records_unchanged", *CHANGED),
        (),
    ),
    "the fence would be copied": (
        lambda site: chain(site.stopped(), lambda: put_while_stopped(site, "sync.topic.acls.enabled", "true")),
        ("fence_stays_local", "connectors_run", *CHANGED),
        (),
    ),
    "a connector has failed": (
        lambda site: failing_checkpoints(site),  # noqa: PLW0108 (defined below)
        ("connectors_run", *CHANGED),
        (),
    ),
    "a connector has another policy": (
        lambda site: reverse_configured(
            site,
            **{
                "replication.policy.class": "org.apache.kafka.connect.mirror."
                + {"identity": "Default", "default": "Identity"}[site.policy]
                + "ReplicationPolicy"
            },
        ),
        ("naming_agrees",),
        (),
    ),
    "the topology states another setting": (
        lambda site: site.flow(mirror_maker={"refresh.topics.interval.seconds": "30"}),
        ("stated_settings_agree",),
        (),
    ),
    "two source connectors disagree": (
        second_connector,
        ("topics_mirrored_once", "stated_topics_agree", "connectors_agree", "connectors_run", *CHANGED),
        (),
    ),
    "a source connector is not named": (unnamed_connector, ("connectors_named",), ()),
    "the flow's worker belongs to the source": (
        lambda site: site.flow(connect=f"connect_{SOURCE}"),
        ("worker_writes_to_target", "connectors_run", *CHANGED),
        ("copies_missing", "replication_moves", "record_age", "topics_match", "target_keeps_as_much", "cannot_read"),
    ),
    "offsets cannot be set": (lambda site: requests_refused(site, 404, "PATCH"), ("versions_suffice",), ()),
    "Connect does not answer": (
        lambda site: requests_refused(site, 503, "GET", "PATCH"),
        ("cannot_read", "figure_unknown"),
        ("fingerprint_unknown",),
    ),
    "the target has more partitions": (more_partitions, ("topics_match",), ()),
    "retention overtakes replication": (
        retention_overtakes,
        ("retention_not_overtaken", "connectors_run"),
        ("replication_latency",),
    ),
    "the source asks for more replicas in sync": (
        lambda site: topic_setting(site, SOURCE, IDLE, "min.insync.replicas", "2"),
        ("durability_kept",),
        (),
    ),
    "the target keeps less": (
        lambda site: topic_setting(site, TARGET, site.remote(IDLE), "retention.ms", "3600000"),
        ("target_keeps_as_much",),
        (),
    ),
    "a client may write on the source only": (
        lambda site: site.entry(SOURCE, "other", "TOPIC", BUSY, "WRITE"),
        ("clients_may_work_on_target",),
        (),
    ),
    "a client's user is on the source only": (user_of_a_client, ("users_exist_on_target",), ()),
    "a group has members on the target": (CheckedSite.member_on_target, ("groups_idle_on_target",), ()),
    "anonymous clients are exempt": (
        lambda site: site.topology(
            lambda topology: topology["clusters"][SOURCE]["principals"]["exempt"].append("User:ANONYMOUS")
        ),
        ("fence_possible",),
        (),
    ),
    "a marker was deleted": (marker_deleted, ("nobody_puts_back",), ()),
    "a certificate has ended": (
        lambda site: with_ca(site, ca_certificate(site.lab.root, -1.0)),
        ("certificate_ends", *CHANGED),
        (),
    ),
    "a certificate cannot be read": (
        lambda site: with_ca(site, "/nowhere/ca.pem"),
        ("cannot_read", *CHANGED),
        ("figure_unknown", "fingerprint_unknown"),
    ),
    "others may read evidence": (readable_by_others, ("open_files",), ()),
    "Spark would show logins": (
        lambda site: site.connection("spark_default", host="yarn"),
        ("spark",),
        (),
    ),
    "the drill failed": (lambda site: drill_ended(site, verdict="failed"), ("drill_failed",), ()),
    "the drill has an open finding": (lambda site: drill_ended(site, findings_open=["f1"]), ("drill_open",), ()),
    "the drill passed with conditions": (lambda site: drill_ended(site, verdict="conditional"), ("drill_open",), ()),
    "the drill is long ago": (lambda site: drill_ended(site, days_ago=93.0), ("drill_due",), ()),
}


@contextmanager
def chain(outer: Fault, inner: Callable[[], Fault]) -> Iterator[None]:
    """One context inside another."""
    with outer, inner():
        yield


@contextmanager
def put_while_stopped(site: CheckedSite, name: str, value: str) -> Iterator[None]:
    """Change a setting of the source connector, which stands: it does not act by the setting."""
    config = site.connector("GET", "config").json()
    site.configure({**config, name: value})
    try:
        yield
    finally:
        site.configure(config)


@contextmanager
def failing_checkpoints(site: CheckedSite) -> Iterator[None]:
    """The checkpoint connector has a login that the source refuses: connector or task fails."""
    config = site.connector("GET", "config", kind="checkpoint").json()
    login = config["source.cluster.sasl.jaas.config"]
    site.configure({**config, "source.cluster.sasl.jaas.config": "none", "tasks.max": "1"}, "checkpoint")
    try:
        until(
            lambda: "FAILED" in site.connector("GET", "status", kind="checkpoint").text, "the connector to fail", 60.0
        )
        yield
    finally:
        assert login != "none"
        site.configure(config, "checkpoint")
        until(lambda: site.runs("checkpoint"), "the checkpoint connector to run", 60.0)


@pytest.mark.parametrize("name", CASES)
def test_a_finding_comes_and_goes(site: CheckedSite, name: str) -> None:
    """Found by the check after the mistake; gone, and told as mended, when the mistake is taken back."""
    fault, ids, also = CASES[name]
    site.told_mended.clear()
    with fault(site):
        document = site.finds(*ids, also=also)
        print(f"{name}: {sorted(found(document))}, changed {sorted(changed_items(document))}", flush=True)
    site.verified()
    assert {*ids} <= site.told_mended


def test_warnings_leave_the_state(site: CheckedSite) -> None:
    """A certificate that ends soon, and a topology without a recorder."""
    with site.topology(lambda topology: topology.pop("recorder")):
        document = site.verified()
        assert "recorder_missing" in found(document, "warning")
    with with_ca(site, ca_certificate(site.lab.root, 3.0)):
        document = site.finds(*CHANGED)
        assert "certificate_ends" in found(document, "warning") and changed_items(document) == {f"{TARGET}.ca"}
    assert not found(site.verified(), "warning")


def test_no_flow_goes_in_a_circle(site: CheckedSite) -> None:
    """A reverse flow that is only paused is found under identity naming, where its records would come back."""
    with reverse_configured(site, "pause", topics="no-such-topic"):
        site.finds(*({"identity": ["no_loop"], "default": []}[site.policy]))
    site.verified()


def test_a_flow_at_rest_is_told_apart(site: CheckedSite) -> None:
    """Stopped while the opposite flow runs: no failover in this direction is meant."""
    with site.stopped(), reverse_configured(site, "resume", topics="no-such-topic"):
        document = until(lambda: (d := site.check())["at_rest"] and d, "the flow to be at rest", 30.0)
        assert found(document) == {"flow_at_rest"} and document["lag"] is None
        assert document["if_now"]["possible"] is None and document["mended"] == []
    site.verified()


def test_what_a_procedure_holds_and_remembers(site: CheckedSite, tmp_path: Path) -> None:
    """The pair is held while a procedure runs; a topic that is created anew after the procedure's check is named."""
    with stepping(site.lab, tmp_path) as driver:
        run = Run({"source": SOURCE, "target": TARGET, "reason": "readiness is checked meanwhile"})
        assert driver.forward(run, until="check_readiness"), run.texts
        document = site.finds("pair_held")
        assert document["state"] == "NOT_VERIFIED" and document["lag"] is None and document["mended"] == []
        driver.step(run, "return_to_source")
        driver.step(run, "close_procedure")
        site.verified()
        for alias, topic in ((SOURCE, IDLE), (TARGET, site.remote(IDLE))):
            (deleted,) = site.admins[alias].delete_topics([topic]).values()
            deleted.result(_SECONDS)
        until(
            lambda: IDLE not in site.admins[SOURCE].list_topics(timeout=_SECONDS).topics, "the topic to be gone", 30.0
        )
        site.create(NewTopic(IDLE, 2, 1))
        until(lambda: site.remote(IDLE) in site.admins[TARGET].list_topics(timeout=_SECONDS).topics, "the copy", 60.0)
        document = site.check()
        assert "topics_not_recreated" in found(document), document["reasons"]
        again = Run({**run.params, "acknowledge_recreated_topics": True})
        driver.forward(again, until="check_readiness")
        driver.step(again, "return_to_source")
        driver.step(again, "close_procedure")
    assert "topics_not_recreated" not in found(site.check())
