"""Loading the topology file: what is accepted, and that everything wrong is said at once without a secret."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka_dr.config.settings import check_topology, load_topology
from kafka_dr.errors import BadInput
from kafka_dr.procedure.binding import topology_digest

LAB = """\
clusters:
  primary:
    connection: kafka_primary
    probe_connection: kafka_primary_probe
    principals: {mirror_maker: ["User:mm2"], orchestrator: ["User:orchestrator"], exempt: ["User:admin"]}
  standby:
    connection: kafka_standby
    probe_connection: kafka_standby_probe
    principals: {mirror_maker: ["User:mm2"], orchestrator: ["User:orchestrator"], exempt: ["User:admin"]}
naming: {policy: identity}            # or {policy: default, separator: "."}
flows:
  - {source: primary, target: standby, connect: connect_standby, connectors: {source: primary-to-standby-source, checkpoint: primary-to-standby-checkpoint, heartbeat: primary-to-standby-heartbeat}}
  - {source: standby, target: primary, connect: connect_primary, connectors: {source: standby-to-primary-source, checkpoint: standby-to-primary-checkpoint, heartbeat: standby-to-primary-heartbeat}}
drain: {connection: drain_app}
routing: {kind: file, path: /state/routing.json}
journal: {connection: kafka_dr_journal}
airflow_api: {connection: airflow_api}
spark: {connection: spark_default}
fence_hook: {connection: fence_net}
evidence: /state/evidence
cool_down_seconds: 0
"""


def write(folder: Path, text: str | bytes) -> Path:
    """Writes a topology file."""
    path = folder / "topology.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


DNS = {
    "kind": "dns",
    "connection": "client_dns",
    "zone": "example.com",
    "name": "Kafka.example.com",
    "answers": {"primary": "east.example.com", "standby": ["192.0.2.1", "2001:DB8::1"]},
}


def without_worker(data: dict[str, Any], settings: dict[str, str]) -> None:
    """Have a flow run in dedicated mode, with these settings."""
    flow = data["flows"][0]
    flow |= {"stop_hook": "stop", "mirror_maker": settings}
    del flow["connect"]


def changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The lab's topology after a change."""
    data = copy.deepcopy(yaml.safe_load(LAB))
    change(data)
    return data


def problems_of(data: dict[str, Any]) -> list[str]:
    """What is said to be wrong with a topology's data."""
    with pytest.raises(BadInput) as error:
        check_topology(data, "topology.yaml")
    assert all(problem in str(error.value) for problem in error.value.problems)
    return list(error.value.problems)


def test_lab_shape_is_loaded(tmp_path: Path) -> None:
    """The file the lab writes is loaded, with defaults for what it does not say."""
    topology = load_topology(write(tmp_path, LAB))
    assert topology.aliases == ("primary", "standby")
    assert topology.cluster("primary").principals.mirror_maker == ("User:mm2",)
    assert topology.flow("primary", "standby").connectors.checkpoint.name == "primary-to-standby-checkpoint"
    found = (topology.drain.connection, topology.routing.path, topology.evidence)
    assert found == ("drain_app", "/state/routing.json", "/state/evidence")
    assert topology.fence_hook.connection == "fence_net"
    limits = topology.deadlines
    found = (limits.max_fence_seconds, limits.stable_seconds, limits.spark_seconds, limits.catch_up_seconds)
    assert (topology.cool_down_seconds, *found) == (0, 600, 1, 1800, 3600)
    assert topology.names.remote("primary", "orders") == "orders"


def test_the_applications_view_of_the_source_is_a_connection(tmp_path: Path) -> None:
    """Named like the drain hook, and left out where there is none; the window and the limit have defaults."""
    assert load_topology(write(tmp_path, LAB)).source_probe is None
    topology = load_topology(write(tmp_path, LAB + "source_probe: {connection: view_app}\n"))
    found = (topology.source_probe.connection, topology.deadlines.confirm_seconds, topology.deadlines.slow_seconds)
    assert found == ("view_app", 15, 3)


