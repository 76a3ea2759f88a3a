"""The offset option of a flow in the topology: recorded with its reason, refused where the set-up contradicts it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.config.settings import check_topology, load_topology
from kafka_dr.domain.mirror_maker.offset_option import OffsetOption, RecordedOption
from kafka_dr.procedure.binding import topology_digest

from tests.plugins.kafka_dr.config.test_settings import LAB, changed, problems_of, write

ACCEPT = {"option": "accept_replication_only", "reason": "all consumers are idempotent"}
SPLIT = {"source": "a", "checkpoint": {"connect": "connect_offsets", "name": "b"}}


def record(option: str, **others: Any) -> Callable[[dict[str, Any]], Any]:
    """Record an option for the first flow, after other changes of the flow."""
    return lambda data: data["flows"][0].update(offset_option={"option": option, "reason": "r"}, **others)


def named(naming: dict[str, Any], option: str) -> dict[str, Any]:
    """The lab's topology under another naming, with this option of the first flow."""
    return changed(lambda data: (data.update(naming=naming), record(option)(data)))


def test_a_record_is_read_with_its_date_and_person(tmp_path: Path) -> None:
    """A date as YAML reads it, or as text; the flow that has no record has None."""
    decided = "offset_option: {option: accept_replication_only, reason: 'one reader', date: 2026-11-20, person: J. Doe}"
    (line,) = [text for text in LAB.splitlines() if "source: primary," in text]
    topology = load_topology(write(tmp_path, LAB.replace(line, line[:-1] + f", {decided}}}")))
    first, second = topology.flows
    wanted = RecordedOption(OffsetOption.ACCEPT_REPLICATION_ONLY, "one reader", "2026-11-20", "J. Doe")
    assert first.offset_option is not None and first.offset_option.recorded == wanted
    assert second.offset_option is None
    text = changed(lambda data: data["flows"][0].update(offset_option=ACCEPT | {"date": "2026-11-20"}))
    stated = check_topology(text, "t").flows[0].offset_option
    assert stated is not None and (stated.date, stated.person) == ("2026-11-20", None)


@pytest.mark.parametrize(
    ("naming", "option"),
    [
        ({"policy": "identity"}, "accept_replication_only"),
        ({"policy": "identity", "policy_class": "com.example.DrPolicy"}, "custom_policy"),
        ({"policy": "template", "template": "x-<source>-<topic>"}, "custom_policy"),
        ({"policy": "template", "template": "x-<source>-<topic>", "policy_class": "own.X"}, "prefix_in_application"),
        ({"policy": "default"}, "prefix_in_application"),
    ],
)
def test_an_option_that_the_naming_has_is_accepted(naming: dict[str, Any], option: str) -> None:
    """Also with the name of the custom class."""
    topology = check_topology(named(naming, option), "t")
    assert topology.naming.policy_class == naming.get("policy_class")
    assert topology.flows[0].offset_option is not None


def test_two_deployments_are_two_workers_or_a_stop_hook() -> None:
    """The checkpoint connector names its own worker; in dedicated mode the hook stops both."""
    split = check_topology(changed(record("two_deployments", connectors=SPLIT)), "t").flows[0]
    assert split.workers == ("connect_standby", "connect_offsets")
    hook = record("two_deployments", connect=None, stop_hook="stop_both")
    assert check_topology(changed(hook), "t").flows[0].workers == ()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (named({"policy": "identity"}, "custom_policy"), "flows[0].offset_option.option: custom_policy: `naming` has"),
        (named({"policy": "default"}, "custom_policy"), "which is MirrorMaker 2's own class"),
        (named({"policy": "identity"}, "prefix_in_application"), "no topic has a prefix"),
        (named({"policy": "default"}, "accept_replication_only"), "record prefix_in_application"),
        (
            named({"policy": "identity", "policy_class": "a.B"}, "accept_replication_only"),
            "topics are not named by IdentityReplicationPolicy: record custom_policy",
        ),
        (changed(record("two_deployments")), "both connectors are in one Connect worker"),
        (
            changed(
                record(
                    "two_deployments", connectors=SPLIT | {"checkpoint": {"connect": "connect_standby", "name": "b"}}
                )
            ),
            "both connectors are in one Connect worker",
        ),
        (changed(record("improvise")), "flows[0].offset_option.option: 'improvise'"),
        (changed(lambda d: d["flows"][0].update(offset_option="custom_policy")), "flows[0].offset_option"),
        (changed(lambda d: d["flows"][0].update(offset_option={"option": "custom_policy"})), "reason: missing"),
        (changed(lambda d: d["flows"][0].update(offset_option=ACCEPT | {"reason": " "})), "a text on one line"),
        (changed(lambda d: d["flows"][0].update(offset_option=ACCEPT | {"date": "soon"})), "expected a day such as"),
        (changed(lambda d: d["flows"][0].update(offset_option=ACCEPT | {"date": 3})), "offset_option.date"),
        (
            changed(lambda d: d["flows"][0].update(offset_option=ACCEPT | {"by": "me"})),
            "allowed keys: date, option, person, reason",
        ),
        (
            changed(lambda d: d.update(naming={"policy": "identity", "policy_class": "a b"})),
            "full name of a Java class",
        ),
        (
            changed(lambda d: d.update(naming={"policy": "identity", "policy_class": 3})),
            "naming.policy_class",
        ),
        (
            changed(
                lambda d: d.update(
                    naming={
                        "policy": "identity",
                        "policy_class": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
                    }
                )
            ),
            "is MirrorMaker 2's own class; leave `policy_class` out",
        ),
        (
            changed(lambda d: d.update(naming={"policy": "default", "policy_class": "a.B"})),
            "policy `default` relies on MirrorMaker 2's own class to stop loops",
        ),
        (
            changed(lambda d: d.update(naming={"policy": "template", "template": "<topic>"})),
            "a class that keeps all names is policy `identity` with `policy_class`",
        ),
    ],
)
def test_what_contradicts_the_set_up_is_refused_where_it_stands(data: dict[str, Any], words: str) -> None:
    """With what to record or to change."""
    assert words in "\n".join(problems_of(data))


def test_a_decision_that_is_written_down_stops_no_run() -> None:
    """The digest to which a run is bound leaves the record out, but not the custom class."""
    plain, recorded = changed(lambda data: None), changed(lambda data: data["flows"][0].update(offset_option=ACCEPT))
    custom = changed(lambda data: data.update(naming={"policy": "identity", "policy_class": "a.B"}))
    digests = [topology_digest(check_topology(data, "t")) for data in (plain, recorded, custom)]
    assert digests[0] == digests[1] == "f7614967afdbe8b25340959446a510eb9a8edbfeeb38e55f81e7328f894b9a10"
    assert digests[2] != digests[0]
