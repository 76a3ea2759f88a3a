"""Connect's REST API, against a little Connect that can be told to misbehave."""

from __future__ import annotations

import threading
import time
from urllib.parse import unquote

import pytest
from kafka_dr.domain.kafka_model.topic_partition import TopicPartition
from kafka_dr.errors import BadInput, ConnectUnavailable, DeadlinePassed, NotReady, ReadBackFailed
from kafka_dr.hooks.connect.connector_state import ConnectorOffsets
from kafka_dr.hooks.connect.mirror_maker import MirrorMaker
from kafka_dr.hooks.json_endpoint import HttpAnswer

ORDERS = [TopicPartition("orders", number) for number in range(3)]
NAME = "flow-source"
#: How a worker of Kafka 4 answers every request until it has begun to serve.
STARTING = {"message": "Not Found", "url": "http://127.0.0.1:8083/connectors", "status": "404"}


class Connect:
    """One connector with state, tasks and offsets, changing as the real one does: later than asked."""

    def __init__(self, server, reply) -> None:
        self.server, self.reply = server, reply
        self.state, self.tasks = "RUNNING", {0: "RUNNING", 1: "RUNNING"}
        self.config = {"source.cluster.alias": "east", "source.cluster.sasl.jaas.config": "hunter2"}
        self.offsets = {("east", tp): 41 for tp in ORDERS}
        self.delay, self.pending = 0, None
        self.faults: dict[str, list] = {}
        self.keeps_writes, self.patches = True, True
        self.listed = [NAME, "a-first"]
        server.answer = self.answer

    def answer(self, request):
        faults = self.faults.get(request.method, [])
        fault = faults.pop(0) if faults else None
        if fault is not None and not getattr(fault, "after", False):
            return fault
        good = self._handle(request.method, unquote(request.path).partition("?")[0], request.body)
        return fault or good

    def _handle(self, method, path, body):
        parts = path.strip("/").split("/")
        if path == "/":
            return self.reply(200, {"version": "4.3.1", "kafka_cluster_id": "abc"})
        if path == "/connectors":
            return self.reply(200, self.listed)
        if parts[1] != NAME:
            return self.reply(404, {"error_code": 404, "message": f"Connector {parts[1]} not found"})
        if parts[2:] == ["status"] and not self.listed:
            return self.reply(404, {"error_code": 404, "message": f"No status found for connector {NAME}"})
        return getattr(self, f"_{method.lower()}_{parts[2]}")(body) if parts[2:] else self.reply(200, {"name": NAME})

    def _get_config(self, _):
        return self.reply(200, self.config)

    def _put_config(self, body):
        self.config = body if self.keeps_writes else self.config
        return self.reply(200, {"name": NAME, "config": body})

    def _patch_config(self, body):
        if not self.patches:
            return self.reply(405, {"error_code": 405, "message": "HTTP 405 Method Not Allowed"})
        return self._put_config({key: value for key, value in {**self.config, **body}.items() if value is not None})

    def _get_status(self, _):
        if self.pending is not None:
            self.delay -= 1
            if self.delay <= 0:
                (self.state, self.tasks), self.pending = self.pending, None
        tasks = [
            {"id": i, "state": s, **({"trace": "boom\n at x"} if s == "FAILED" else {})} for i, s in self.tasks.items()
        ]
        return self.reply(200, {"name": NAME, "connector": {"state": self.state}, "tasks": tasks})

    def _become(self, state, tasks, status):
        self.pending, self.delay = (state, tasks), 2
        return self.reply(status)

    def _put_stop(self, _):
        return self._become("STOPPED", {}, 204)

    def _put_pause(self, _):
        return self._become("PAUSED", dict.fromkeys(self.tasks, "PAUSED"), 202)

    def _put_resume(self, _):
        return self._become("RUNNING", {0: "RUNNING", 1: "RUNNING"}, 202)

    def _get_offsets(self, _):
        rows = [
            {"partition": {"cluster": alias, "topic": tp.topic, "partition": tp.partition}, "offset": {"offset": last}}
            for (alias, tp), last in self.offsets.items()
        ]
        return self.reply(200, {"offsets": rows})

    def _patch_offsets(self, body):
        if self.state != "STOPPED" or self.tasks:
            return self.reply(400, {"error_code": 400, "message": "must be in the STOPPED state"})
        for row in body["offsets"] if self.keeps_writes else []:
            where = row["partition"]
            key = (where["cluster"], TopicPartition(where["topic"], where["partition"]))
            self.offsets.pop(key, None)
            if row["offset"] is not None:
                self.offsets[key] = row["offset"]["offset"]
        return self.reply(200, {"message": "altered successfully"})

    def after(self, **fault):
        """A bad answer that is sent although the request took effect."""
        bad = self.reply(**fault)
        bad.after = True
        return bad


