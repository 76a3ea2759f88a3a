"""What became of the notices about a run stands in its evidence and on its page, without a secret."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest
from kafka_dr.actions.evidence import file_evidence
from kafka_dr.config.settings import load_topology
from kafka_dr.hooks.journal.notices import NoticeState
from kafka_dr.steps.always_on.channels import deliver_notice
from kafka_dr.vocabulary import Step
from kafka_dr.watcher.notices import NoticeSender

from tests.support.notices.servers import GOOD, LATER, REFUSES, webhook_server


def evidence_of(procedure: Any) -> tuple[dict[str, Any], str]:
    """Close a run; return its evidence and its page."""
    file_evidence(procedure, procedure.lease.epoch)
    folder = Path(procedure.artifacts.folder)
    return json.loads((folder / "evidence.json").read_text()), (folder / "evidence.html").read_text()


@pytest.mark.parametrize(
    ("mood", "state"), [(GOOD, "sent"), (REFUSES, "not sent"), (LATER, "waiting"), ("", "waiting")]
)
def test_a_notice_that_was_not_delivered_is_named(
    bench: Any, mood: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which, to which route, and why; a server that is not there at all is the empty mood."""
    secret = f"s3cr3t{secrets.token_hex(8)}"
    routes = [{"kind": "webhook", "connection": "pager"}]
    settings = {**json.loads(bench.topology.read_text()), "notifications": routes}
    bench.topology.write_text(json.dumps(settings))
    sender, topology = NoticeSender(str, deliver_notice), load_topology(bench.topology)
    with webhook_server() as (hook, url):
        hook.mood = mood
        host = f"{url if mood else 'http://127.0.0.1:9'}/services/{secret}"
        monkeypatch.setenv("AIRFLOW_CONN_PAGER", json.dumps({"conn_type": "http", "host": host}))
        sender.look(bench.journal, topology)
        procedure = bench.planned()
        asked = {"asks": "Move?", "digest": "d" * 64, "wait_seconds": 600.0}
        bench.journal.append(procedure.id, Step.APPROVE_FAILOVER, "intent", procedure.lease.epoch, asked)
        sender.look(bench.journal, topology)
        sender.wait()
    evidence, page = evidence_of(procedure)
    (told,) = evidence["notices"]
    assert (told["event"], told["about"]) == ("gate_opened", "approve_failover/1")
    assert (told["route"], told["state"], told["tries"]) == ("webhook by connection pager", state, 1)
    assert (told["why"] is None) == (state == "sent")
    assert ("Not delivered" in page) == (state != "sent") and "webhook by connection pager" in page
    assert secret not in json.dumps(evidence) + page


def test_the_notices_of_other_runs_are_left_out(bench: Any) -> None:
    """Also of a run whose id begins with this one's, or differs in capitals alone."""
    procedure = bench.opened()
    for other in (f"{procedure.id}0", procedure.id.upper(), "x"):
        bench.journal.claim_notice(f"{other}/1/failed", "webhook pager 0123")
    evidence, page = evidence_of(procedure)
    assert evidence["notices"] == [] and "Notices to people" not in page


def test_what_is_settled_while_the_evidence_is_written_changes_nothing(bench: Any) -> None:
    """Two processes that close a run write the same evidence."""
    procedure = bench.opened()
    notice = f"{procedure.id}/fence_on"
    bench.journal.claim_notice(notice, "webhook pager 0123")
    first, _ = evidence_of(procedure)
    bench.journal.settle_notice(notice, "webhook pager 0123", NoticeState.SENT)
    again, _ = evidence_of(procedure)
    assert [one["state"] for one in first["notices"]] == ["claimed"]
    assert {**first, "digest": ""} == {**again, "digest": ""}
