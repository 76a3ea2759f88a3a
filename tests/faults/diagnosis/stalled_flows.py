"""Faults of a diagnosed site by which a RUNNING flow stands, or its internal topics lack records; and what is found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from lab.environment.connect import MIRROR_MAKER
from tests.faults.diagnosis.diagnosed_site import SOURCE_JAAS, DiagnosedSite, jaas, new_topic
from tests.faults.diagnosis.flow_faults import Case, group_moves
from tests.faults.readiness.checked_site import BUSY, GROUP, IDLE
from tests.faults.readiness.one_check import SOURCE, TARGET
from tests.faults.support.damage import SYNCS_TOPIC
from tests.faults.support.scene import until
from tests.support.lab_clients import producer_quota

LATE_GROUP, ORCHESTRATOR = "late-group", "orchestrator"
_DAY_MS = 86_400_000


# -- tasks and records ------------------------------------------------------------------------------------------------


@contextmanager
def failing(site: DiagnosedSite, **settings: str) -> Iterator[None]:
    """Records are written while the source connector has settings by which a task fails on them."""
    with site.put(**settings):
        site.site.write(BUSY, 3)
        site.await_failed()
        yield


@contextmanager
def target_silent_for_a_moment(site: DiagnosedSite) -> Iterator[None]:
    """The target's broker hangs for longer than the connector's producer waits, and answers again."""
    impatient = {"producer.override.delivery.timeout.ms": "3000", "producer.override.request.timeout.ms": "2500"}
    with site.put(**impatient, **{"producer.override.linger.ms": "0"}):
        site.site.write(BUSY, 3)
        time.sleep(2.0)
        with site.frozen(f"broker-{TARGET}"):
            site.site.write(BUSY, 3)
            time.sleep(6.0)
        site.await_failed()
        yield


@contextmanager
def written_too_fast(site: DiagnosedSite) -> Iterator[None]:
    """A quota of the target lets MirrorMaker 2 write less than was written to the source."""
    with producer_quota(site.site.lab, TARGET, MIRROR_MAKER, 20_000):
        site.write_as_other(BUSY, SOURCE, count=150, size=10_000)
        yield
    until(lambda: site.copied(BUSY), "the copies", 90.0)


@contextmanager
def open_transaction(site: DiagnosedSite) -> Iterator[None]:
    """A transaction on one partition stays open, and MirrorMaker 2 reads committed records only."""
    login = site.site.lab.client_properties(SOURCE, "admin")
    with site.put(**{"source.consumer.isolation.level": "read_committed", "tasks.max": "1"}):
        producer = Producer({**login, "transactional.id": "left-open", "transaction.timeout.ms": 600_000})
        producer.init_transactions(30.0)
        producer.begin_transaction()
        producer.produce(IDLE, "open")
        producer.flush(30.0)
        site.site.write(IDLE, 3)
        try:
            with site.site.under_load():
                yield
        finally:
            producer.abort_transaction(30.0)


@contextmanager
def damaged_record(site: DiagnosedSite) -> Iterator[None]:
    """A record of one partition is damaged on the source's disk, while the other task's partitions get records."""
    with site.site.stopped():
        topic = new_topic("damaged")
        site.create(topic)
        site.damage(topic)
    try:
        with site.site.under_load():
            yield
    finally:
        site.delete(topic)
        site.restart()


@contextmanager
def login_changed(site: DiagnosedSite) -> Iterator[None]:
    """The file to which the connector's login refers has a wrong one by now, and its tasks are restarted."""
    try:
        with site.wrong_file(SOURCE_JAAS):
            site.restart_tasks()
            site.site.write(BUSY, 6)
            yield
    finally:
        site.restart()


# -- topics -----------------------------------------------------------------------------------------------------------


@contextmanager
def creation_refused(site: DiagnosedSite) -> Iterator[None]:
    """The target has too few brokers for the replicas that MirrorMaker 2 asks for; the topic's record is a day old."""
    topic = new_topic("refused")
    with site.put(**{"replication.factor": "3"}):
        site.site.create(NewTopic(topic, 1, 1))
        site.write_as_other(topic, SOURCE, at=int(time.time() * 1000) - _DAY_MS)
        try:
            yield
        finally:
            site.delete(topic)


# -- offset syncs, checkpoints, groups --------------------------------------------------------------------------------


@contextmanager
def syncs_deleted(site: DiagnosedSite) -> Iterator[None]:
    """The topic of the offset syncs is deleted."""
    site.delete_from(TARGET, SYNCS_TOPIC)
    try:
        yield
    finally:
        site.restart()
        site.site.write(BUSY, 30)
        site.site.write(IDLE, 1)
        site.restart("checkpoint")


@contextmanager
def syncs_denied(site: DiagnosedSite) -> Iterator[None]:
    """MirrorMaker 2 may not write offset syncs, while records are copied."""
    try:
        with site.denied(TARGET, "TOPIC", SYNCS_TOPIC, "WRITE"):
            # The broker follows its metadata: a sync of records that are written at once would still be allowed.
            time.sleep(3.0)
            site.site.write(BUSY, 6)
            yield
    finally:
        site.restart()
        site.site.write(BUSY, 30)