@pytest.fixture
def connect(server, reply) -> Connect:
    """A running connector of two tasks."""
    return Connect(server, reply)


@pytest.fixture
def stopped(connect) -> Connect:
    """The same, stopped."""
    connect.state, connect.tasks = "STOPPED", {}
    return connect


@pytest.fixture
def mirror(server) -> MirrorMaker:
    """The hook under test."""
    return MirrorMaker(server.url)


def test_worker_names_and_config_are_read(connect, mirror) -> None:
    """Version, cluster id, sorted names; secret values are hidden, others shown."""
    assert (mirror.worker().version, mirror.worker().kafka_cluster_id) == ("4.3.1", "abc")
    assert mirror.connectors() == ["a-first", NAME]
    assert mirror.config(NAME) == {"source.cluster.alias": "east", "source.cluster.sasl.jaas.config": "[hidden]"}


@pytest.mark.parametrize(
    ("version", "status", "message", "expected"),
    [
        ("2.8.2", 404, "HTTP 404 Not Found", False),
        ("3.4.1", 404, "HTTP 404 Not Found", False),
        ("3.5.1", 405, "HTTP 405 Method Not Allowed", False),
        ("3.6.2", 400, "Partitions / offsets need to be provided for an alter offsets request", True),
        ("4.3.1", 400, "Partitions / offsets need to be provided for an alter offsets request", True),
        ("an unknown one", 200, "nothing changed", True),
    ],
)
def test_setting_offsets_is_judged_by_the_answer(
    version: str, status: int, message: str, expected: bool, server, reply, mirror
) -> None:
    """These are the answers of real workers of these versions to a change of nothing; the version is not asked for."""
    server.answer = lambda _: reply(status, {"error_code": status, "message": message})
    assert mirror.sets_offsets(NAME) is expected
    (asked,) = server.requests
    assert (asked.method, asked.path, asked.body) == ("PATCH", f"/connectors/{NAME}/offsets", {"offsets": []})


def test_a_starting_worker_is_asked_again_and_a_refusal_is_told(server, reply, mirror) -> None:
    """A worker that has not begun to serve says nothing about what it can do, and neither does a wrong password."""
    server.queue += [reply(404), reply(503), reply(409, {"message": "a rebalance"}), reply(400, {"message": "empty"})]
    assert mirror.sets_offsets(NAME) and len(server.requests) == 4
    server.answer = lambda _: reply(403, {"message": "who are you"})
    with pytest.raises(ConnectUnavailable, match="PATCH /connectors/.*/offsets"):
        mirror.sets_offsets(NAME)


def test_stop_returns_only_when_stopped_without_tasks(connect, mirror) -> None:
    """Stopping waits for the state to be reached, and asks once."""
    status = mirror.stop(NAME, deadline=10)
    assert status.stopped and status.tasks == {}
    assert len(connect.server.sent("PUT")) == 1


def test_asking_to_stop_waits_for_nothing_but_the_workers_word(connect, mirror) -> None:
    """A connector that takes a minute to stop is asked once, and so is one that is said to stand."""
    connect._become = lambda state, tasks, status: connect.reply(status)
    mirror.ask_to_stop(NAME, timeout=20)
    assert len(connect.server.sent("PUT")) == 1 and connect.state == "RUNNING"
    connect.state, connect.tasks = "STOPPED", {}
    mirror.ask_to_stop(NAME, timeout=20)
    assert len(connect.server.sent("PUT")) == 2


def test_asking_to_stop_goes_on_until_the_worker_takes_it(connect, mirror) -> None:
    """A worker that rebalances is asked again; one that never takes it is told as that in time."""
    connect.faults["PUT"] = [connect.reply(409, {"message": "rebalancing"})]
    mirror.ask_to_stop(NAME, timeout=20)
    assert len(connect.server.sent("PUT")) == 2
    connect.state, connect.tasks, connect.pending = "RUNNING", {0: "RUNNING"}, None
    connect.faults["PUT"] = [connect.reply(409, {"message": "rebalancing"})] * 50
    began = time.monotonic()
    with pytest.raises(ConnectUnavailable, match="rebalancing"):
        mirror.ask_to_stop(NAME, timeout=0.5)
    assert time.monotonic() - began < 5