def test_a_setting_that_is_no_longer_used_is_accepted(tmp_path: Path) -> None:
    """A topology that worked before an upgrade is not refused after it."""
    assert load_topology(write(tmp_path, LAB + "kafka_tools: /opt/kafka/libs\n")).aliases == ("primary", "standby")


def test_default_naming_and_optional_parts(tmp_path: Path) -> None:
    """Default naming, no drain hook, no probe, an HTTP redirect and policies of groups are accepted."""
    text = LAB.replace("{policy: identity}", '{policy: default, separator: "."}').replace(
        "drain: {connection: drain_app}\n", ""
    )
    text = text.replace("    probe_connection: kafka_primary_probe\n", "").replace(
        "{kind: file, path: /state/routing.json}", "{kind: http, connection: dns}"
    )
    topology = load_topology(
        write(
            tmp_path, text + "groups: [{pattern: 'billing.*', policy: fail}, {pattern: '.*-live', policy: boundary}]\n"
        )
    )
    found = (topology.drain, topology.cluster("primary").probe_connection, topology.routing.connection)
    assert found == (None, None, "dns")
    assert topology.names.remote("primary", "orders") == "primary.orders"
    seen = [topology.policy_of(group) for group in ("billing-live", "x-live", "other")]
    assert seen == ["fail", "boundary", "earliest"]


def test_a_dns_name_compares_as_names_do(tmp_path: Path) -> None:
    """Small letters and a final dot; addresses in their short form; a TTL by default."""
    routing = load_topology(write(tmp_path, yaml.safe_dump(changed(lambda d: d.update(routing=DNS))))).routing
    assert (routing.zone, routing.name, routing.record_name, routing.ttl_seconds) == (
        "example.com.", "kafka.example.com.", "_switchback.kafka.example.com.", 30,
    )  # fmt: skip
    assert str(routing.expected["primary"]) == "CNAME east.example.com."
    assert str(routing.expected["standby"]) == "A 192.0.2.1, AAAA 2001:db8::1"


def with_logs(value: str) -> str:
    """The lab's topology with authorizer logs of the primary."""
    return LAB.replace("    probe_connection: kafka_primary_probe\n", f"    authorizer_logs: {value}\n")


def test_authorizer_logs_are_paths_from_the_files_folder(tmp_path: Path) -> None:
    """Absolute ones and globs stay as they are; a topology without them is the same as before."""
    topology = load_topology(write(tmp_path, with_logs("[logs/b1.log*, /var/log/b2.log]")))
    assert topology.cluster("primary").authorizer_logs == (f"{tmp_path}/logs/b1.log*", "/var/log/b2.log")
    assert topology.cluster("standby").authorizer_logs == ()
    without = load_topology(write(tmp_path, LAB))
    assert "authorizer_logs" not in str(without.model_dump(exclude_defaults=True))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("/var/log/b1.log", "'/var/log/b1.log': the value should be a valid list"),
        ("[1]", "clusters.primary.authorizer_logs[0] (line 4): 1"),
        ("['']", "expected a path"),
        (r'["a\nb"]', "expected a path without control characters"),
        ("[a.log, a.log]", "the same log stands there twice; each broker has a log of its own"),
    ],
)
def test_authorizer_logs_that_are_no_paths_are_refused(tmp_path: Path, value: str, words: str) -> None:
    """Each entry is one broker's log."""
    with pytest.raises(BadInput) as error:
        load_topology(write(tmp_path, with_logs(value)))
    assert words in "\n".join(error.value.problems)


def test_topology_cannot_be_changed(tmp_path: Path) -> None:
    """What was loaded stays as it is."""
    topology = load_topology(write(tmp_path, LAB))
    with pytest.raises(ValueError, match="frozen"):
        topology.evidence = "elsewhere"