@contextmanager
def older_syncs_gone(site: DiagnosedSite) -> Iterator[None]:
    """Retention has deleted the offset syncs so far; the busy topic has newer ones, the idle topic has none."""
    with site.topic_setting(TARGET, SYNCS_TOPIC, "cleanup.policy", "delete"):
        site.delete_records(SYNCS_TOPIC, TARGET, left=0)
    site.site.write(BUSY, 30)
    until(lambda: site.records_left(SYNCS_TOPIC, TARGET), "newer offset syncs", 60.0)
    site.restart("checkpoint")
    try:
        yield
    finally:
        site.site.write(IDLE, 1)
        site.site.write(BUSY, 3)


@contextmanager
def late_group(site: DiagnosedSite, fault: AbstractContextManager[object], topic: str, position: int) -> Iterator[None]:
    """A new group commits a position while something is wrong."""
    with fault:
        site.site.commit(LATE_GROUP, topic, position)
        try:
            yield
        finally:
            for alias in (SOURCE, TARGET):
                site.delete_group(alias, LATE_GROUP)


@contextmanager
def syncs_unread(site: DiagnosedSite) -> Iterator[None]:
    """MirrorMaker 2 may not read its offset syncs any more, and the checkpoint connector starts anew."""
    try:
        with site.denied(TARGET, "TOPIC", SYNCS_TOPIC, "READ"):
            site.restart("checkpoint")
            yield
    finally:
        site.restart("checkpoint")


@contextmanager
def started_without_source(site: DiagnosedSite) -> Iterator[None]:
    """The source connector is restarted while the source's broker hangs."""
    patient = {"source.admin.default.api.timeout.ms": "60000", "source.admin.request.timeout.ms": "50000"}
    with site.put(**patient), site.frozen(f"broker-{SOURCE}"):
        site.ask_restart()
        yield


STALLED: dict[str, Case] = {
    # -- connectors and tasks
    "the producer's password is wrong": (
        lambda site: failing(site, **{"producer.override.sasl.jaas.config": jaas("mm2", "wrong")}),
        ("task_login_refused",),
        (),
    ),
    "the target hung for a moment": (target_silent_for_a_moment, ("cluster_did_not_answer",), ()),
    "a transformation fails on every record": (
        lambda site: failing(
            site,
            **{
                "transforms": "field",
                "transforms.field.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
                "transforms.field.field": "none",
            },
        ),
        ("task_failed_otherwise",),
        (),
    ),
    "the connector is disabled": (lambda site: site.put(enabled="false"), ("connector_disabled",), ()),
    "the connector starts while the source hangs": (
        started_without_source,
        ("brokers_silent", "connector_unassigned"),
        (),
    ),
    "the opposite flow is asked about": (lambda site: site.turned(), (), ("flow_at_rest", "group_sync_off")),
    # -- topics and records
    "the target refuses to create a topic": (creation_refused, ("topic_not_created",), ()),
    "a quota holds MirrorMaker 2 back": (written_too_fast, ("flow_too_slow",), ()),
    "a transaction stays open": (open_transaction, ("partition_stands",), ()),
    "a record is damaged": (damaged_record, ("task_stands",), ()),
    "the login that the configuration refers to was changed": (login_changed, ("flow_stands",), ()),
    # -- settings
    "one connector names topics otherwise": (
        lambda site: site.put("checkpoint", **{"source.cluster.alias": "elsewhere"}),
        ("naming_differs",),
        (),
    ),
    "checkpoints are off": (
        lambda site: site.put("checkpoint", **{"emit.checkpoints.interval.seconds": "-1"}),
        ("checkpoints_off",),
        (),
    ),
    # -- internal topics and groups
    "the offset syncs' topic is deleted": (syncs_deleted, ("internal_topic_missing",), ()),
    "MirrorMaker 2 may not write offset syncs": (syncs_denied, ("offset_syncs_quiet",), ()),
    "the partition's offset syncs are gone": (
        lambda site: late_group(site, older_syncs_gone(site), IDLE, 2),
        ("offset_syncs_gone",),
        (),
    ),
    "a group is behind the oldest offset sync": (
        lambda site: late_group(site, older_syncs_gone(site), BUSY, 1),
        ("position_before_syncs",),
        (),
    ),
    "MirrorMaker 2 may not read offset syncs": (
        lambda site: group_moves(site, syncs_unread(site)),
        ("checkpoint_stands",),
        (),
    ),
    "a new group is left out": (
        lambda site: late_group(site, site.put("checkpoint", **{"groups.exclude": "late-.*"}), BUSY, 1),
        (),
        ("group_left_out",),
    ),
    "group positions are written rarely": (
        lambda site: group_moves(site, site.put("checkpoint", **{"sync.group.offsets.interval.seconds": "600"})),
        ("group_sync_awaited",),
        (),
    ),
    "MirrorMaker 2 may not read the topic on the target": (
        lambda site: group_moves(site, site.denied(TARGET, "TOPIC", site.site.remote(BUSY), "READ")),
        ("group_not_writable",),
        (),
    ),
    "MirrorMaker 2 may not commit from its own host": (
        # It may from others, and Switchback does not know on which host it runs.
        lambda site: group_moves(site, site.denied(TARGET, "GROUP", GROUP, "READ", host="127.0.0.1")),
        ("group_sync_stands",),
        (),
    ),
    # -- Switchback's own rights
    "Switchback may not read offset syncs": (
        lambda site: site.denied(TARGET, "TOPIC", SYNCS_TOPIC, "READ", user=ORCHESTRATOR),
        ("cannot_read",),
        (),
    ),
}