def test_a_stopped_connector_that_still_has_tasks_is_not_stopped(connect, mirror) -> None:
    """STOPPED with tasks left is waited for, then named at the deadline."""
    connect._put_stop = lambda body: connect._become("STOPPED", {0: "RUNNING"}, 204)
    with pytest.raises(DeadlinePassed, match="STOPPED, tasks {0: 'RUNNING'}"):
        mirror.stop(NAME, deadline=1)


@pytest.mark.parametrize(
    ("verb", "state", "tasks"),
    [("stop", "STOPPED", {}), ("pause", "PAUSED", {0: "PAUSED"}), ("resume", "RUNNING", {0: "RUNNING"})],
)
def test_what_is_said_to_be_reached_is_asked_for_once(verb, state, tasks, connect, mirror) -> None:
    """A worker that begins anew says what was so before it died, and goes on with what it was told last."""
    connect.state, connect.tasks = state, tasks
    getattr(mirror, verb)(NAME)
    assert [request.path for request in connect.server.sent("PUT")] == [f"/connectors/{NAME}/{verb}"]


def test_pause_and_resume_wait_for_all_tasks(connect, mirror) -> None:
    """PAUSED means connector and tasks; RUNNING likewise."""
    assert mirror.pause(NAME, deadline=10).paused
    assert mirror.resume(NAME, deadline=10).tasks == {0: "RUNNING", 1: "RUNNING"}


def test_resume_without_tasks_is_only_good_where_none_are_needed(stopped, mirror) -> None:
    """RUNNING without a task replicates nothing; a caller may say that nothing is expected."""
    stopped._put_resume = lambda body: stopped._become("RUNNING", {}, 202)
    with pytest.raises(DeadlinePassed, match="tasks none"):
        mirror.resume(NAME, deadline=1)
    assert mirror.resume(NAME, deadline=5, needs_tasks=False).running


def test_a_failed_task_is_named_with_its_trace(stopped, mirror) -> None:
    """The deadline's error says which task failed and why."""
    stopped._put_resume = lambda body: stopped._become("RUNNING", {0: "RUNNING", 1: "FAILED"}, 202)
    with pytest.raises(DeadlinePassed, match="task 1: boom"):
        mirror.resume(NAME, deadline=1)


def test_a_rebalance_is_outlasted(connect, mirror) -> None:
    """409 and 500 to reads and writes are tried again until the state is reached."""
    busy = [connect.reply(code, {"error_code": code, "message": "rebalance"}) for code in (409, 500)]
    connect.faults = {"GET": list(busy), "PUT": list(busy)}
    assert mirror.stop(NAME, deadline=20).stopped
    assert len(connect.server.sent("PUT")) == 3


def test_a_timed_out_stop_that_took_effect_is_not_sent_again(connect, mirror) -> None:
    """After a write without answer the state is read first; it was reached, so nothing is repeated."""
    timed_out = connect.reply(500, {"m": "timed out"})
    connect._put_stop = lambda body: vars(connect).update(state="STOPPED", tasks={}) or timed_out
    assert mirror.stop(NAME, deadline=10).stopped
    assert len(connect.server.sent("PUT")) == 1


def test_a_worker_that_still_starts_is_not_ready_and_then_is(connect, mirror) -> None:
    """HTML 404s of a starting worker are waited out."""
    connect.faults = {"GET": [connect.reply(404, b"<html>404 Not Found</html>")] * 3}
    assert mirror.worker(timeout=10).version == "4.3.1"
    connect.faults = {"GET": [connect.reply(404, STARTING)] * 3}
    assert mirror.config(NAME, timeout=10)["source.cluster.alias"] == "east"