def test_path_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a path the environment names the file, and without that the error says how to name it."""
    monkeypatch.setenv("KAFKA_DR_TOPOLOGY", str(write(tmp_path, LAB)))
    assert load_topology().aliases == ("primary", "standby")
    monkeypatch.delenv("KAFKA_DR_TOPOLOGY")
    with pytest.raises(BadInput, match="KAFKA_DR_TOPOLOGY"):
        load_topology()


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    """A relative path is taken from the file's folder, not from wherever a worker happens to run."""
    topology = load_topology(write(tmp_path, LAB.replace("/state/", "state/")))
    found = (topology.evidence, topology.routing.path)
    assert found == (str(tmp_path / "state/evidence"), str(tmp_path / "state/routing.json"))


def test_helpers_refuse_what_is_not_there(tmp_path: Path) -> None:
    """An unknown alias, a missing flow and a pair of one are refused, naming what there is."""
    topology = load_topology(write(tmp_path, LAB))
    assert topology.pair_key("standby", "primary") == topology.pair_key("primary", "standby")
    assert topology.find_flow("primary", "primary") is None
    for ask, word in (
        (lambda: topology.cluster("x"), "primary, standby"),
        (lambda: topology.flow("primary", "x"), "primary->standby"),
        (lambda: topology.pair_key("primary", "primary"), "source and target are the same cluster"),
        (lambda: topology.pair_key("primary", "x"), "not a cluster"),
    ):
        with pytest.raises(BadInput, match=word):
            ask()


def test_flow_says_what_it_mirrors(tmp_path: Path) -> None:
    """A flow's stated settings are text, numbers and booleans of YAML included."""
    settings = (
        'heartbeat: primary-to-standby-heartbeat}, mirror_maker: {topics: "orders.*", groups: "app.*", tasks.max: 2,'
        " sync.topic.acls.enabled: false}"
    )
    topology = load_topology(write(tmp_path, LAB.replace("heartbeat: primary-to-standby-heartbeat}", settings)))
    flow = topology.flow("primary", "standby")
    found = (flow.mirror_maker["tasks.max"], flow.mirror_maker["sync.topic.acls.enabled"], flow.isolation)
    assert found == ("2", "false", "read_uncommitted")


