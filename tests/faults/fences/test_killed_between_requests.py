"""An entry for everyone is replaced by two requests: a process that dies in between locks nobody out, both ways."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import ResourceType

from lab.environment.state import ALIASES
from tests.faults.support.scene import DEADLINES, PARAMS, until
from tests.faults.support.stepping import Run, stepping
from tests.support.staged_lab import Stage, acl

EVERYONE = [acl("User:*", "ALL", "*"), acl("User:*", "ALL", "*", kind="GROUP")]
TOPIC, REFUSED = "ledger", "TOPIC_AUTHORIZATION_FAILED"
REMOVING = {"kill_before": "brokers.acls.ClusterAcls.remove"}


@contextmanager
def reading_throughout(stage: Stage) -> Iterator[list[str | list[bytes | None]]]:
    """Read the topic again and again, as a principal that no entry names; yield what each reading brought."""
    brought: list[str | list[bytes | None]] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.wait(0.2):
            brought.append(stage.read("nobody", TOPIC))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield brought
    finally:
        ended.set()
        reader.join()


def test_killed_between_the_two_requests_both_ways(fresh_lab: Callable[..., Path], tmp_path: Path) -> None:
    """In between clients still write, and MirrorMaker 2 always does; the next process ends what was begun."""
    stage = Stage(fresh_lab("identity", airflow=False))
    for alias in ALIASES:
        stage.remove_acls(alias, [ResourceType.TOPIC, ResourceType.GROUP])
    stage.allow(*EVERYONE)
    stage.create({TOPIC: 1})
    stage.add_users("nobody")
    stage.logins["mm2"] = {"sasl.username": "mm2", "sasl.password": stage.lab.load().passwords["mm2"]}
    assert stage.write("producer", TOPIC) == stage.write("nobody", TOPIC) == "ok"
    before = stage.acls()
    everyone = {entry for entry in before if entry[3] == "User:*"}
    run = Run({**PARAMS, **DEADLINES})
    with stepping(stage.lab, tmp_path / "steps") as driver, reading_throughout(stage) as brought:
        assert driver.forward(run, until="approve_failover"), run.texts
        assert driver.merged(driver.processes(run, "fence_producers", **REMOVING))["state"] == "killed"
        between = stage.acls()
        assert everyone < between and len(between) > len(before), "what takes its place was added, nothing removed"
        assert [stage.write(who, TOPIC) for who in ("mm2", "nobody")] == ["ok", "ok"]
        assert driver.step(run, "fence_producers") == "done", run.texts
        assert [stage.write(who, TOPIC) for who in ("mm2", "nobody", "producer")] == ["ok", REFUSED, REFUSED]
        assert not [entry for entry in stage.acls() if "DENY" in entry and entry[3] == "User:*"]
        assert driver.merged(driver.processes(run, "return_to_source", **REMOVING))["state"] == "killed"
        assert everyone < stage.acls(), "added again before anything is removed"
        assert [stage.write(who, TOPIC) for who in ("mm2", "nobody", "producer")] == ["ok", "ok", "ok"]
        assert driver.step(run, "return_to_source") == "done", run.texts
        until(lambda: stage.acls() == before, "entries as they were")
    assert len(brought) > 5 and not [one for one in brought if isinstance(one, str)], brought