def test_what_a_starting_worker_does_not_list_may_exist(connect, mirror) -> None:
    """The list is empty until the worker has read all configurations; a request for one connector is answered then."""
    connect.listed = []
    connect.faults = {"GET": [connect.reply(404, STARTING), connect.reply(500, {"error_code": 500, "message": "late"})]}
    assert mirror.existing([NAME, "other"], timeout=10) == [NAME]
    connect.faults = {"GET": [connect.reply(404, STARTING)] * 100}
    with pytest.raises(ConnectUnavailable, match="the worker starts"):
        mirror.connectors(timeout=0.5)
    with pytest.raises(ConnectUnavailable, match="the worker starts, or another program answers: HTTP 404") as raised:
        mirror.existing(["other"], timeout=0.5)
    assert raised.value.may_pass


def test_a_status_that_a_starting_worker_lacks_is_waited_for(connect, mirror) -> None:
    """Connect answers that it has no status of a connector that exists, until it has read all configurations."""
    connect.listed = []
    with pytest.raises(ConnectUnavailable, match="No status found"):
        mirror.status(NAME, timeout=0.5)
    before = len(connect.server.requests)
    assert before > 3
    threading.Timer(0.5, lambda: connect.listed.append(NAME)).start()
    assert mirror.status(NAME, timeout=10).state == "RUNNING"


def test_a_worker_that_never_starts_ends_at_its_deadline(server, reply, mirror) -> None:
    """Endless 404s, a closed port and a hanging port are all named in time."""
    server.answer = lambda request: reply(404, b"<html>404</html>")
    began = time.monotonic()
    with pytest.raises(ConnectUnavailable, match="404"):
        mirror.worker(timeout=1)
    server.answer = lambda request: reply(200, {}, seconds=30)
    with pytest.raises(ConnectUnavailable, match="no answer within"):
        mirror.worker(timeout=1)
    server.close()
    with pytest.raises(ConnectUnavailable, match="no connection"):
        mirror.worker(timeout=1)
    assert time.monotonic() - began < 10


def test_an_unknown_connector_is_named_at_once(connect, mirror) -> None:
    """A 404 in JSON is final."""
    began = time.monotonic()
    with pytest.raises(ConnectUnavailable, match="other not found"):
        mirror.status("other")
    assert time.monotonic() - began < 2


def test_names_cannot_leave_their_place_in_the_path(connect, mirror) -> None:
    """A name with slashes stays one path segment."""
    with pytest.raises(ConnectUnavailable):
        mirror.status("../../admin/loggers")
    one = "/connectors/..%2F..%2Fadmin%2Floggers"
    assert [request.path for request in connect.server.requests] == [f"{one}/status", one]


@pytest.mark.parametrize(
    "body",
    [None, [], {}, {"connector": {}, "tasks": []}, {"connector": {"state": "RUNNING"}, "tasks": [{"id": "x"}]}, 3],
)
def test_a_status_of_another_shape_is_an_error(server, reply, mirror, body) -> None:
    """What cannot be read is never taken for a state."""
    server.answer = lambda request: reply(200, body)
    with pytest.raises(ConnectUnavailable):
        mirror.status(NAME, timeout=1)


def test_a_redirect_is_an_error(server, reply, mirror) -> None:
    """Connect behind a redirect is not followed."""
    server.answer = lambda request: reply(307, b"", {"Location": "http://169.254.169.254/"})
    with pytest.raises(ConnectUnavailable, match="redirect"):
        mirror.worker(timeout=2)


def test_offsets_are_kept_apart_by_alias(connect, mirror) -> None:
    """Two spellings of a cluster never overwrite each other in what is read."""
    connect.offsets[("eats", ORDERS[0])] = 7
    found = mirror.offsets(NAME)
    assert found.aliases == {"east", "eats"}
    assert (found.of("east")[ORDERS[0]], found.of("eats")[ORDERS[0]], found.of("nobody")) == (41, 7, {})


def test_offsets_of_another_kind_of_connector_are_an_error(server, reply, mirror) -> None:
    """A checkpoint connector's bookkeeping is not mistaken for positions."""
    server.answer = lambda request: reply(200, {"offsets": [{"partition": {"group": "g"}, "offset": {"offset": 0}}]})
    with pytest.raises(ConnectUnavailable, match="are not those of a MirrorMaker 2 source connector"):
        mirror.offsets(NAME)


