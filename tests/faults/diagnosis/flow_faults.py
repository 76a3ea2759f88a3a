"""Faults of a diagnosed site that stop a part of its flow or leave topics or groups out, and what is found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from tests.faults.diagnosis.diagnosed_site import (
    CHECKPOINT_CONNECTOR,
    CONNECTORS,
    HEARTBEAT_CONNECTOR,
    SOURCE_CONNECTOR,
    SOURCE_JAAS,
    TARGET_JAAS,
    DiagnosedSite,
    jaas,
    new_topic,
)
from tests.faults.readiness.checked_site import BUSY, GROUP, IDLE
from tests.faults.readiness.one_check import SOURCE, TARGET
from tests.faults.support.scene import until
from tests.faults.support.stepping import Run

Fault = Callable[[DiagnosedSite], AbstractContextManager[object]]
#: What is wrong, how to make it so, what is found, which choices are named.
Case = tuple[Fault, tuple[str, ...], tuple[str, ...]]
WITHOUT_HEARTBEATS = {"source": SOURCE_CONNECTOR, "checkpoint": CHECKPOINT_CONNECTOR}


# -- faults that take more than one line ------------------------------------------------------------------------------


@contextmanager
def lease_held(site: DiagnosedSite) -> Iterator[None]:
    """A procedure holds the clusters, and the source connector is stopped."""
    run = Run({"source": SOURCE, "target": TARGET, "reason": "holds the clusters"})
    assert site.driver.step(run, "open_procedure") == "done"
    try:
        with site.site.stopped():
            yield
    finally:
        site.driver.step(run, "return_to_source")
        site.driver.step(run, "close_procedure")


@contextmanager
def large_record(site: DiagnosedSite) -> Iterator[None]:
    """The connector's producer takes no record as large as one that was written."""
    with site.put(**{"producer.override.max.request.size": "100"}):
        site.site.write(BUSY, 3)
        site.await_failed()
        yield


@contextmanager
def write_denied(site: DiagnosedSite) -> Iterator[None]:
    """The worker's producer may not write to a topic of the target."""
    with site.denied(TARGET, "TOPIC", site.site.remote(IDLE), "WRITE"):
        site.site.write(IDLE, 2)
        site.await_failed()
        yield
    site.restart()


@contextmanager
def read_denied(site: DiagnosedSite) -> Iterator[None]:
    """MirrorMaker 2 may describe the idle topic on the source, and not read it, while records are written."""
    with site.denied(SOURCE, "TOPIC", IDLE, "READ"):
        # A fetch that waits for records was allowed before, and would still get them.
        time.sleep(2.0)
        site.site.write(IDLE, 3)
        yield


@contextmanager
def hidden_and_excluded(site: DiagnosedSite) -> Iterator[None]:
    """Two topics are missing on the target: one for an ACL entry, one for a filter that the topology contradicts."""
    hidden, excluded = new_topic("hidden"), new_topic("excluded")
    with (
        site.denied(SOURCE, "TOPIC", hidden, "DESCRIBE"),
        site.put(**{"topics.exclude": f"__.*,{excluded}"}),
        site.site.flow(mirror_maker={"topics": ".*"}),
        site.fresh(name=hidden),
        site.fresh(name=excluded),
    ):
        yield


@contextmanager
def hidden_topic(site: DiagnosedSite) -> Iterator[None]:
    """A new topic that MirrorMaker 2's principal may not see on the source."""
    name = new_topic("hidden")
    with site.denied(SOURCE, "TOPIC", name, "DESCRIBE"), site.fresh(name=name):
        yield


@contextmanager
def colliding_topic(site: DiagnosedSite) -> Iterator[None]:
    """The target has a topic whose name differs from a new one's by a dot only."""
    name = new_topic("clash").replace("-", ".")
    with site.on_target(site.site.remote(name).replace(".", "_")), site.fresh(name=name):
        yield


@contextmanager
def creation_denied(site: DiagnosedSite) -> Iterator[None]:
    """MirrorMaker 2's principal may not create a new topic on the target."""
    name = new_topic("denied")
    with (
        site.denied(TARGET, "BROKER", "kafka-cluster", "CREATE"),
        site.denied(TARGET, "TOPIC", site.site.remote(name), "CREATE"),
        site.fresh(name=name),
    ):
        yield


@contextmanager
def new_beside(site: DiagnosedSite, **settings: str) -> Iterator[None]:
    """A new topic, while the source connector looks for topics in another way."""
    with site.put(**settings), site.fresh():
        yield


@contextmanager
def other_partitions(site: DiagnosedSite) -> Iterator[None]:
    """The target's topic has more partitions."""
    with site.fresh() as topic:
        until(lambda: site.has_records(topic), "the copies", 60.0)
        site.add_partitions(TARGET, site.site.remote(topic), 2)
        yield


