"""Writers, transactions and the routing record in a drill; and that no hook has a way around the scope."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, KafkaUnavailable, OutsideDrill
from kafka_dr.hooks.brokers import broker_requests
from kafka_dr.hooks.brokers.broker_requests import BrokerRequests
from kafka_dr.hooks.brokers.every_broker import EveryBroker
from kafka_dr.hooks.brokers.log_directories import LogDirectories
from kafka_dr.hooks.brokers.position_deletion import PositionDeletion
from kafka_dr.hooks.brokers.record_reader import RecordReader
from kafka_dr.hooks.brokers.record_writer import RecordWriter, WriteAccepted
from kafka_dr.hooks.brokers.transactional_writer import Outgoing, RecordReplay
from kafka_dr.hooks.brokers.transactions import ClusterTransactions
from kafka_dr.hooks.brokers.writer_process import ReplayProcess
from kafka_dr.hooks.site.routing import ClientRoute, FileRouting

from tests.support.drills.scopes import DRILL_ID, FOREIGN, NAMES, ORDERS, scope

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import KafkaConnectionError

PRODUCT = Path(__file__).parents[5] / "plugins" / "kafka_dr"
REPLAY = NAMES.own.replay_id("")


@pytest.fixture(scope="module")
def brokers() -> Iterator[Producer]:
    """A mock broker, by the client that runs it."""
    yield Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": "1", "log_level": 0})


@pytest.fixture
def config(brokers: Producer) -> dict[str, str]:
    """A connection to the mock broker, on which the drill's topic exists."""
    brokers.produce(ORDERS, b"first", partition=0)
    brokers.flush(10)
    return {
        "bootstrap.servers": ",".join(f"{b.host}:{b.port}" for b in brokers.list_topics(timeout=10).brokers.values())
    }


def topics_of(brokers: Producer) -> set[str]:
    """Return the topics of the mock broker, which makes each topic that somebody writes to."""
    return set(brokers.list_topics(timeout=10).topics)


