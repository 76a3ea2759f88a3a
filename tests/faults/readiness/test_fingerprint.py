"""What voids a drill, changed on real parts: each item is named, the state says so, and it counts again afterwards.

The target begins with an older Kafka, of brokers and of Connect, so that both can be upgraded and taken back.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from lab.environment.brokers import start_broker
from lab.environment.connect import connector_name, start_worker
from lab.environment.state import Lab
from tests.faults.readiness.checked_site import (
    BUSY,
    CheckedSite,
    ca_certificate,
    changed_items,
    checked_site,
    found,
    with_ca,
)
from tests.faults.readiness.one_check import SOURCE, TARGET, document_of_flow, run_once
from tests.faults.support.scene import until
from tests.faults.support.stepping import ROOT

OLD = "3.7.2"
SOURCE_CONNECTOR, CHECKPOINT_CONNECTOR = (connector_name(SOURCE, TARGET, kind) for kind in ("source", "checkpoint"))
Fault = AbstractContextManager[object]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedSite]:
    """A flow that is VERIFIED, from the newest Kafka to an older one."""
    with checked_site(tmp_path_factory, kafka={TARGET: OLD}, connect={TARGET: OLD}) as made:
        made.make_verified()
        yield made


@contextmanager
def upgraded(site: CheckedSite, part: str, start: Callable[[Lab, str], bool]) -> Iterator[None]:
    """Run the newest version of the target's broker or Connect worker inside this context, on the same data."""
    _restart(site.lab, part, None, start)
    try:
        yield
    finally:
        _restart(site.lab, part, OLD, start)


def _restart(lab: Lab, part: str, version: str | None, start: Callable[[Lab, str], bool]) -> None:
    record = lab.load()
    setattr(record, {"broker": "kafka", "connect": "connect"}[part], {TARGET: version} if version else {})
    lab.save(record)
    name = f"{part}-{TARGET}"
    os.kill(lab.processes.pid(name), signal.SIGTERM)
    until(lambda: lab.processes.pid(name) is None, f"{name} to end", 60.0)
    assert start(lab, TARGET)


@contextmanager
def clusters_swapped(site: CheckedSite) -> Iterator[None]:
    """The source's connection leads to the target's cluster."""
    with site.connection(f"kafka_{SOURCE}", like=f"kafka_{TARGET}"):
        yield


@contextmanager
def other_worker(site: CheckedSite) -> Iterator[None]:
    """The flow names another connection of the same Connect worker."""
    with site.connection("connect_renamed", like=f"connect_{TARGET}"), site.flow(connect="connect_renamed"):
        yield


@contextmanager
def new_topic(site: CheckedSite, name: str, policy: str) -> Iterator[None]:
    """One more topic."""
    site.create(NewTopic(name, 1, 1, config={"cleanup.policy": policy}))
    until(lambda: site.remote(name) in site.admins[TARGET].list_topics(timeout=30).topics, "the copy", 60.0)
    yield
    # The flow's connector, which lists topics, must not find it again on the source first.
    for alias, topic in ((SOURCE, name), (TARGET, site.remote(name))):
        (deleted,) = site.admins[alias].delete_topics([topic]).values()
        deleted.result(30)


#: What is changed, and what of the fingerprint is then named; the state is NEEDS_VERIFICATION.
CASES: dict[str, tuple[Callable[[CheckedSite], Fault], set[str]]] = {
    "source connector": (
        lambda site: site.configured(**{"offset.lag.max": "77"}),
        {f"{SOURCE_CONNECTOR}.offset.lag.max"},
    ),
    "checkpoint connector": (
        lambda site: site.configured("checkpoint", **{"emit.checkpoints.interval.seconds": "2"}),
        {f"{CHECKPOINT_CONNECTOR}.emit.checkpoints.interval.seconds"},
    ),
    "authorizer of the source": (
        lambda site: site.topology(
            lambda topology: topology["clusters"][SOURCE].update(allow_everyone_if_no_acl_found=True)
        ),
        {f"{SOURCE}.authorizer"},
    ),
    "CA": (lambda site: with_ca(site, ca_certificate(site.lab.root, 300.0)), {f"{TARGET}.ca"}),
    "connection of the worker": (other_worker, {"worker.connection"}),
    "version of the worker": (
        lambda site: upgraded(site, "connect", start_worker),
        {"worker.source.version"},
    ),
    "version of the brokers": (lambda site: upgraded(site, "broker", start_broker), {f"{TARGET}.kafka"}),
    "new kind of topic": (
        lambda site: new_topic(site, "states", "compact"),
        {"topics cleanup.policy=compact message.timestamp.type=CreateTime"},
    ),
    "new kind of right": (
        lambda site: site.entry(SOURCE, "auditor", "TOPIC", BUSY, "ALTER_CONFIGS"),
        {"acls allow alter_configs topic literal"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_voids_a_drill_is_named(site: CheckedSite, name: str) -> None:
    """By its item, with before and after; the drill counts again when all is as it was."""
    fault, items = CASES[name]
    with fault(site):
        document = until(lambda: settled(site), "only the drill to be found", 60.0)
        assert (document["state"], changed_items(document)) == ("NEEDS_VERIFICATION", items), document["reasons"]
        print(f"{name}: {document['reasons']}", flush=True)
    site.verified()


def settled(site: CheckedSite) -> dict | None:
    """The document of a check that found the drill alone; None while Connect or a broker still begins."""
    document = site.check()
    return document if found(document) == {"changed_since_drill"} else None


def test_more_of_a_drilled_kind_voids_nothing(site: CheckedSite) -> None:
    """One more topic like others."""
    with new_topic(site, "more", "delete"):
        site.verified()
    site.verified()


def test_what_also_fails_checks_is_named_too(site: CheckedSite) -> None:
    """Naming, and the clusters behind the connections: the items are named beside the checks that fail."""
    other = {"policy": "default", "separator": "_"}
    with site.topology(lambda topology: topology.update(naming=other)):
        document = site.check()
        assert {"naming", "naming.separator"} <= changed_items(document), document["reasons"]
        assert document["state"] == "NOT_VERIFIED"
    site.verified()
    with clusters_swapped(site):
        document = site.check()
        assert f"{SOURCE}.cluster_id" in changed_items(document), document["reasons"]
        assert document["state"] == "NOT_VERIFIED" and "clusters_differ" in found(document)
    site.verified()


def test_other_code_voids_a_drill(site: CheckedSite, tmp_path: Path) -> None:
    """One line more in one module of Switchback."""
    for part in ("plugins", "spark", "dags", "tests", "lab"):
        shutil.copytree(ROOT / part, tmp_path / part)
    with (tmp_path / "plugins" / "kafka_dr" / "errors.py").open("a") as module:
        module.write("# changed\n")
    path = os.pathsep.join(str(tmp_path / part) for part in ("plugins", "spark", "."))
    run_once(site.lab, "check", PYTHONPATH=path)
    document = document_of_flow(site.lab)
    assert (document["state"], changed_items(document)) == ("NEEDS_VERIFICATION", {"product"}), document["reasons"]
    site.verified()