@contextmanager
def foreign_writer(site: DiagnosedSite) -> Iterator[None]:
    """Another client writes to a topic of the mirrored name on the target."""
    with site.fresh() as topic:
        until(lambda: site.has_records(topic), "the copies", 60.0)
        site.write_as_other(site.site.remote(topic), TARGET)
        yield


@contextmanager
def copies_deleted(site: DiagnosedSite) -> Iterator[None]:
    """The target's topic is deleted; MirrorMaker 2 makes it again, empty."""
    with site.fresh() as topic:
        until(lambda: site.has_records(topic), "the copies", 60.0)
        site.is_healthy()
        site.delete_from(TARGET, site.site.remote(topic))
        yield


@contextmanager
def overtaken(site: DiagnosedSite) -> Iterator[None]:
    """The source deletes records while the connector that would copy them is stopped."""
    with site.fresh() as topic:
        until(lambda: site.has_records(topic), "the copies", 60.0)
        site.is_healthy()
        with site.site.stopped():
            site.site.write(topic, 4)
            site.delete_records(topic)
            yield


@contextmanager
def in_a_circle(site: DiagnosedSite) -> Iterator[None]:
    """Both directions run on one topic."""
    with site.fresh() as topic:
        until(lambda: site.has_records(topic), "the copies", 60.0)
        with site.reverse_running(topic):
            yield


@contextmanager
def group_moves(site: DiagnosedSite, fault: AbstractContextManager[object]) -> Iterator[None]:
    """The group reads on while something is wrong on the target."""
    with fault:
        site.site.write(BUSY, 9)
        site.site.commit(GROUP, BUSY, site.site.ends[BUSY])
        yield


@contextmanager
def two_faults(site: DiagnosedSite) -> Iterator[None]:
    """The source connector's password is wrong, and the group works on the target."""
    with group_moves(site, site.site.member_on_target()):
        site.finds("group_active_on_target")
        with site.put(**{SOURCE_JAAS: jaas("mm2", "wrong")}):
            yield


@contextmanager
def new_group(site: DiagnosedSite) -> Iterator[None]:
    """A new group, which MirrorMaker 2 looks for only every ten minutes."""
    with site.put("checkpoint", **{"refresh.groups.interval.seconds": "600"}):
        site.site.commit("late-group", BUSY, site.site.ends[BUSY])
        yield
    for future in site.site.admins[SOURCE].delete_consumer_groups(["late-group"]).values():
        future.result(30)


@contextmanager
def multiplied(site: DiagnosedSite) -> Iterator[None]:
    """A topic of heartbeats has gone there and back."""
    with site.on_target(f"{SOURCE}.{TARGET}.{SOURCE}.heartbeats"):
        yield