def test_changed_offsets_are_written_and_read_back(stopped, mirror) -> None:
    """X - 1 and None are written as meant; partitions left out stay as they were."""
    after = mirror.change_offsets(NAME, "east", {ORDERS[0]: 99, ORDERS[1]: None})
    assert isinstance(after, ConnectorOffsets)
    assert after.of("east") == {ORDERS[0]: 99, ORDERS[2]: 41}
    written = stopped.server.sent("PATCH")[0].body["offsets"]
    assert [row["offset"] for row in written] == [{"offset": 99}, None]


def test_the_same_change_twice_is_sent_once(stopped, mirror) -> None:
    """What Connect already keeps is not written again; neither is an empty change."""
    mirror.change_offsets(NAME, "east", {ORDERS[0]: 99, ORDERS[1]: None})
    mirror.change_offsets(NAME, "east", {ORDERS[0]: 99, ORDERS[1]: None})
    mirror.change_offsets(NAME, "east", {})
    assert len(stopped.server.sent("PATCH")) == 1


@pytest.mark.parametrize("last", [-1, -420, 3.14, "10", True, float("nan")])
def test_impossible_offsets_are_refused_before_anything_is_sent(stopped, mirror, last) -> None:
    """Negative or non-integer offsets never reach Connect; the text says how to start at 0."""
    with pytest.raises(BadInput, match="None to start at 0"):
        mirror.change_offsets(NAME, "east", {ORDERS[0]: last})
    assert stopped.server.sent("PATCH") == []


def test_a_misspelt_alias_is_refused(stopped, mirror) -> None:
    """Connect would accept it with 200 and replicate everything again."""
    with pytest.raises(BadInput, match="'eats'.*'east'"):
        mirror.change_offsets(NAME, "eats", {ORDERS[0]: 1})
    assert stopped.server.sent("PATCH") == []


@pytest.mark.parametrize(("state", "tasks"), [("RUNNING", {}), ("PAUSED", {0: "PAUSED"}), ("STOPPED", {0: "RUNNING"})])
def test_offsets_are_changed_only_while_stopped(connect, mirror, state, tasks) -> None:
    """A connector that may still write refuses the change by name of its state."""
    connect.state, connect.tasks = state, tasks
    with pytest.raises(NotReady, match=state):
        mirror.change_offsets(NAME, "east", {ORDERS[0]: 1})
    assert connect.server.sent("PATCH") == []


def test_a_write_that_was_not_kept_names_the_partitions(stopped, mirror) -> None:
    """A 200 without effect fails the read-back, partition by partition."""
    stopped.keeps_writes = False
    with pytest.raises(ReadBackFailed, match="east/orders-0: expected 99, read back 41"):
        mirror.change_offsets(NAME, "east", {ORDERS[0]: 99})


def test_somebody_elses_change_at_the_same_time_is_seen(stopped, mirror) -> None:
    """The comparison covers partitions that were not part of the change, and other aliases."""
    patch = stopped._patch_offsets

    def meddling(body):
        stopped.offsets[("east", ORDERS[2])] = 5
        stopped.offsets[("ghost", ORDERS[0])] = 1
        return patch(body)

    stopped._patch_offsets = meddling
    with pytest.raises(
        ReadBackFailed, match="east/orders-2: expected 41, read back 5.*ghost/orders-0: expected None, read back 1"
    ):
        mirror.change_offsets(NAME, "east", {ORDERS[0]: 99})


def test_a_write_without_answer_is_read_first_and_not_repeated(stopped, mirror) -> None:
    """A 500 or a time-out after the effect leads to one write only."""
    stopped.faults = {"PATCH": [stopped.after(status=500, body={"message": "Request timed out"})]}
    assert mirror.change_offsets(NAME, "east", {ORDERS[0]: 99}).of("east")[ORDERS[0]] == 99
    assert len(stopped.server.sent("PATCH")) == 1


def test_a_write_without_effect_is_repeated(stopped, mirror) -> None:
    """A 409 before the effect leads to a second write, after reading."""
    stopped.faults = {"PATCH": [stopped.reply(409, {"message": "rebalance"})]}
    assert mirror.change_offsets(NAME, "east", {ORDERS[0]: 99}).of("east")[ORDERS[0]] == 99
    assert [r.method for r in stopped.server.requests][-4:] == ["PATCH", "GET", "PATCH", "GET"]


def test_a_refused_write_is_final(stopped, mirror) -> None:
    """A 400 is reported with Connect's own words after one request."""
    stopped.faults = {"PATCH": [stopped.reply(400, {"message": "no such thing"})]}
    with pytest.raises(ConnectUnavailable, match="no such thing"):
        mirror.change_offsets(NAME, "east", {ORDERS[0]: 99})
    assert len(stopped.server.sent("PATCH")) == 1


