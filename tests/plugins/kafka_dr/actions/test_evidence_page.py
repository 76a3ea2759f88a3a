"""The evidence page: for every outcome, with every value as text."""

from __future__ import annotations

import re
from datetime import datetime
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from kafka_dr.actions.evidence import evidence_page
from kafka_dr.domain.clients import kinds
from kafka_dr.domain.clients.inventory import SeenClients, list_clients
from kafka_dr.domain.evidence.evidence import evidence_of
from kafka_dr.domain.kafka_model.groups import ListedGroup
from kafka_dr.domain.plain_text import visible_text
from kafka_dr.vocabulary import Entry, Outcome, Step

from tests.support.facts import entry

ODD = "<script>alert('x')</script>&\"'{{ 7*7 }}{% raw %}"
AT = "2026-11-21T10:00:00+00:00"
LATER = "2026-11-21T10:01:00+00:00"
DIGEST = "d" * 64


def evidence(outcome: str, text: str = "maintenance", **changes: Any) -> dict[str, Any]:
    """Evidence with every part filled, `text` wherever text may stand."""
    failure = {"at": AT, "error": "Refusal", "reason": text, "seen": text, "next_step": text}
    step = {
        "id": text,
        "state": "done",
        "started_at": AT,
        "ended_at": LATER,
        "figures": {text: text},
        "failures": [failure],
        "notes": [{text: text}],
    }
    rows = [{"topic": text, "partition": 0, "offset": 5}]
    whole = {
        "procedure_id": text,
        "dag_id": text,
        "source": text,
        "target": text,
        "reason": text,
        "outcome": outcome,
        "failing_step": text,
        "reason_for_outcome": text,
        "plan": {"topics": [[text, text, 1, text]], "unproven": [text]},
        "plan_digest": DIGEST,
        "approvals": [{"step": text, "gate": text, "by": text, "at": text, "digest": text + DIGEST}],
        "steps": [step],
        "fenced_at": AT,
        "cut_off": rows,
        "boundary": rows,
        "classes": {text: 3},
        "rereads": {"bound": 4, "mirror_maker": None},
        "repeats": {},
        "cool_down": {"procedure_id": text, "outcome": text, "ended_at": AT, "ends_at": LATER, "acknowledged": text},
        "loss": [
            {
                "topic": text,
                "partition": 0,
                "from_offset": 1,
                "certain_to": 4,
                "possible_to": 4,
                "records": 2,
                "reason": text,
            }
        ],
        "positions": text,
        "stranded": None,
        "seconds": {"own": 1.0, "drain": 2.0, "people": 3.0, "whole": 6.0},
        "objectives": {"rto_seconds": 60.0, "tier": text, "basis": text},
        "achieved": {"verdicts": {"rto_seconds": {"verdict": "breached", "reason": text}}},
        "problems": [text],
        "closed_at": LATER,
        "previous_digest": DIGEST,
        "digest": DIGEST,
    }
    return {**whole, **changes}