BAD = """\
clusters:
  primary:
    connection: kafka_primary
    connetion: other
    principals: {mirror_maker: ["User:*"]}
  "a b": {connection: kafka_standby}
  dc.one: {connection: kafka_primary}
naming: {policy: default, separator: "."}
flows:
  - {source: primary, target: stanby, connect: c, connectors: {source: s, checkpoint: s}}
  - {source: primary, target: primary, connect: d, connectors: {}}
  - {source: primary, target: dc.one, connect: e, connectors: {source: a, checkpoint: b}, mirror_maker: {topics: "(a+)+", a B: c, offset-syncs.topic.location: middle}}
  - {source: primary, target: dc.one, connect: f, connectors: {source: a, checkpoint: b}}
routing: {kind: fil, path: 3}
journal: {connection: 12}
spark: {connection: "https://spark:7077"}
evidence: ""
cool_down_seconds: .nan
deadlines: {stop_seconds: -1, stable_seconds: "1", drain_seconds: 1e400, verify_seconds: 1.0e+400, fence_seconds: 9223372036854775807}
groups: [{pattern: "[", policy: latest}, {pattern: a, policy: fail}, {pattern: a, policy: fail}]
"""


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    """All faults of a file come in one error, each with its path, its line and what is allowed."""
    with pytest.raises(BadInput) as error:
        load_topology(write(tmp_path, BAD))
    said = "\n".join(error.value.problems)
    for expected in (
        "airflow_api (line 1): missing",
        "clusters.primary.connetion (line 4): unknown key; allowed keys: ",
        "connection, principals, probe_connection",
        "clusters.primary.principals.mirror_maker[0] (line 5): 'User:*'",
        "clusters['a b'] (line 6)",
        "clusters['dc.one'] (line 7): the alias contains the separator",
        "clusters['dc.one'].connection (line 7): 'kafka_primary' is already the connection of 'primary'",
        "flows[0].target (line 10): 'stanby' is not a cluster",
        "flows[0].connectors.checkpoint (line 10): 's' is already flows[0].connectors.source",
        "flows[1].connectors.source (line 11): missing",
        "flows[1].target (line 11): source and target are the same",
        "flows[2].mirror_maker.topics (line 12)",
        "flows[2].mirror_maker['a B'] (line 12)",
        "flows[2].mirror_maker['offset-syncs.topic.location'] (line 12): 'middle'",
        "flows[3] (line 13): flows[2] already replicates",
        "routing (line 14)",
        "journal.connection (line 15): 12",
        "spark.connection (line 16)",
        "evidence (line 17)",
        "cool_down_seconds (line 18): nan",
        "deadlines.stop_seconds (line 19): -1",
        "deadlines.stable_seconds (line 19): '1'",
        "deadlines.drain_seconds (line 19): '1e400'",
        "deadlines.verify_seconds (line 19): inf",
        "deadlines.fence_seconds (line 19)",
        "groups[0].pattern (line 20): '['",
        "groups[0].policy (line 20): 'latest': the value should be 'earliest', 'fail' or 'boundary'",
        "groups[2].pattern (line 20): the same",
    ):
        assert expected in said
    assert len(error.value.problems) == 28


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("    password: hunter2", "hunter2"),
        ("    sasl.jaas.config: 'x hunter2;'", "hunter2"),
        ("    extra: {sasl.password: hunter2}", "hunter2"),
        ("    connection: 'http://user:hunter2@host'", "hunter2"),
        ("    probe_connection: 'ScramLoginModule required password=hunter2'", "hunter2"),
        ("    api_key: [hunter2]", "hunter2"),
        ("    unknown: hunter2", "hunter2"),
        ("    bootstrap.servers: hunter2:9092", "hunter2"),
        ("    principals: {mirror_maker: [{password: hunter2}]}", "hunter2"),
        ("    probe_connection: hunter2 token", "hunter2"),
    ],
)
def test_secrets_are_refused_and_never_repeated(tmp_path: Path, line: str, secret: str) -> None:
    """Whatever looks like a secret or an address is refused with advice, and its value stands in no error text."""
    text = "clusters:\n  primary:\n" + line + "\n" + LAB.split("principals:", 1)[1].split("\n", 1)[1]
    with pytest.raises(BadInput) as error:
        load_topology(write(tmp_path, text))
    assert secret not in str(error.value) + repr(error.value) + str(error.value.__cause__) + str(error.value.problems)
    assert "clusters.primary" in str(error.value)


def test_secret_among_flow_settings_is_refused() -> None:
    """MirrorMaker 2's own credentials are kept out of a flow's settings."""
    data = changed(
        lambda d: d["flows"][0].update(mirror_maker={"producer.override.sasl.jaas.config": "hunter2", "topics": ".*"})
    )
    (problem,) = problems_of(data)
    assert "looks like a secret" in problem and "Airflow connection" in problem and "hunter2" not in problem


def test_alias_may_be_any_word() -> None:
    """A cluster may be called `token` or `host`: under `clusters` stand aliases, not settings."""
    data = changed(
        lambda d: d.update(
            clusters={"token": {"connection": "a"}, "host": {"connection": "b"}},
            flows=[
                {"source": "token", "target": "host", "connect": "c", "connectors": {"source": "s", "checkpoint": "k"}}
            ],
        )
    )
    assert check_topology(data, "x").aliases == ("host", "token")


ODD = ". .. -x a\x00 $(id) ../../etc/passwd рrimary <b> =cmd a;b 'a'"


