"""What exports hold, by the topology; and the runs that need more."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.actions.re_replication.export import _RecordFiles
from kafka_dr.actions.record_exports import export_fields, export_logins, record_parts
from kafka_dr.config.storage import RecordExports
from kafka_dr.connections import Connections
from kafka_dr.errors import BadInput
from kafka_dr.hooks.brokers.record import Record
from kafka_dr.steps.shared.open_procedure import OpenProcedure
from kafka_dr.vocabulary import Step
from pydantic import ValidationError

SECRET = "0123456789abcdef0123"
HASHED = {"values": "omit", "keys": "hash", "connection": "switchback_export_keys"}
NEED = "This run needs exports that hold records whole"


@pytest.mark.parametrize("exports", [{"keys": "hash"}, {"connection": "x"}, {"values": "hash"}, {"keys": "omit"}])
def test_a_hash_needs_a_secret_and_nothing_else_has_one(exports: dict[str, str]) -> None:
    """A hash without a secret is found by trying all keys."""
    with pytest.raises(ValidationError):
        RecordExports(**exports)


def test_the_secret_of_the_hash_is_long_and_not_in_airflows_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused with what to do, without showing it."""
    monkeypatch.setenv("AIRFLOW_CONN_KEYS_X", json.dumps({"conn_type": "generic", "password": "short"}))
    with pytest.raises(BadInput, match="Connection keys_x has no usable secret for the hash of keys") as refused:
        Connections().export_secret("keys_x")
    assert "short" not in str(refused.value) and "openssl rand" in refused.value.next_step
    monkeypatch.setenv("AIRFLOW_CONN_KEYS_X", json.dumps({"conn_type": "generic", "password": SECRET}))
    assert Connections().export_secret("keys_x") == SECRET


def test_jobs_get_the_form_in_their_input_and_the_secret_among_their_logins(make_bench: Callable[..., Any]) -> None:
    """Never the other way round."""
    bench = make_bench(dag_id="failback", exports=HASHED)
    bench.connections.export_secret = lambda _: SECRET
    procedure = bench.opened()
    fields = export_fields(procedure, procedure.artifacts.folder / "find_stranded_records-1")
    assert fields == {"export_to": None, "export_values": "omit", "export_keys": "hash"}
    assert export_logins(procedure) == {"export_secret": SECRET}


@pytest.mark.parametrize(
    "choices",
    [
        {"mode": "recreate"},
        {"mode": "recreate", "stranded": {".*": "discard"}},
        {"stranded": {"orders": "keep", "bills": "replay"}},
        {"stranded": {".*": "quarantine"}},
    ],
)
@pytest.mark.parametrize("exports", [{"values": "omit"}, HASHED | {"values": "keep"}])
def test_a_run_that_needs_whole_records_is_refused_before_anything_is_touched(
    choices: dict[str, Any], exports: dict[str, str], make_bench: Callable[..., Any]
) -> None:
    """No lease, no journal entry of an opening; the remedy is named. With whole exports it is opened."""
    bench = make_bench(dag_id="failback", exports=exports)
    bench.params |= choices
    with pytest.raises(AirflowFailException, match=NEED) as refused:
        OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
    assert "mode append with the decision keep" in str(refused.value)
    assert bench.journal.lease("primary+standby") is None
    whole = make_bench(dag_id="failback")
    whole.params |= choices
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(whole.context())
    assert whole.journal.lease("primary+standby") is not None


@pytest.mark.parametrize("choices", [{}, {"mode": "append"}, {"stranded": {".*": "keep"}}])
def test_a_run_that_leaves_records_where_they_are_needs_no_whole_export(
    choices: dict[str, Any], make_bench: Callable[..., Any]
) -> None:
    """Records stay in the returned cluster's log."""
    bench = make_bench(dag_id="failback", exports={"values": "omit"})
    bench.params |= choices
    OpenProcedure(task_id=Step.OPEN_PROCEDURE.value).execute(bench.context())
    assert bench.journal.lease("primary+standby") is not None


def test_records_that_a_task_exports_itself_have_the_same_form(make_bench: Callable[..., Any]) -> None:
    """A null key stays null, header names stay."""
    procedure = make_bench(exports=HASHED).opened()
    record = Record("orders", 0, 1, 7, False, b"4711", b"value", (("h", b"x"),))
    hashed = hmac.new(SECRET.encode(), b"4711", "sha256").hexdigest().encode()
    assert record_parts(procedure, record, SECRET) == (hashed, None, (("h", None),))
    assert record_parts(procedure, record._replace(key=None), SECRET)[0] is None
    assert record_parts(make_bench().opened(), record, None) == (b"4711", b"value", (("h", b"x"),))


def test_a_record_without_value_is_told_from_one_whose_value_is_left_out(make_bench: Callable[..., Any]) -> None:
    """By its size: null of a tombstone, as in the exports that Spark writes."""
    bench = make_bench(exports={"values": "omit"})
    procedure = bench.opened()
    files = _RecordFiles(procedure)
    for offset, value in enumerate((b"value", None, b"")):
        files.add(Record("orders", 0, offset, 7, False, b"4711", value, ()))
    (receipt,) = files.close()
    rows = pq.read_table(procedure.artifacts.folder / receipt.file)
    assert rows["value_bytes"].to_pylist() == [5, None, 0] and rows["value"].to_pylist() == [None] * 3