class Tags(HTMLParser):
    """Collects what is really markup."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.links: list[str] = []
        self.styles: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember a tag and where its attributes lead."""
        self.seen.append(tag)
        self.styles += [value or "" for name, value in attrs if name == "style" or name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action", "srcset")]

    def handle_data(self, data: str) -> None:
        """Remember the text."""
        self.text += data


def tags(page: str) -> Tags:
    """The markup of a page."""
    parser = Tags()
    parser.feed(page)
    return parser


@pytest.mark.parametrize("outcome", [o.value for o in Outcome])
def test_every_value_is_escaped_in_every_outcome(outcome: str) -> None:
    """A reason, group or step called <script> is text on the page, and template braces are not evaluated."""
    odd, plain = tags(evidence_page(evidence(outcome, ODD))), tags(evidence_page(evidence(outcome)))
    assert odd.seen == plain.seen and odd.styles == plain.styles
    assert "<script" not in evidence_page(evidence(outcome, ODD)) and odd.text.count(ODD) > 20


@pytest.mark.parametrize(
    "name",
    [
        "{{ 7*7 }}{% raw %}",
        "<script>alert(1)</script>",
        "=cmd|' /C calc'!A0",
        "../../etc/passwd",
        "$(reboot);`id`",
        "--help",
        "\u202egnp.exe",
        "\ud800",
        "\x00",
    ],
)
def test_hostile_names_stand_as_what_they_are(name: str) -> None:
    """Groups and topics of any name: shown to the letter, a mark that turns the direction of writing as its number."""
    plan = {
        "topics": [],
        "unproven": [],
        "groups": [{"group": name, "partitions": 1, "lag": 0, "mirror_maker_rereads": 1}],
    }
    page = evidence_page(
        evidence(
            "completed",
            plan=plan,
            excluded_groups=[{"group": name, "reason": name, "policy": "fail", "members": [name] * 9}],
        )
    )
    shown = visible_text(name)
    assert tags(page).text.count(shown) >= 7 and "\u202e" not in page and len(page.encode("utf-8")) > 1_000


def test_a_bound_is_not_taken_for_what_was_read_again() -> None:
    """Where every position is exact both figures are of one kind."""
    said = "Switchback's figure is a bound"
    assert all(
        said in evidence_page(evidence("completed", rereads={"bound": bound, "mirror_maker": 2})) for bound in (5, None)
    )
    assert said not in evidence_page(evidence("completed", rereads={"bound": 0, "mirror_maker": 2}))


def test_groups_stand_beside_mirror_makers_checkpoints() -> None:
    """Two bars a group on one scale, hostile names to the letter; a bound that nobody knows is said so."""
    groups = [{"group": "<b>", "bound": 5, "mirror_maker": 50}, {"group": "b", "bound": None, "mirror_maker": 20}]
    whole = evidence("completed", failing_step=None, classes={"END": 2, "SYNC": 1})
    whole["steps"].append(
        {
            "id": "translate_offsets",
            "state": "done",
            "started_at": AT,
            "ended_at": AT,
            "figures": {"rereads_by_group": groups},
            "failures": [],
            "notes": [],
        }
    )
    page = evidence_page(whole)
    assert "What whole groups read again" in page and "&lt;b&gt;" in page and "no bound" in page
    assert [f"width:{share}%" in page for share in ("10.0", "100.0", "40.0")] == [True] * 3
    assert "What whole groups read again" not in evidence_page(evidence("completed"))


def test_a_cool_down_that_was_not_waited_for_stands_on_the_page() -> None:
    """Whose end, when, until when, and why; nothing where none was running, and on pages of older evidence."""
    told = {
        "procedure_id": "p-0",
        "outcome": "returned",
        "ended_at": AT,
        "ends_at": LATER,
        "acknowledged": "the site <b> burns",
    }
    page = evidence_page(evidence("completed", cool_down=told))
    assert (
        "p-0 had ended as returned at 2026-11-21 10:00:00 UTC, with a cool-down until 2026-11-21 10:01:00 UTC."
        " The starter's reason: the site &lt;b&gt; burns" in page
    )
    older = {name: value for name, value in evidence("completed").items() if name != "cool_down"}
    assert "cool-down lasted" not in evidence_page(evidence("completed", cool_down=None)) + evidence_page(older)


def test_the_loss_is_drawn() -> None:
    """A lane a range, the certain part first, an arrow where nobody knows the end; names to the letter; nothing
    where nothing is lost.
    """
    rows = [
        {
            "topic": "<b>",
            "partition": n,
            "from_offset": 0,
            "certain_to": to,
            "possible_to": None,
            "records": None,
            "evidence": "e",
        }
        for n, to in enumerate((50, 25, None))
    ]
    page = evidence_page(evidence("completed", loss=rows))
    (picture,) = re.findall(r"<svg class=.loss.*?\n</svg>", page, flags=re.DOTALL)
    lanes = ElementTree.fromstring(picture).findall("svg")
    widths = [[rect.get("width") for rect in lane.findall("rect")] for lane in lanes]
    assert widths == [["100%", "70.0%", "30.0%"], ["100%", "35.0%", "65.0%"], ["100%", "0.0%", "100.0%"]]
    assert all(lane.find("svg/path") is not None for lane in lanes)
    assert lanes[0].findtext("text") == "<b>-0 from 0" and "50 certain, end unknown" in page
    assert "<svg" not in evidence_page(evidence("completed", loss=[]))


@pytest.mark.parametrize("outcome", [o.value for o in Outcome])
def test_the_page_needs_nothing_from_outside(outcome: str) -> None:
    """No address, link, font, script or import: the page opens without a network."""
    page = evidence_page(evidence(outcome))
    assert not re.search(r"https?:|//[a-z]|@import|url\(", page)
    assert tags(page).links == [] and not {"script", "link", "iframe", "img"} & set(tags(page).seen)


@pytest.mark.parametrize("outcome", [o.value for o in Outcome])
def test_the_page_says_how_it_ended(outcome: str) -> None:
    """The outcome stands in title and headline, with a plain sentence about where clients are."""
    page = evidence_page(evidence(outcome))
    assert f": {outcome}</title>" in page and f'<span class="outcome">{outcome}</span>' in page
    assert re.search(r"Clients (never left|were fenced for|are (fenced since|stopped)|work)", page)


@pytest.mark.parametrize("kind", [Entry.REFUSAL, Entry.FAILURE])
def test_a_run_refused_before_any_plan_has_a_page(kind: Entry) -> None:
    """A run that never took the lease, or never began, renders from real evidence."""
    why = {"error": "LeaseLost", "reason": "held by another", "seen": "p-0", "next_step": "wait"}
    refused = entry(Step.OPEN_PROCEDURE, kind, datetime.fromisoformat(AT), **why)
    request = {"dag_id": "planned_failover", "source": "primary", "target": "standby", "reason": "maintenance"}
    for lines in ([], [refused]):
        page = evidence_page(
            evidence_of("p-1", request, lines, [s.value for s in Step], {"cut_off": [], "boundary": []}, LATER, None)
        )
        assert "refused" in page and "Clients never left primary" in page and "No approval was given." in page
    assert "held by another" in page and "wait" in page


def test_a_completed_run_says_that_nothing_was_lost() -> None:
    """With a bound of zero every position is called exact, and no failing step is named."""
    done = evidence(
        "completed",
        failing_step=None,
        rereads={"bound": 0, "mirror_maker": 900},
        classes={"END": 2, "SYNC": 1},
        loss=[],
    )
    page = evidence_page(done)
    assert (
        "3 positions were placed and read back; every placed position is exact." in page
        and "No record was lost" in page
    )
    assert ">900</td>" in page and "What stopped the procedure" not in page


def test_lost_records_are_counted_and_listed() -> None:
    """The sentence counts records, not rows, and each range is in a table."""
    rows = [
        {
            "topic": "orders",
            "partition": p,
            "from_offset": 5,
            "certain_to": 9,
            "possible_to": 9,
            "records": 3,
            "reason": "not on the target",
        }
        for p in (0, 1)
    ]
    page = evidence_page(evidence("completed", target="standby", loss=rows))
    assert "6 records are not on standby" in page and "No record was lost" not in page
    assert page.count(">not on the target</td>") == 2


def test_refused_positions_are_not_called_placed() -> None:
    """A position of class REFUSED was not placed and does not count."""
    page = evidence_page(
        evidence(
            "completed", failing_step=None, rereads={"bound": 0, "mirror_maker": None}, classes={"END": 2, "REFUSED": 1}
        )
    )
    assert (
        "2 positions were placed and read back, 1 were refused and not placed; every placed position is exact." in page
    )


def test_what_the_evidence_lacks_is_said() -> None:
    """Each problem stands on the page; without one nothing is called incomplete."""
    page = evidence_page(evidence("failed", problems=["a.parquet is gone", "b.parquet was changed"]))
    assert page.count("This evidence is incomplete") == 2 and "b.parquet was changed" in page
    assert "incomplete" not in evidence_page(evidence("failed", problems=[]))


def test_an_unknown_bound_is_called_unknown() -> None:
    """No bound is never shown as zero or `None`."""
    page = evidence_page(evidence("completed", failing_step=None, rereads={"bound": None, "mirror_maker": None}))
    assert page.count(">unknown</td>") == 2 and "None" not in page and "every placed position is exact" not in page


def test_thousands_of_partitions_are_cut_and_counted() -> None:
    """The page stays readable, and says how many there are and where."""
    rows = [{"topic": "t", "partition": n, "offset": n} for n in range(7_000)]
    page = evidence_page(evidence("completed", cut_off=rows, boundary=rows))
    assert page.count(">t-") == 200 and "first 100 of 7,000 partitions; all of them are in evidence.json" in page


def test_the_largest_case_makes_a_small_page() -> None:
    """10,000 groups, 7,000 partitions, a step that failed 500 times with a megabyte to say: below half a megabyte."""
    rows = [{"topic": "t" * 200, "partition": n, "offset": n} for n in range(7_000)]
    names = ["g" * 200 + str(n) for n in range(10_000)]
    whole = evidence(
        "failed",
        cut_off=rows,
        boundary=rows,
        excluded_groups=[{"group": n, "reason": "r" * 200, "policy": "fail", "members": names} for n in names],
    )
    whole["plan"]["groups"] = [{"group": n, "partitions": 100, "lag": 1, "mirror_maker_rereads": 1} for n in names]
    whole["steps"][0] |= {
        "figures": {"groups": names},
        "failures": [whole["steps"][0]["failures"][0] | {"seen": "x" * 1_000_000}] * 500,
        "notes": [{"n": names}] * 500,
    }
    assert len(evidence_page(whole)) < 500_000


def test_what_mirror_maker_never_checkpointed_is_said() -> None:
    """Positions without a checkpoint would have begun where auto.offset.reset sends a group."""
    translated = {
        "id": "translate_offsets",
        "state": "done",
        "started_at": AT,
        "ended_at": LATER,
        "figures": {"mirror_maker_missing": 1200},
        "failures": [],
        "notes": [],
    }
    assert "For 1,200 positions MirrorMaker 2 had no checkpoint" in evidence_page(
        evidence("completed", steps=[translated])
    )
    assert "no checkpoint" not in evidence_page(evidence("completed"))


def test_the_fence_is_a_band_on_the_line() -> None:
    """From when to when clients stood still, how long, and how long they were allowed to."""
    steps = [
        {
            "id": name,
            "state": "done",
            "started_at": f"2026-11-21T10:0{a}:00+00:00",
            "ended_at": f"2026-11-21T10:0{b}:00+00:00",
            "figures": {},
            "failures": [],
            "notes": [],
        }
        for name, a, b in (("fence_producers", 1, 2), ("redirect_clients", 3, 4))
    ]
    page = evidence_page(
        evidence(
            "completed", plan={"deadlines": {"max_fence_seconds": 600.0}, "topics": [], "unproven": []}, steps=steps
        )
    )
    assert (
        "Clients fenced from 10:01:00 to 10:04:00 = <b>3 min 00 s</b>; after 10 min 00 s without opening maintenance"
        " the procedure would return to maintenance by itself." in page
    )
    assert '<i class="fence"' in page
    assert "Clients were not fenced." in evidence_page(evidence("refused", fenced_at=None))


def test_an_abort_names_its_person() -> None:
    """Who aborted, when, and why, escaped like everything else."""
    page = evidence_page(
        evidence(
            "aborted",
            failing_step="abort_procedure",
            aborted_by={"by": "carol", "reason": "<b>wrong</b> plan", "at": LATER, "run_id": "r"},
        )
    )
    assert "by carol at 2026-11-21 10:01:00 UTC: &lt;b&gt;wrong&lt;/b&gt; plan" in page


def test_cut_off_and_boundary_are_paired_by_the_plans_names() -> None:
    """A renamed topic's boundary stands beside its own cut-off; without a boundary the page says so."""
    plan = {"topics": [["orders", "primary.orders", 2, "id"]], "unproven": []}
    cut_off = [{"topic": "orders", "partition": n, "offset": 10 + n} for n in (0, 1)]
    page = evidence_page(
        evidence(
            "failed", plan=plan, cut_off=cut_off, boundary=[{"topic": "primary.orders", "partition": 1, "offset": 77}]
        )
    )
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", page) if ">orders-" in row]
    assert rows == [["orders-0", "10", "primary.orders-0", "not reached"], ["orders-1", "11", "primary.orders-1", "77"]]


def test_clients_of_every_kind_are_shown() -> None:
    """Number, fate, what happens, what the owner must do, and names; an unknown number is called unknown."""
    queues = dict.fromkeys([f"queue-{n:02}" for n in range(22)], ListedGroup("share", "share"))
    plan = {"topics": [], "unproven": [], "clients": [vars(one) for one in list_clients(SeenClients(queues))]}
    page = evidence_page(evidence("completed", plan=plan))
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", page) if "kind" in row]
    share, *unseen = [row for row in rows if len(row) == 6]
    assert share[:3] == [kinds.SHARE.name, "22", "not moved"] and share[5].endswith("queue-19 and 2 more")
    assert [row[:3] for row in unseen] == [
        [kind.name, "unknown", "cannot be seen"] for kind in (kinds.WITHOUT_GROUP, kinds.WITHOUT_ENTRY)
    ]
    assert "Clients by kind" not in evidence_page(evidence("completed", plan={"topics": [], "unproven": []}))


def test_steps_lie_within_the_time_line() -> None:
    """Each bar begins and ends inside its lane, also for a step that took no time at the very end."""
    spans = [(0, 10), (10, 10), (60, 60)]
    steps = [
        {
            "id": f"s{n}",
            "state": "done",
            "started_at": AT.replace("00+", f"{a:02d}+") if a < 60 else LATER,
            "ended_at": AT.replace("00+", f"{b:02d}+") if b < 60 else LATER,
            "failures": [],
        }
        for n, (a, b) in enumerate(spans)
    ]
    bars = re.findall(r"left:([\d.]+)%;width:([\d.]+)%", evidence_page(evidence("completed", steps=steps)))
    assert len(bars) == 3
    assert all(float(left) >= 0 and float(width) > 0 and float(left) + float(width) <= 100.01 for left, width in bars)


def test_without_a_source_the_page_says_what_has_no_bound() -> None:
    """Open ends, what was not counted, and the groups as they were seen last."""
    rows = [
        {
            "topic": "orders",
            "partition": 0,
            "from_offset": 5,
            "certain_to": None,
            "possible_to": None,
            "records": None,
            "evidence": "up to what MirrorMaker 2 said",
        }
    ]
    group = {"group": "billing", "partitions": 3, "policy": "earliest", "active": True, "position_at": None, "ahead": 2}
    page = evidence_page(
        evidence("completed", loss=rows, plan={"inventory": {}, "groups": [group], "topics": [], "unproven": []})
    )
    assert all(
        said in page
        for said in (
            "nothing certain",
            "no bound",
            "not counted",
            "up to what MirrorMaker 2 said",
            "Groups, as they were recorded last",
            "billing",
        )
    )


def test_of_a_source_that_was_given_up_the_page_says_how_it_is_fenced_and_what_was_read() -> None:
    """Never that nothing is fenced where a fence is armed; bytes, times and what no transaction committed stand
    above the table of the loss.
    """
    rows = [
        {
            "topic": "orders",
            "partition": 0,
            "from_offset": 5,
            "certain_to": 8,
            "possible_to": None,
            "records": 3,
            "evidence": "read",
        }
    ]
    armed = {
        "id": "fence_source",
        "state": "done",
        "started_at": AT,
        "ended_at": LATER,
        "figures": {"fenced": "armed"},
        "failures": [],
        "notes": [],
    }
    listed = {"losing": 1, "records": 3, "bytes": 21, "first_at": 0, "last_at": 1000, "aborted": 1, "undecided": 0}
    page = evidence_page(
        evidence(
            "completed",
            source="east",
            steps=[armed],
            fenced_at=None,
            loss=rows,
            plan={"inventory": listed, "topics": [], "unproven": []},
        )
    )
    text = tags(page).text
    assert "Fence: armed: east did not answer" in text and "not fenced" not in text
    assert page.count("watch_old_source fences east as soon as east answers") == 3
    assert (
        "When the loss was assessed: east was read: it held 3 records that may be lost, 21 bytes of keys and values,"
        " with timestamps from 1970-01-01 00:00:00 UTC to 1970-01-01 00:00:01 UTC. Of these records 1 belong to aborted"
        in text
    )
    unread = evidence_page(
        evidence(
            "completed",
            source="east",
            loss=rows,
            plan={"inventory": {"losing": 1, "records": None}, "topics": [], "unproven": []},
        )
    )
    assert "When the loss was assessed: east was not read: bytes, timestamps" in tags(unread).text
    assert "When the loss was assessed" not in evidence_page(evidence("completed"))


def objectives_section(**changes: Any) -> str:
    """The text of the section on objectives; empty if the page has none."""
    whole = evidence("completed", source="east", target="west", **changes)
    text = tags(evidence_page({name: value for name, value in whole.items() if value != "absent"})).text
    return " ".join(text.partition("Objectives")[2].partition("Approvals")[0].split())


def test_each_objective_stands_beside_what_was_achieved() -> None:
    """Met, breached, possibly breached and unknown are four different words; tier and basis follow."""
    reasons = {"rto_seconds": ("met", "41 s"), "rpo_seconds": ("unknown", "possible breach: at most 90 s")}
    reasons |= {"rpo_records": ("breached", "9 records")}
    achieved = {"verdicts": {name: {"verdict": v, "reason": r} for name, (v, r) in reasons.items()}}
    stated = {"rto_seconds": 60.0, "rpo_seconds": 30.0, "rpo_records": 5, "tier": "gold", "basis": "BIA-7"}
    text = objectives_section(objectives=stated, achieved=achieved)
    for said in ("RTO 60 smet41 s", "RPO 30 spossible breachat most 90 s", "RPO 5 recordsbreached9 records"):
        assert said in text
    assert text.endswith("Tier: gold. Basis: BIA-7.")
    unknown = {"verdicts": {"rto_seconds": {"verdict": "unknown", "reason": "the run did not complete (failed)"}}}
    assert "RTO 60 sunknownthe run did not complete" in objectives_section(objectives=stated, achieved=unknown)


def test_a_page_without_objectives_says_so_and_an_earlier_versions_page_stays_as_it_was() -> None:
    """None stated, none that applies, and a version that knew none are told apart."""
    none = objectives_section(objectives=None, achieved={"verdicts": {}})
    assert "No RTO and no RPO of east" in none and "is recorded for this run" in none
    restored = objectives_section(objectives={"rto_seconds": 60.0}, achieved=None)
    assert "moves no client, so that no objective applies" in restored
    assert objectives_section(objectives="absent", achieved="absent") == ""