@pytest.mark.parametrize("alias", [*ODD.split(), "", "a" * 101, "a\nb", "{{ x }}", "a b"])
def test_odd_aliases_are_refused(alias: str) -> None:
    """An alias that is no part of a topic's name, or harmful in print, is refused in one printable line."""
    problems = problems_of(changed(lambda d: d["clusters"].update({alias: {"connection": "third"}})))
    assert any("an alias has letters, digits" in problem for problem in problems)
    assert all(problem.isprintable() and problem.isascii() for problem in problems)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["clusters"].update({"PRIMARY": {"connection": "third"}}), "too much like 'primary'"),
        (
            lambda d: d.update(
                naming={"policy": "template", "template": "x-<source>-<topic>"},
                clusters=d["clusters"] | {"primary-eu": {"connection": "t"}},
            ),
            "ambiguous",
        ),
        (lambda d: d.update(naming={"policy": "template"}), "needs the key `template`"),
        (lambda d: d.update(naming={"policy": "default", "separator": ""}), "separator"),
        (lambda d: d.update(naming={"policy": "own"}), "naming.policy"),
        (
            lambda d: d.update(naming={"policy": "identity", "x": 1}),
            "allowed keys: internal_topic_separator, policy, policy_class, separator, template",
        ),
        (lambda d: d.update(naming="identity"), "naming"),
        (lambda d: d.update(flows=[]), "flows"),
        (lambda d: d.update(flows={"a": 1}), "flows"),
        (lambda d: d.update(clusters=["a"]), "clusters"),
        (lambda d: d.update(clusters={"primary": {"connection": "a"}}), "clusters"),
        (
            lambda d: d["flows"][0].update(mirror_maker={"source.cluster.alias": "prod"}),
            "contradicts the flow's own source",
        ),
        (lambda d: d["flows"][0].update(isolation="read_everything"), "read_uncommitted"),
        (lambda d: d["flows"][0]["connectors"].update(source="../x"), "flows[0].connectors.source"),
        (lambda d: d["flows"][0]["connectors"].update(source=[]), "flows[0].connectors.source"),
        (lambda d: d["flows"][0]["connectors"].update(source=["a", "../x"]), "flows[0].connectors.source[1]"),
        (lambda d: d["flows"][0]["connectors"].update(source=["a", "b", "a"]), "flows[0].connectors.source[2]"),
        (
            lambda d: d["flows"][0]["connectors"].update(source=["a", "b"], checkpoint={"name": "a", "connect": "w"}),
            "flows[0].connectors.checkpoint.name: 'a' is already flows[0].connectors.source[0]",
        ),
        (lambda d: d["flows"][0]["connectors"].update(checkpoint={"connect": "w"}), "checkpoint.name: missing"),
        (
            lambda d: d["flows"][0]["connectors"].update(checkpoint={"name": "a", "on": "w"}),
            "allowed keys: connect, name",
        ),
        (
            lambda d: d["flows"][0].update(
                connect=None, stop_hook="h", connectors={"source": ["a", "b"], "checkpoint": "c"}
            ),
            "in dedicated mode runs one source connector a flow",
        ),
        (lambda d: without_worker(d, {"offset.storage.topic": "a b"}), "offset.storage.topic: "),
        (lambda d: d.update(deadlines={"stop_seconds": True}), "deadlines.stop_seconds"),
        (lambda d: d.update(deadlines={"stop_seconds": 0}), "deadlines.stop_seconds"),
        (lambda d: d.update(deadlines={"stop_second": 1}), "allowed keys: approval_valid_seconds"),
        (lambda d: d.update(cool_down_seconds=-1), "cool_down_seconds"),
        (lambda d: d.update(evidence="a\nb"), "evidence"),
        (lambda d: d.update(groups=[{"pattern": " ", "policy": "fail"}]), "groups[0].pattern"),
        (lambda d: d.update(routing={"kind": "http", "path": "/x"}), "routing.connection: missing"),
        (lambda d: d.update(routing={"kind": "http", "path": "/x", "connection": "c"}), "routing.path: unknown key"),
        *(
            (lambda d, change=change: d.update(routing=DNS | change), words)
            for change, words in (
                ({"name": "kafka.other.com"}, "name kafka.other.com. is not below the zone example.com."),
                ({"name": "example.com"}, "is not below the zone"),
                ({"name": "kafka"}, "routing.name: 'kafka': expected a full DNS name"),
                ({"zone": "192.0.2.1"}, "routing.zone"),
                ({"ttl_seconds": 0}, "routing.ttl_seconds"),
                ({"answers": {"primary": "east.example.com"}}, "routing.answers"),
                ({"answers": DNS["answers"] | {"north": "n.example.com"}}, "'north' is not a cluster of this file"),
                (
                    {"answers": {"primary": "east.example.com", "other": "w.example.com"}},
                    "no answers of 'standby', to which a flow could move clients",
                ),
                (
                    {"answers": dict.fromkeys(("primary", "standby"), "a.example.com")},
                    "two clusters have the same answers",
                ),
                ({"answers": DNS["answers"] | {"standby": ["west.example.com"]}}, "expected an IPv4 or IPv6 address"),
                ({"answers": DNS["answers"] | {"standby": "kafka.example.com"}}, "cannot be its own answer"),
                ({"name": ".".join(["x" * 60] * 4) + ".example.com"}, "routing.name"),
                ({"secret": "x"}, "routing.secret"),
            )
        ),
        (
            lambda d: d["flows"][0].pop("connect"),
            "flows[0]: a map: a flow has either `connect`, its Connect worker, or `stop_hook`",
        ),
        (
            lambda d: d["flows"][1].update(stop_hook="h"),
            "flows[1]: a map: a flow has either `connect`, its Connect worker, or `stop_hook`",
        ),
        (lambda d: d["flows"][0].update(connect=None, stop_hook="http://h:1"), "flows[0].stop_hook"),
        (lambda d: d.update(fence_hook={"connection": "http://h:1"}), "fence_hook.connection"),
        (lambda d: d.update(kafka_tools="libs"), "kafka_tools: 'libs': expected the absolute path"),
        (lambda d: d.update(kafka_tools="/opt/ka\nfka"), "kafka_tools"),
    ],
)
def test_each_fault_is_named(change: Callable[[dict[str, Any]], Any], words: str) -> None:
    """A single fault in an otherwise good file is named where it is."""
    assert words in "\n".join(problems_of(changed(change)))