def test_a_record_is_written_to_the_drills_topics_only(
    brokers: Producer, config: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write and the probe of any other topic are refused, and the broker never hears of it."""
    # The mock broker cannot describe topics.
    monkeypatch.setattr(RecordWriter, "_leader", lambda *_: 1)
    writer = RecordWriter(config, "east", scope())
    for name in FOREIGN:
        for write in (writer.write, writer.probe):
            with pytest.raises(OutsideDrill):
                write(name, 0, b"x")
    assert isinstance(writer.write(ORDERS, 0, b"x"), WriteAccepted)
    assert topics_of(brokers) == {ORDERS}


@pytest.mark.parametrize("name", [*FOREIGN, ORDERS, "__switchback-replay-primary+standby"])
def test_a_transactional_id_is_the_drills(config: dict[str, str], name: str) -> None:
    """Taking over another one would abort its owner's transaction."""
    for kind in (RecordReplay, ReplayProcess):
        with pytest.raises(OutsideDrill):
            kind(config, "east", name, scope=scope())


@pytest.mark.parametrize("kind", [RecordReplay, ReplayProcess])
def test_a_foreign_record_stops_its_transaction(brokers: Producer, config: dict[str, str], kind: Any) -> None:
    """No record of it is sent, in this process or in the child; later transactions are as before."""
    reader, place = RecordReader(config, "east"), TopicPartition(ORDERS, 0)
    before = reader.spans([place])[place].end
    writer = kind(config, "east", REPLAY, timeout=10, scope=scope())
    writer.fence()
    with pytest.raises(OutsideDrill, match="'orders'"):
        writer.write([Outgoing(ORDERS, 0, None, b"mine"), Outgoing("orders", 0, None, b"theirs")])
    assert reader.spans([place])[place].end == before and topics_of(brokers) == {ORDERS}
    writer.write([Outgoing(ORDERS, 0, None, b"mine")])
    writer.close()
    assert b"mine" in [record.value for record in reader.range(place, before, reader.spans([place])[place].end)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would be asked of brokers, none of which answers."""
    connections: list[str] = []

    def connect(sends: frozenset[str], **_: Any) -> Any:
        connections.append("connected")
        raise KafkaConnectionError("nobody")

    monkeypatch.setattr(broker_requests, "_BrokerClient", connect)
    monkeypatch.setattr(broker_requests, "_ALL_TRIES_SECONDS", 0.0)
    return connections


def test_only_the_drills_transactions_are_aborted(asked: list[str]) -> None:
    """By their id, or on the drill's topics: nobody is asked for another."""
    transactions = ClusterTransactions({"bootstrap.servers": "b:1"}, "east", scope())
    for name in [*FOREIGN, "__switchback_check", "pay-1"]:
        with pytest.raises(OutsideDrill):
            transactions.end(name)
        with pytest.raises(OutsideDrill):
            transactions.abort(TopicPartition(name, 0), 5)
    assert asked == []
    for act in (
        lambda: transactions.end(NAMES.own.check),
        lambda: transactions.abort(TopicPartition(ORDERS, 0), 5),
    ):
        with pytest.raises(KafkaUnavailable):
            act()
    assert len(asked) == 2


def test_the_check_in_a_drill_uses_the_drills_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Production's id for it is not the drill's."""
    ended: list[str] = []
    monkeypatch.setattr(ClusterTransactions, "known", lambda _: [])
    monkeypatch.setattr(ClusterTransactions, "end", lambda _, name: ended.append(name))
    ClusterTransactions({"bootstrap.servers": "b:1"}, "east", scope()).check()
    assert ended == [NAMES.own.check]


def test_the_routing_record_lies_in_the_drills_folder(tmp_path: Path) -> None:
    """Also behind a symbolic link; production's record stays as it is."""
    folder = tmp_path / DRILL_ID / "private"
    folder.mkdir(parents=True)
    route, ours = ClientRoute("standby", "s:1"), scope(folder=str(folder))
    production = tmp_path / "routing.json"
    (folder / "link").symlink_to(tmp_path)
    for path in (production, folder / ".." / "routing.json", folder / "link" / "routing.json"):
        with pytest.raises(OutsideDrill):
            FileRouting(path, ours).redirect(route)
        with pytest.raises(OutsideDrill):
            FileRouting(path, scope()).redirect(route)
    assert not production.exists() and not (folder.parent / "routing.json").exists()
    assert FileRouting(folder / "routing.json", ours).redirect(route).changed


def test_clients_of_each_broker_can_only_read() -> None:
    """Whether in a drill or not: they send no request that changes something, but the three that end a transaction, or
    delete a position.
    """
    assert set(BrokerRequests.__subclasses__()) == {EveryBroker, LogDirectories, PositionDeletion}
    assert EveryBroker.__subclasses__() == [ClusterTransactions]
    client = broker_requests._BrokerClient.__new__(broker_requests._BrokerClient)
    assert {name for name in dir(client) if not name.startswith("_")} == {"ask_each", "close"}

    class DeleteTopicsRequest:
        """A request that changes something."""

    may_change = {
        ClusterTransactions: {"InitProducerIdRequest", "WriteTxnMarkersRequest"},
        PositionDeletion: {"OffsetDeleteRequest"},
    }
    for kind in (BrokerRequests, EveryBroker, LogDirectories, *may_change):
        client._sends = kind.sends
        with pytest.raises(BadInput, match="DeleteTopicsRequest"):
            client.ask_each({1: DeleteTopicsRequest()}, 1.0)
        assert kind.sends - broker_requests.READS == may_change.get(kind, set())
    assert all(name.startswith(("Describe", "Find", "List", "Metadata")) for name in broker_requests.READS)


def calls_of(*names: str) -> set[str]:
    """Return the files of the product that call one of these names."""
    return {
        path.relative_to(PRODUCT).as_posix()
        for path in PRODUCT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names
    }


def test_each_client_of_a_library_is_made_where_the_scope_is_checked() -> None:
    """A client that is made elsewhere would go around the scope."""
    # kafka_login has librdkafka say which features it has; without servers its client reaches no cluster.
    assert calls_of("AdminClient") - {"hooks/logins/kafka_login.py"} == {"hooks/drill/admin_client.py"}
    assert calls_of("Producer") - {"domain/kafka_model/transactions.py", "hooks/brokers/every_broker.py"} == {
        "hooks/brokers/anchor_topic.py",
        "hooks/brokers/record_writer.py",
        "hooks/brokers/transactional_writer.py",
        "hooks/drill/client.py",
    }
    assert calls_of("Consumer") == {"hooks/brokers/record_reader.py", "hooks/drill/client.py"}
    assert calls_of("KafkaAdminClient", "KafkaProducer", "KafkaConsumer") == {"hooks/brokers/broker_requests.py"}
    reader = (PRODUCT / "hooks/brokers/record_reader.py").read_text(encoding="utf-8")
    assert not any(f".{call}(" in reader for call in ("commit", "subscribe", "store_offsets", "send_offsets"))


def test_each_client_that_can_change_something_is_made_with_the_scope() -> None:
    """By Systems alone; the flight recorder, make_topology and doctor, which are no procedures, only read."""
    kinds = (RecordWriter, ReplayProcess, ClusterTransactions)
    assert calls_of(*(kind.__name__ for kind in kinds)) == {"procedure/systems.py"}
    assert calls_of("PositionDeletion") == {"hooks/brokers/groups.py"}
    connect = calls_of("MirrorMaker", "MarkerConnector", "CanaryConnector")
    assert connect == {
        "procedure/systems.py",
        "commands/record_positions.py",
        "hooks/connect/marker_connector.py",
    }
    assert calls_of("KafkaCluster") == {
        "procedure/systems.py",
        "actions/doctor/clusters.py",
        "actions/doctor/connections.py",
        "commands/make_topology.py",
        "commands/record_positions.py",
        "hooks/brokers/anchor_topic.py",
        "hooks/brokers/record_reader.py",
        "hooks/brokers/record_writer.py",
    }
    assert calls_of("ApplicationDrain", "FenceHook", "StopHook", "HttpRouting", "FileRouting", "AnchorTopic") == {
        "procedure/systems.py"
    }