def test_a_write_refused_for_ever_ends_in_time(stopped, mirror) -> None:
    """A connector that rejects an offset with 500 every time ends at the deadline with its words."""
    stopped.faults = {"PATCH": [stopped.reply(500, {"message": "rejected"})] * 100}
    began = time.monotonic()
    with pytest.raises(ConnectUnavailable, match="rejected"):
        mirror.change_offsets(NAME, "east", {ORDERS[0]: 99}, timeout=1)
    assert time.monotonic() - began < 10


def test_ten_thousand_partitions_are_one_write(stopped, mirror) -> None:
    """A large flow is seeded in one request and compared as a whole."""
    many = {TopicPartition(f"t{i // 100}", i % 100): i for i in range(10_000)}
    after = mirror.change_offsets(NAME, "east", many)
    assert {tp: after.of("east")[tp] for tp in many} == many
    assert len(stopped.server.sent("PATCH")) == 1


def test_credentials_stay_out_of_texts(server) -> None:
    """A password in the URL is refused unseen; one given apart is in no repr."""
    with pytest.raises(BadInput) as refused:
        MirrorMaker("http://me:hunter2@host:8083")
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(MirrorMaker(server.url, ("me", "hunter2")))


def test_one_read_lasts_as_long_as_the_topology_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read is given up after `connect_request_seconds`, never later than its caller's own timeout."""
    asked: list[float] = []

    def attempt(method: str, path: str, body: None, timeout: float) -> HttpAnswer:
        """Answer at once, and remember how long there would have been."""
        asked.append(timeout)
        return HttpAnswer(200, [])

    worker = MirrorMaker("http://127.0.0.1:9", request_seconds=3.0)
    monkeypatch.setattr(worker._endpoint, "attempt", attempt)
    worker.existing(["a"], timeout=30.0)
    worker.existing(["a"], timeout=1.0)
    assert asked[0] == 3.0 and asked[1] <= 1.0


# -- enabled -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("patches", [True, False])
def test_a_disabled_connector_keeps_all_its_other_settings(stopped, mirror, patches):
    """Also its password; a worker that is busy once is asked again; before 3.8 Connect takes a whole configuration."""
    stopped.patches = patches
    before = dict(stopped.config)
    stopped.faults["PATCH"] = [stopped.reply(409, {"error_code": 409, "message": "rebalance"})]
    mirror.set_enabled(NAME, False)
    assert stopped.config == {**before, "enabled": "false"} and not mirror.is_enabled(NAME)
    stopped.server.requests.clear()
    mirror.set_enabled(NAME, False)
    assert {request.method for request in stopped.server.requests} == {"GET"}, "the second time writes nothing"
    mirror.set_enabled(NAME, True)
    assert stopped.config == before and mirror.is_enabled(NAME)


def test_masked_settings_are_not_written_back(stopped, mirror):
    """A vendor shows asterisks in place of passwords: the connector would lose its login."""
    stopped.patches, stopped.config = False, {"a.password": "****"}
    with pytest.raises(ReadBackFailed, match="masks settings"):
        mirror.set_enabled(NAME, False)
    assert stopped.config == {"a.password": "****"}


def test_a_running_connector_is_not_disabled(connect, mirror):
    """Connect would restart its tasks."""
    with pytest.raises(NotReady, match="only while it is STOPPED"):
        mirror.set_enabled(NAME, False)
    assert "enabled" not in connect.config


def test_an_answer_about_the_configuration_is_not_shown(stopped, mirror):
    """It may repeat a password."""
    stopped.faults["PATCH"] = [stopped.reply(400, {"error_code": 400, "message": "wrong: hunter2"})]
    with pytest.raises(ConnectUnavailable, match="HTTP 400") as error:
        mirror.set_enabled(NAME, False)
    assert "hunter2" not in str(error.value)


def test_a_setting_that_is_not_stored_is_named(stopped, mirror):
    """Another program puts the configuration back."""
    stopped.keeps_writes = False
    with pytest.raises(ReadBackFailed, match="does not store the setting enabled=false of flow-source"):
        mirror.set_enabled(NAME, False, timeout=0.5)
