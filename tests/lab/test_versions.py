"""Kafka versions of a site: what exists, what is refused by name, and what an older version needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.__main__ import main
from lab.environment.bring_up import _new_record
from lab.environment.brokers import _properties
from lab.environment.connect import connector_config
from lab.environment.state import Lab
from lab.environment.versions.choices import choose_versions, keep_versions
from lab.environment.versions.releases import BROKERS, CONNECT, NEWEST, RELEASES, versions_of
from lab.environment.versions.zookeeper import start_zookeeper, with_zookeeper
from lab.errors import LabError
from lab.install.jars import jar_digests, list_of_version


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab that has a record but runs nothing."""
    lab = Lab(tmp_path / "state")
    lab.save(_new_record("identity", "read_uncommitted"))
    return lab


def test_the_versions_are_those_agreed() -> None:
    """Brokers and Connect workers have lists of their own."""
    assert versions_of(BROKERS) == ["2.8.2", "3.4.1", "3.7.2", "3.9.2", "4.3.1"]
    assert versions_of(CONNECT) == ["2.8.2", "3.7.2", "4.3.1"]
    assert [release.version for release in RELEASES.values() if release.zookeeper] == ["2.8.2", "3.4.1"]


@pytest.mark.parametrize("version", [version for version in RELEASES if version != NEWEST])
def test_every_version_has_its_manifest(version: str) -> None:
    """Each jar of broker, Connect and MirrorMaker 2 has its digest; no two logging libraries meet."""
    names = {name.removeprefix("kafka/") for name in jar_digests(list_of_version(version))}
    assert {f"kafka_2.13-{version}.jar", f"connect-mirror-{version}.jar", "reload4j-1.2.26.jar"} <= names
    assert not [name for name in names if name.startswith(("log4j", "logback", "slf4j-log4j12"))]


REFUSED = {
    "an unknown cluster": (["--kafka", "third=3.4.1"], "no cluster 'third'"),
    "an unknown version": (["--kafka", "primary=3.4"], "brokers of version '3.4'"),
    "a version of brokers only": (["--connect", "standby=3.4.1"], "Connect and MirrorMaker 2 of version '3.4.1'"),
    "no version": (["--kafka", "primary"], "ALIAS=VERSION"),
    "a cluster twice": (["--kafka", "primary=3.4.1", "--kafka", "primary=3.7.2"], "each cluster once"),
    "a version of none, in production": (["--kafka", "primary=3.5.1", "--profile", "production"], "version '3.5.1'"),
    "a naming that did not exist": (["--connect", "standby=2.8.2"], "2.8.2 has no identity naming"),
    "that naming, in production": (["--connect", "primary=2.8.2", "--profile", "production"], "no identity naming"),
}


@pytest.mark.parametrize(("words", "told"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_exist_is_refused_by_name(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is started or written."""
    assert main(["up", "--state", str(tmp_path / "lab"), *words]) == 1
    said = capsys.readouterr().err
    assert told in said and words[0] in said
    assert not (tmp_path / "lab").exists()


def test_dedicated_mode_has_the_newest_version_only(tmp_path: Path) -> None:
    """No test has shown an older one."""
    with pytest.raises(LabError, match="dedicated mode"):
        choose_versions(Lab(tmp_path), None, {"standby": "3.7.2"}, "identity", dedicated=True)


def test_a_lab_keeps_its_versions(lab: Lab) -> None:
    """They stand in the status; asking for others is refused, asking for none keeps them."""
    keep_versions(lab, {"--kafka": {"primary": "3.4.1"}, "--connect": {"standby": "3.7.2"}})
    kept = choose_versions(lab, None, None, "identity", dedicated=False)
    assert kept == {"--kafka": {"primary": "3.4.1"}, "--connect": {"standby": "3.7.2"}}
    same = {"primary": "3.4.1", "standby": NEWEST}
    assert choose_versions(lab, same, {"standby": "3.7.2"}, "identity", dedicated=False) == kept
    with pytest.raises(LabError, match=r"created with --kafka primary=3.4.1, standby=4.3.1, not primary=3.7.2"):
        choose_versions(lab, {"primary": "3.7.2"}, None, "identity", dedicated=False)
    clusters = json.loads(json.dumps(lab.status()))["clusters"]
    assert {alias: cluster["kafka_version"] for alias, cluster in clusters.items()} == {
        "primary": "3.4.1",
        "standby": "4.3.1",
    }


def test_a_broker_with_zookeeper_has_no_controller(lab: Lab) -> None:
    """Its settings are the ordinary ones, less all that a KRaft controller needs."""
    ordinary = _properties(lab, "primary")
    old = with_zookeeper(ordinary, lab, "primary")
    assert not [key for key in old if key.startswith(("controller.", "process.", "node."))]
    assert "CONTROLLER" not in "".join(map(str, old.values())) and "ANONYMOUS" not in str(old["super.users"])
    assert old["zookeeper.connect"] == ordinary["controller.quorum.voters"].partition("@")[2]
    assert old["authorizer.class.name"] == "kafka.security.authorizer.AclAuthorizer"
    assert old["min.insync.replicas"] == ordinary["min.insync.replicas"]


def test_settings_have_the_names_of_their_version(lab: Lab) -> None:
    """MirrorMaker 2 before 3.0 reads the source's client settings without `source.`."""
    newest = connector_config(lab, "primary", "standby", "source")
    keep_versions(lab, {"--kafka": {}, "--connect": {"standby": "2.8.2"}})
    old = connector_config(lab, "primary", "standby", "source")
    assert newest["source.consumer.isolation.level"] == old["consumer.isolation.level"] == "read_uncommitted"
    assert newest["source.admin.request.timeout.ms"] == old["admin.request.timeout.ms"]
    assert not [key for key in old if key.startswith(("source.consumer.", "source.admin."))]
    assert {key for key in newest if key.startswith("source.cluster.")} <= set(old)


def test_a_zookeeper_that_still_reads_its_log_is_waited_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers, but knows no broker's registration yet: a broker started now would end at once."""
    answers = ["This ZooKeeper instance is not currently serving requests", "ephemeral nodes dump:\n"]
    monkeypatch.setattr("lab.environment.versions.zookeeper.ask_zookeeper", lambda *_: answers.pop(0))
    monkeypatch.setattr(type(lab.processes), "pid", lambda *_: 7)
    monkeypatch.setattr(type(lab), "once", lambda *_: None)
    start_zookeeper(lab, "primary")
    assert answers == []