def test_connector_names_may_recur_in_other_workers() -> None:
    """Two workers may each have a connector of the same name; one worker may not."""
    names = {"source": "MirrorSourceConnector", "checkpoint": "MirrorCheckpointConnector"}
    assert check_topology(changed(lambda d: [flow.update(connectors=names) for flow in d["flows"]]), "x")
    problems = problems_of(changed(lambda d: [flow.update(connectors=names, connect="one") for flow in d["flows"]]))
    assert len(problems) == 2 and "flows[0].connectors.source" in problems[1]


def test_a_flow_may_have_several_source_connectors_and_checkpoints_elsewhere() -> None:
    """The single form means the same as a list of one, on the flow's own worker."""
    split = {"source": ["a", "b", "c"], "checkpoint": {"connect": "connect_other", "name": "x"}}
    topology = check_topology(changed(lambda d: d["flows"][0].update(connectors=split)), "x")
    flow, single = topology.flow("primary", "standby"), topology.flow("standby", "primary")
    assert flow.connectors.names == ("a", "b", "c", "x") and flow.workers == ("connect_standby", "connect_other")
    assert flow.connectors.by_kind == {"source": "a, b, c", "checkpoint": "x"}
    assert single.connectors.names == ("standby-to-primary-source", "standby-to-primary-checkpoint")
    assert single.workers == ("connect_primary",)
    listed = {"source": ["standby-to-primary-source"], "checkpoint": {"name": "standby-to-primary-checkpoint"}}
    same = check_topology(changed(lambda d: d["flows"][1].update(connectors=listed)), "x")
    assert same.flow("standby", "primary").connectors.names == single.connectors.names


