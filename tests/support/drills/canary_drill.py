"""A canary drill as it could have happened, as facts and as evidence, for tests of its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.drill.facts import (
    Deviation,
    DrillFacts,
    DrillPass,
    Integrity,
    Participant,
    Planted,
    SignOffAnswer,
    Untouched,
)
from kafka_dr.domain.drill.section import drill_section
from kafka_dr.procedures import PROCEDURES

BEGAN = datetime(2026, 11, 27, 2, 0, tzinfo=UTC)
OBJECTIVES = {
    "rto_seconds": 300.0,
    "rpo_seconds": 60.0,
    "rpo_records": 100,
    "tier": "gold",
    "basis": "BIA-2026-7",
    "drill_days": 92,
    "notice_hours": 24,
    "retest_days": 30,
}
COUNTED = Integrity(5000, 5000, 5000, 0, 0, 0.0, 0, 0, 12, 0, 0)
FINGERPRINT = {
    "voiding": {
        "naming.policy": "DefaultReplicationPolicy",
        "primary.cluster_id": "Kq3",
        "worker.source.version": "4.3.1",
    },
    "sampled": {"topics": ["cleanup.policy=delete message.timestamp.type=CreateTime"], "acls": ["ALLOW READ TOPIC *"]},
    "informational": {"topics": "48", "groups": "31", "primary.brokers": "3"},
}
OWN_STEPS = (
    "open_procedure",
    "check_drill",
    "make_drill_clients",
    "run_passes",
    "clean_up",
    "compare_production",
    "sign_off_drill",
)
TEXTS = {
    "scenario": "The site of primary has to be left for repairs; risk register R-17.",
    "third_parties": "none",
    "observers": "Ines Example: observed, Otto Muster",
    "findings_owners": "",
    "conclusion": "The drill shows what it was meant to show.",
}


def at(second: float) -> str:
    """A moment of the drill."""
    return (BEGAN + timedelta(seconds=second)).isoformat()


def steps(names: Sequence[str], begin: float, each: float = 3.0) -> list[dict[str, Any]]:
    """Rows of steps that are done, one after the other."""
    return [
        {
            "id": str(name),
            "state": "done",
            "started_at": at(begin + n * each),
            "ended_at": at(begin + n * each + each - 0.4),
            "figures": {},
            "failures": [],
            "notes": [],
        }
        for n, name in enumerate(names)
    ]


def evidence_of_pass(dag_id: str, begin: float, **changes: Any) -> dict[str, Any]:
    """Evidence of a pass that completed."""
    rows = steps(PROCEDURES[dag_id].steps, begin)
    downtime = {"verdict": "met", "reason": "clients could use neither cluster for 41.2 s"}
    lossless = {"verdict": "met", "reason": "no record is lost"}
    whole = {
        "procedure_id": f"{dag_id}-{begin:g}",
        "dag_id": dag_id,
        "outcome": "completed",
        "failing_step": None,
        "reason_for_outcome": "every step was done and read back",
        "plan_digest": "c" * 64,
        "plan": {
            "drain_seconds": 2.5,
            "deadlines": {"max_fence_seconds": 120.0},
            "unproven": ["no probe hook is named"],
        },
        "approvals": [],
        "approved_through": "airflow",
        "steps": rows,
        "classes": {"END": 9, "SYNC": 3},
        "rereads": {"bound": 0, "mirror_maker": 410},
        "repeats": {},
        "loss": [],
        "problems": [],
        "fenced_at": at(begin + 9),
        "seconds": {"own": 48.1, "drain": 4.2, "people": 0.0, "whole": 52.3, "downtime": 41.2},
        "objectives": OBJECTIVES,
        "achieved": {
            "downtime_seconds": 41.2,
            "downtime_since": "fence",
            "lost_records": {"certain": 0, "possible": 0},
            "lost_seconds": {"certain": 0.0, "possible": 0.0},
            "verdicts": {"rto_seconds": downtime, "rpo_seconds": lossless, "rpo_records": lossless},
        },
        "closed_at": rows[-1]["ended_at"],
        "digest": "e" * 64,
    }
    return {**whole, **changes}


def simulated_loss() -> DrillPass:
    """The pass in which the source was taken away: 40 records are lost, and all of them are listed."""
    loss = [
        {
            "topic": "switchback-drill.3fa2c1d0e9.orders.replica",
            "partition": 1,
            "from_offset": 1790,
            "certain_to": 1830,
            "possible_to": None,
            "records": None,
            "reason": "not on the target",
        }
    ]
    achieved = {
        "downtime_seconds": 61.0,
        "downtime_since": "last_sign_of_life",
        "lost_records": {"certain": 40, "possible": None},
        "lost_seconds": {"certain": 0.9, "possible": None},
        "verdicts": {
            "rto_seconds": {"verdict": "met", "reason": "clients could use neither cluster for 61 s"},
            "rpo_records": {"verdict": "unknown", "reason": "possible breach: no bound"},
            "rpo_seconds": {"verdict": "unknown", "reason": "possible breach: no bound"},
        },
    }
    found = evidence_of_pass(
        "unplanned_failover", 320, loss=loss, achieved=achieved, rereads={"bound": 6, "mirror_maker": 90}
    )
    counted = replace(
        COUNTED,
        mirrored=4960,
        read=4960,
        lost_listed=40,
        lost_seconds=1.4,
        reread_most=4,
        positions_exact=8,
        positions_bound=4,
    )
    return DrillPass(
        "unplanned_failover",
        "unplanned_failover",
        "primary",
        "standby",
        found,
        "private/unplanned_failover/evidence.json",
        simulated_loss=True,
        integrity=counted,
    )


def good_facts(**changes: Any) -> DrillFacts:
    """Facts of a drill that passes."""
    there = DrillPass(
        "planned_failover",
        "planned_failover",
        "primary",
        "standby",
        evidence_of_pass("planned_failover", 60),
        "private/planned_failover/evidence.json",
        integrity=COUNTED,
    )
    back = DrillPass(
        "failback",
        "failback",
        "standby",
        "primary",
        evidence_of_pass("failback", 180),
        "private/failback/evidence.json",
        integrity=COUNTED,
    )
    home = DrillPass(
        "failback_after_loss",
        "failback",
        "standby",
        "primary",
        evidence_of_pass("failback", 420),
        "private/failback_after_loss/evidence.json",
        integrity=COUNTED,
    )
    facts = DrillFacts(
        drill_id="failover_drill__primary__standby__2026-11-27",
        kind="canary",
        source="primary",
        target="standby",
        reason="quarterly drill",
        announced=True,
        triggered_at=at(0),
        closed_at=at(700),
        drill_days=92,
        retest_days=30,
        scenario="Planned move and loss of the source, with records of the drill's own.",
        scope={
            "clusters": {"primary": "Kq3xU0m", "standby": "Zt81bQe"},
            "flows": ["primary->standby", "standby->primary"],
            "topics": ["switchback-drill.3fa2c1d0e9.orders.replica", "switchback-drill.3fa2c1d0e9.stock.replica"],
            "groups": ["__switchback-drill.3fa2c1d0e9.billing", "__switchback-drill.3fa2c1d0e9.search"],
            "connectors": ["switchback-drill.3fa2c1d0e9.primary-standby.source"],
            "partitions": 6,
            "records": 20000,
            "left_out": [{"what": "share groups", "why": "no version of MirrorMaker 2 moves them"}],
        },
        objectives=OBJECTIVES,
        checks=[],
        assumptions=["Both clusters answer.", "The drill's Connect workers run."],
        participants=[Participant("operator", "started", at(0))],
        passes=[there, back, simulated_loss(), home],
        steps=steps(OWN_STEPS, 0, 95),
        planned_steps=OWN_STEPS,
        planted=[
            Planted("an open transaction on one partition", "named before the fence", "named, with its partition", True)
        ],
        left_over=[],
        untouched=Untouched(["ACL entries of both clusters", "task assignments of primary->standby"]),
        sign_offs=[SignOffAnswer("approver", at(690), TEXTS)],
        fingerprint=FINGERPRINT,
        versions={
            "switchback": "0.1.0",
            "airflow": "3.3.2",
            "spark": "4.2.0",
            "kafka.primary": "4.3.1",
            "kafka.standby": "4.3.1",
            "mirror_maker.primary->standby": "4.3.1",
        },
        code_digest="a" * 64,
        folder="/srv/switchback/evidence/failover_drill__primary__standby__2026-11-27",
        kept_days=1826,
        signature="none: the topology names no key under journal.public_keys",
        started_by="a person",
    )
    return replace(facts, **changes)


def last_drill() -> dict[str, Any]:
    """The section of the drill before: a little slower, with one finding left open."""
    before = good_facts(
        drill_id="failover_drill__primary__standby__2026-08-27",
        triggered_at="2026-08-27T02:00:00+00:00",
        closed_at="2026-08-27T02:11:00+00:00",
        left_over=["connector switchback-drill.1.x"],
    )
    section = drill_section(before)
    for one in section["passes"]:
        one["steps"] = [
            {**step, "seconds": round(step["seconds"] * 1.3 + n % 3, 1)} for n, step in enumerate(one["steps"])
        ]
    section["versions"] = {**section["versions"], "kafka.primary": "4.2.0"}
    section["fingerprint"] = {**FINGERPRINT, "voiding": {**FINGERPRINT["voiding"], "worker.source.version": "4.2.0"}}
    return section


def full_story() -> DrillFacts:
    """Facts that fill each of the report's twenty fields, with findings, a retry and a deviation."""
    facts = good_facts(previous=last_drill(), previous_digest="9" * 64)
    late = facts.passes[0].evidence or {}
    slow = {
        **late["achieved"],
        "downtime_seconds": 341.0,
        "verdicts": {
            **late["achieved"]["verdicts"],
            "rto_seconds": {"verdict": "breached", "reason": "clients could use neither cluster for 5 min 41 s"},
        },
    }
    failure = {
        "at": at(75),
        "error": "KafkaUnavailable",
        "reason": "standby did not answer",
        "seen": "",
        "next_step": "",
    }
    rows = [{**step, "failures": [failure] if step["id"] == "commit_groups" else []} for step in late["steps"]]
    first = replace(facts.passes[0], evidence={**late, "achieved": slow, "steps": rows})
    texts = {
        **TEXTS,
        "findings_owners": "NEW: Ines Example, due 2027-01-31, the call list was out of date\nask Bob about it",
    }
    return replace(
        facts,
        passes=[first, *facts.passes[1:]],
        sign_offs=[SignOffAnswer("approver", at(690), texts)],
        deviations=[Deviation(at(130), "the operator restarted a proxy that was not part of the drill", "operator")],
        steps=[step for step in facts.steps if step["id"] != "compare_production"],
        not_run={"compare_production": "the lab has one pair only"},
    )