COMMON: dict[str, Case] = {
    # -- clusters and workers
    "Switchback's own login is wrong": (
        lambda site: site.connection(f"kafka_{SOURCE}", extra={"sasl.password": "wrong"}),
        ("own_login_refused",),
        (),
    ),
    "both connections lead to one cluster": (
        lambda site: site.connection(f"kafka_{TARGET}", like=f"kafka_{SOURCE}"),
        ("clusters_are_one", "worker_writes_elsewhere"),
        (),
    ),
    "no broker listens": (
        lambda site: site.connection(f"kafka_{SOURCE}", extra={"bootstrap.servers": "127.0.0.1:1"}),
        ("brokers_unreachable",),
        (),
    ),
    "the source's broker is frozen": (lambda site: site.frozen(f"broker-{SOURCE}"), ("brokers_silent",), ()),
    "the worker is frozen": (lambda site: site.frozen(f"connect-{TARGET}"), ("worker_silent",), ()),
    "broker and worker are frozen": (
        lambda site: site.frozen(f"broker-{SOURCE}", f"connect-{TARGET}"),
        ("brokers_silent", "worker_silent"),
        (),
    ),
    "the worker refuses the login": (lambda site: site.worker_answers(401), ("worker_refuses_login",), ()),
    "the topology names the other worker": (
        lambda site: site.site.flow(connect=f"connect_{SOURCE}", connectors=WITHOUT_HEARTBEATS),
        ("worker_writes_elsewhere", "connector_missing"),
        (),
    ),
    # -- connectors
    "the connector is missing": (
        lambda site: site.site.flow(connectors=CONNECTORS | {"source": "nowhere"}),
        ("connector_missing",),
        (),
    ),
    "the connector is stopped": (lambda site: site.site.stopped(), ("connector_stopped",), ()),
    "the connector is paused": (
        lambda site: site.paused(TARGET, CHECKPOINT_CONNECTOR, "pause"),
        ("connector_stopped",),
        (),
    ),
    "a procedure holds the clusters": (lease_held, (), ("held_by_procedure",)),
    "the source's password is wrong": (
        lambda site: site.put(**{SOURCE_JAAS: jaas("mm2", "wrong")}),
        ("source_login_refused",),
        (),
    ),
    "the target's password is wrong": (
        lambda site: site.put(**{TARGET_JAAS: jaas("mm2", "wrong")}),
        ("target_login_refused",),
        (),
    ),
    "the source's address is wrong": (
        lambda site: site.put(**{"source.cluster.bootstrap.servers": "127.0.0.1:1"}),
        ("source_address_wrong",),
        (),
    ),
    "the target's address is wrong": (
        lambda site: site.put("checkpoint", **{"target.cluster.bootstrap.servers": "127.0.0.1:1"}),
        ("target_address_wrong",),
        (),
    ),
    "the login that the configuration refers to is wrong": (
        lambda site: site.wrong_reference(SOURCE_JAAS),
        ("connector_without_tasks",),
        (),
    ),
    "the JAAS text is unusable": (
        lambda site: site.put("checkpoint", **{SOURCE_JAAS: "none"}),
        ("setting_refused",),
        (),
    ),
    "a record is too large": (large_record, ("record_too_large",), ()),
    "the producer may not write": (write_denied, ("task_lacks_rights",), ()),
    # -- topics and records
    "the filter leaves a topic out that was copied": (
        lambda site: site.put(**{"topics.exclude": f"__.*,{IDLE}"}),
        ("topic_excluded",),
        (),
    ),
    "the pattern matches nothing": (
        # It must match the whole name. The third topic was never copied, so nothing says that it should be.
        lambda site: site.put(topics="busy."),
        ("topic_excluded",),
        ("topic_left_out",),
    ),
    "an ACL entry hides a topic": (hidden_topic, ("topic_hidden",), ()),
    "one topic is hidden, another excluded": (hidden_and_excluded, ("topic_hidden", "topic_excluded"), ()),
    "names collide": (colliding_topic, ("topic_name_impossible",), ()),
    "MirrorMaker 2 may not create topics": (creation_denied, ("topic_creation_denied",), ()),
    "new topics are not looked for": (
        lambda site: new_beside(site, **{"refresh.topics.enabled": "false"}),
        ("topic_refresh_off",),
        (),
    ),
    "a topic is new": (
        lambda site: new_beside(site, **{"refresh.topics.interval.seconds": "600"}),
        ("topic_awaited",),
        (),
    ),
    "partitions differ": (other_partitions, ("partitions_differ",), ()),
    "another client writes to the copy": (foreign_writer, ("topic_name_taken",), ()),
    "the copies were deleted": (copies_deleted, ("copies_gone",), ()),
    "retention was faster, and the connector stands": (overtaken, ("records_overtaken", "connector_stopped"), ()),
    "MirrorMaker 2 may not read a topic": (read_denied, ("topic_unreadable",), ()),
    # -- settings and loops
    "both directions run": (in_a_circle, ("records_in_a_circle",), ()),
    "topics multiply": (multiplied, ("aliases_repeat",), ()),
    "offset syncs are apart": (
        lambda site: site.put("checkpoint", **{"offset-syncs.topic.location": "source"}),
        ("offset_syncs_apart",),
        (),
    ),
    "offset syncs are off": (
        lambda site: site.put(without="offset-syncs.topic.", **{"emit.offset-syncs.enabled": "false"}),
        ("offset_syncs_off",),
        (),
    ),
    "offset syncs are rare": (lambda site: site.put(**{"offset.lag.max": "100000"}), ("offset_lag_large",), ()),
    "group sync is off": (
        lambda site: site.put("checkpoint", **{"sync.group.offsets.enabled": "false"}),
        (),
        ("group_sync_off",),
    ),
    # -- internal topics and groups
    "no heartbeat is written": (
        lambda site: site.paused(SOURCE, HEARTBEAT_CONNECTOR),
        ("heartbeats_not_written",),
        (),
    ),
    "heartbeats are not mirrored": (
        lambda site: site.put(**{"heartbeats.replication.enabled": "false"}),
        ("heartbeats_not_mirrored",),
        (),
    ),
    "the group is excluded": (
        lambda site: site.put("checkpoint", **{"groups.exclude": GROUP}),
        ("group_excluded",),
        (),
    ),
    "the checkpoint connector excludes the topic": (
        lambda site: site.put("checkpoint", **{"topics.exclude": BUSY}),
        ("group_topic_excluded",),
        (),
    ),
    "an ACL entry hides the group": (
        lambda site: site.denied(SOURCE, "GROUP", GROUP, "DESCRIBE"),
        ("group_hidden",),
        (),
    ),
    "the group works on the target": (
        lambda site: group_moves(site, site.site.member_on_target()),
        ("group_active_on_target",),
        (),
    ),
    "MirrorMaker 2 may not commit": (
        lambda site: group_moves(site, site.denied(TARGET, "GROUP", GROUP, "READ")),
        ("group_not_writable",),
        (),
    ),
    "a group is new": (new_group, ("checkpoint_awaited",), ()),
    # -- two at once
    "a wrong password and a group on the target": (
        two_faults,
        ("source_login_refused", "group_active_on_target"),
        (),
    ),
}