def test_dedicated_mode_has_a_stop_hook_and_no_worker() -> None:
    """Its flows may name connectors alike; whoever needs a Connect worker is told what cannot be done."""
    names = {"source": "MirrorSourceConnector", "checkpoint": "MirrorCheckpointConnector"}

    def dedicated(data: dict[str, Any]) -> None:
        for flow in data["flows"]:
            del flow["connect"]
            flow.update(stop_hook="stop_mm2", connectors=names)

    flow = check_topology(changed(dedicated), "x").flow("primary", "standby")
    with pytest.raises(BadInput, match="primary->standby runs in dedicated mode.*needs the REST API"):
        _ = flow.worker
    assert check_topology(changed(lambda d: None), "x").flow("primary", "standby").worker == "connect_standby"


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_a_file_that_is_no_map_is_refused(data: Any) -> None:
    """A file whose whole is not a map is refused and said to be so."""
    with pytest.raises(BadInput, match="is not a map"):
        check_topology(data, "topology.yaml")


def test_thousands_of_groups_and_many_clusters(tmp_path: Path) -> None:
    """A topology of 60 clusters in a ring with 300 policies is loaded."""
    data = yaml.safe_load(LAB)
    data["clusters"] = {f"dc{n}": {"connection": f"kafka_{n}"} for n in range(60)}
    data["flows"] = [
        {
            "source": f"dc{n}",
            "target": f"dc{(n + 1) % 60}",
            "connect": f"c{n}",
            "connectors": {"source": "s", "checkpoint": "c"},
        }
        for n in range(60)
    ]
    data["naming"] = {"policy": "default"}  # under identity naming a ring copies records endlessly
    data["groups"] = [{"pattern": f"group-{n}-.*", "policy": "fail"} for n in range(300)]
    topology = load_topology(write(tmp_path, yaml.safe_dump(data)))
    assert {topology.policy_of(f"group-{n % 310}-x") for n in range(10_000)} == {"fail", "earliest"}


STATED = {"rto_seconds": 300, "rpo_seconds": 0, "rpo_records": 0, "tier": 1, "basis": "BIA 2026-7"}


def test_a_flow_states_its_objectives() -> None:
    """What is stated is kept as plain data, with the defaults of the rest; a tier may be a number in the file."""
    topology = check_topology(changed(lambda data: data["flows"][0].update(objectives=STATED)), "t")
    assert topology.objectives_of("primary", "standby") == STATED | {
        "rto_seconds": 300.0,
        "rpo_seconds": 0.0,
        "tier": "1",
        "drill_days": 92,
        "notice_hours": 24,
        "retest_days": 30,
    }
    assert topology.objectives_of("standby", "primary") is topology.objectives_of("x", "y") is None


@pytest.mark.parametrize("stated", [{}, {"drill_days": 92, "notice_hours": 24, "retest_days": 30}])
def test_objectives_that_state_nothing_change_no_digest(stated: dict[str, Any]) -> None:
    """A run that an earlier version began goes on; an objective that is stated is another topology."""
    digests = [
        topology_digest(check_topology(changed(lambda data, one=one: data["flows"][0].update(one)), "t"))
        for one in ({}, {"objectives": stated}, {"objectives": {"tier": "1"}})
    ]
    assert digests[0] == digests[1] == "f7614967afdbe8b25340959446a510eb9a8edbfeeb38e55f81e7328f894b9a10"
    assert digests[2] != digests[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"rto_seconds": 0},
        {"rto_seconds": "300"},
        {"rto_seconds": float("inf")},
        {"rpo_seconds": -1},
        {"rpo_records": 1.5},
        {"tier": " "},
        {"basis": "a\nb"},
        {"drill_days": 0},
        {"notice_hours": -1},
        {"rto": 300},
    ],
)
def test_an_objective_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """Each is named with its place in the file."""
    (problem,) = problems_of(changed(lambda data: data["flows"][0].update(objectives=wrong)))
    assert problem.startswith(f"flows[0].objectives.{next(iter(wrong))}"), problem