def evidence_with(section: Mapping[str, Any] | None, **changes: Any) -> dict[str, Any]:
    """Evidence of the drill's own run with this section."""
    drill = section or {}
    whole = {
        "warnings": [],
        "procedure_id": drill.get("procedure_id", "p-1"),
        "dag_id": "failover_drill",
        "source": drill.get("source", "primary"),
        "target": drill.get("target", "standby"),
        "reason": "quarterly drill",
        "approved_through": None,
        "clusters": {},
        "topology_digest": "b" * 64,
        "outcome": "completed",
        "failing_step": None,
        "reason_for_outcome": "every step was done and read back",
        "plan": None,
        "plan_digest": None,
        "approvals": [],
        "steps": steps(OWN_STEPS, 0, 95),
        "fenced_at": None,
        "cut_off": [],
        "boundary": [],
        "classes": {},
        "rereads": {"bound": None, "mirror_maker": None},
        "repeats": {},
        "loss": [],
        "loss_grown": [],
        "positions": None,
        "stranded": None,
        "seconds": {"own": 640.0, "drain": 0.0, "people": 60.0, "whole": 700.0, "downtime": None},
        "objectives": OBJECTIVES,
        "achieved": None,
        "drill": section,
        "problems": [],
        "notices": [],
        "closed_at": at(700),
        "clock": "the clock of the journal's PostgreSQL server",
        "previous_digest": "8" * 64,
    }
    whole |= changes
    return {**whole, "digest": digest_of(whole)}
