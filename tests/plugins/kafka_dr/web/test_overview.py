"""The first page: every flow with its clients, its readiness and what is lacking; what is unknown is never green."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kafka_dr.domain.readiness.report import Outlook
from kafka_dr.domain.readiness.state import Gravity, ReadinessFinding
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.web import app as web

from tests.plugins.kafka_dr.domain.readiness.test_state import DRILL
from tests.plugins.kafka_dr.steps.planned.test_offset_option_in_plan import record_option
from tests.plugins.kafka_dr.web.conftest import ALL_DAGS, ID, ODD, Site
from tests.support.bench import TARGET_FENCE
from tests.support.facts import entry

FINDING = ReadinessFinding("recorder_silent", Gravity.FAILED, "", "the flight recorder has stored no sample for 40 s")
LACKS_DRILL = ReadinessFinding("drill_missing", Gravity.UNVERIFIED, "", "no drill of this flow has ended yet")
BACK = "failback-r2"


def known(ago: float = 60) -> Outlook:
    """All figures, true some time ago."""
    at = (datetime.now(UTC) - timedelta(seconds=ago)).isoformat()
    names = ("certain", "possible", "rereads", "seconds")
    return Outlook(certain=0, possible=1234, rereads=1, seconds=12.5, at=dict.fromkeys(names, at))


def drill(days_ago: float) -> Any:
    """A passed drill of so many days ago."""
    return replace(DRILL, ended_at=(datetime.now(UTC) - timedelta(days=days_ago)).isoformat())


def flow(page: str, name: str = "primary-to-standby") -> str:
    """The part of the page about one flow, as words."""
    part = re.search(rf'<section class="flow[^>]* id="{name}".*?</section>', page, flags=re.DOTALL)
    assert part is not None
    return " ".join(re.sub(r"<[^>]*>", " ", part[0]).split())


def chips(page: str) -> list[str]:
    """Look and label of each flow's state."""
    return re.findall(r'class="chip (\w+)">([^<]*)<', page)


def test_an_empty_installation_shows_the_flows_and_what_to_do(site: Site) -> None:
    """Nothing is green, nobody is said to be anywhere without proof, and each lack has its sentence."""
    page = site.get().text
    assert chips(page) == [("unknown", "UNKNOWN")] * 2 and "No check of this flow has ended yet." in flow(page)
    assert "Clients unknown (no procedure has moved them" in flow(page) and "accepts writes" not in flow(page)
    assert "If we failed over now unknown" in flow(page) and "Last drill unknown" in flow(page)
    todo = page.split("What to set up next")[1]
    for words in (
        "No check has ended yet of primary->standby, standby->primary",
        "The topology names no recorder",
        "watch_old_source has shown no sign of life",
        "The topology names no approvers",
        "Nobody is notified",
        "No Connect workers for drills",
    ):
        assert f"<b>{words.replace('>', '&gt;')}" in todo


def test_what_is_set_up_is_not_named(make_bench: Any, site: Site) -> None:
    """A full installation has no list of things to do."""
    key = {"connection": "x"}
    make_bench(
        recorder={"archive": "file:///archive"},
        approvers={"users": ["adam"]},
        notifications=[{"kind": "webhook", **key}],
        drill={
            "environment": "lab",
            "connect": {"primary": "a", "standby": "b"},
            "clients": {"primary": "a", "standby": "b"},
            "principals": ["User:d"],
        },
    )
    for source in ("primary", "standby"):
        record_option(site.bench, source)
        site.checked(source=source)
    for service in (Step.WATCH_OLD_SOURCE.value, "record_positions"):
        site.bench.journal.show_life(service)
    assert "What to set up next" not in site.get().text
    site.journal(600).show_life("record_positions")
    assert "record_positions has shown no sign of life since" in site.get().text


@pytest.mark.parametrize("state", [True, None, False])
def test_a_paused_dag_is_named(site: Site, monkeypatch: pytest.MonkeyPatch, state: bool | None) -> None:
    """Paused, unknown to Airflow, or neither."""
    monkeypatch.setattr(web, "_paused_dags", lambda: dict.fromkeys(ALL_DAGS, state))
    page = site.get().text
    assert ("readiness_check is paused" in page) == (state is True)
    assert ("Paused: planned_failover, unplanned_failover, lost_cluster, failback" in page) == (state is True)
    assert ("Airflow does not know the DAG readiness_check" in page) == (state is None)


def test_a_verified_flow_is_green_with_all_its_figures(site: Site) -> None:
    """Each with its age; the drill with its verdict."""
    site.checked(outlook=known(), drill=drill(10), drill_days=92.0)
    page = site.get().text
    assert chips(page)[0] == ("good", "VERIFIED")
    words = flow(page)
    for text in (
        r"certainly lost 0 records \d+ s ago",
        r"possibly lost, at most 1,234 records \d+ s ago",
        r"read again, at most 1 record by the last runs, \d+ s ago",
        r"clients stopped for about 12\.5 s",
        r"Checked \d+ s ago",
        r"canary, passed, 10 days ago",
        r"Next drill due 20\d\d-",
    ):
        assert re.search(text, words), text


def test_a_stale_check_says_nothing_about_now(site: Site) -> None:
    """Not green, no figure stands without its age, and what to do is said."""
    site.checked(outlook=known(3700), drill=drill(10), drill_days=92.0, ago=3700)
    page = site.get().text
    assert chips(page)[0] == ("unknown", "UNKNOWN") and "chip good" not in page
    words = flow(page)
    assert "The last check ended 61 min ago and said VERIFIED; it says nothing about now." in words
    assert "Stale. Unpause the DAG readiness_check" in words
    assert words.count("which says nothing about now") == 4 and words.count(" unknown ") >= 4


def test_an_unknown_figure_has_its_reason_and_is_never_0(site: Site) -> None:
    """Null is unknown."""
    site.checked(LACKS_DRILL)
    words = flow(site.get().text)
    assert words.count("unknown no run states it") == 4 and "0 record" not in words
    assert "NEEDS VERIFICATION" in words and "drill_missing: no drill of this flow" in words


def test_findings_have_their_since_and_their_page(site: Site) -> None:
    """The gravest first; those of check_readiness lead to its heading."""
    gate = ReadinessFinding("topics_match", Gravity.FAILED, "Topics differ", "Topics differ: orders. Correct it.")
    site.checked(FINDING, gate, LACKS_DRILL, ago=60, earlier=7200)
    page = site.get().text
    words = flow(page)
    assert chips(page)[0] == ("bad", "NOT VERIFIED") and re.search(r"since 20[\d-]+ [\d:]+ UTC, 2 h ago", words)
    assert "runbooks/readiness_check.md#recorder_silent" in words
    assert "runbooks/planned_failover.md#check_readiness" in words
    assert words.index("recorder_silent:") < words.rindex("drill_missing")


def test_many_findings_are_shortened(site: Site) -> None:
    """The first ones, and how many more there are."""
    site.checked(*(ReadinessFinding(f"f{n}", Gravity.FAILED, str(n), "x" * 5000) for n in range(200)))
    page = site.get().text
    assert "200 findings" in page and "175 more findings" in page and len(page) < 60_000


def test_a_flow_at_rest_is_neither_good_nor_bad(site: Site) -> None:
    """Then the flow in use is the other one, so that clients are known to be at its source."""
    rest = ReadinessFinding("flow_at_rest", Gravity.FAILED, "", "the flow is stopped, and the opposite flow runs")
    site.checked(rest, source="standby", at_rest=True)
    page = site.get().text
    assert chips(page)[1] == ("rest", "AT REST") and "If we failed over" not in flow(page, "standby-to-primary")
    assert "Clients primary , never moved" in flow(page)
    assert "Clients primary , never moved" in flow(page, "standby-to-primary")
    site.checked(rest, source="standby", at_rest=True, ago=4000)
    assert "unless the opposite flow is the one in use" in flow(site.get().text)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", '{"form": 1}', '{"form": 2}', '{"form": 1, "state": 7, "checked_at": "soon"}']
)
def test_a_document_that_cannot_be_read_is_unknown(site: Site, text: str) -> None:
    """Whatever is in the file; the page says what to do."""
    site.store(text)
    answer = site.get()
    assert answer.status_code == 200 and chips(answer.text)[0] == ("unknown", "UNKNOWN")
    assert "The readiness document cannot be read" in flow(answer.text)


@pytest.mark.parametrize("field", sorted(["findings", "if_now", "last_drill", "next_drill_due", "reasons", "at_rest"]))
@pytest.mark.parametrize("value", [7, "x", [1], {"a": 1}])
def test_a_document_with_a_wrong_field_never_breaks_the_page(site: Site, field: str, value: Any) -> None:
    """It is shown as far as it can be, or named as unreadable."""
    site.store(json.dumps(site.checked(FINDING, outlook=known(), drill=drill(3)) | {field: value}))
    answer = site.get()
    assert answer.status_code == 200 and "chip good" not in answer.text


def test_a_running_procedure_is_on_top_with_a_link_to_its_page(site: Site) -> None:
    """The countdown stands above the flows; the pair's clients are in between."""
    site.opened()
    site.write(103, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
    page = site.get().text
    assert page.index("Clients fenced for") < page.index('<section class="flow')
    assert 'href="/switchback/run?dag_id=planned_failover&amp;run_id=r%2B1"' in page
    assert "between the clusters" in flow(page) and "primary: unknown" in flow(page)
    site.write(90, Step.FENCE_PRODUCERS, Entry.OUTCOME)
    assert "primary: refuses writes (fenced)" in flow(site.get().text)


def test_where_clients_are_and_since_when(site: Site) -> None:
    """By the last procedure that moved clients, and not undone by a later one that returned."""
    site.moved(ago=7000)
    page = site.get().text
    words = flow(page)
    assert re.search(rf"Clients standby , since 20[\d-]+ [\d:]+ UTC \(moved there by {re.escape(ID)}", words)
    assert "standby: accepts writes" in words and "primary: refuses writes" in words
    assert "Last procedure planned_failover , completed at" in words and "Clients fenced" not in page
    site.opened(by=BACK, ago=500, source="standby")
    site.write(400, Step.OPEN_TARGET, Entry.INTENT, BACK, removes_acl_entries=[])
    site.write(300, Step.RETURN_TO_SOURCE, Entry.INTENT, BACK, reopens_source=True)
    site.write(200, Step.RETURN_TO_SOURCE, Entry.OUTCOME, BACK, touched=True)
    site.closed(100, BACK, "returned")
    words = flow(site.get().text)
    assert "Clients standby , since" in words and "Last procedure failback , returned" in words


def test_a_check_before_the_move_is_stale(site: Site) -> None:
    """A minute after clients moved, what was checked two minutes ago is not green."""
    site.moved(ago=60)
    site.checked(outlook=known(), drill=drill(10), drill_days=92.0, ago=120)
    page = site.get().text
    assert chips(page)[0] == ("unknown", "UNKNOWN") and "Clients were stopped or moved since" in flow(page)
    site.checked(outlook=known(), drill=drill(10), drill_days=92.0, ago=30)
    assert chips(site.get().text)[0] == ("good", "VERIFIED")


def test_a_failback_brings_them_home(site: Site) -> None:
    """The newest move counts, for both flows of the pair."""
    site.moved(ago=7000)
    site.moved(ago=600, by=BACK, source="standby")
    page = site.get().text
    for name in ("primary-to-standby", "standby-to-primary"):
        assert "Clients primary , since" in flow(page, name) and "standby: refuses writes" in flow(page, name)


@pytest.mark.parametrize("late", ["never", "fenced later", "disarmed"])
def test_an_old_source_that_was_never_fenced_is_unknown(site: Site, late: str) -> None:
    """Until the watcher has fenced it."""
    by = "unplanned_failover-r3"
    site.opened(by=by, ago=900)
    site.write(880, Step.FENCE_SOURCE, Entry.OUTCOME, by, fenced="armed", armed_at="x", topics=3)
    site.write(870, Step.OPEN_TARGET, Entry.OUTCOME, by, opened_at="2026-11-27T05:00:00+00:00")
    site.write(860, Step.REDIRECT_CLIENTS, Entry.OUTCOME, by)
    site.closed(850, by)
    if late == "fenced later":
        site.write(
            800,
            Step.WATCH_OLD_SOURCE,
            Entry.OUTCOME,
            by,
            acl_entries_added=1,
            mirror_maker_stopped=True,
            fenced="by acl",
        )
    if late == "disarmed":
        journal = site.journal(700)
        journal.append(
            Step.WATCH_OLD_SOURCE,
            Step.WATCH_OLD_SOURCE,
            Entry.NOTE,
            0,
            {"disarms_fence": by, "source": "primary", "reason": "gone"},
        )
    words = flow(site.get().text)
    expected = {
        "never": "primary: unknown (it could not be fenced: watch_old_source fences it as soon as it answers)",
        "fenced later": "primary: refuses writes (fenced at",
        "disarmed": "primary: unknown (it was never fenced, and a person ended the watch over it)",
    }
    assert expected[late] in words.replace("( ", "(").replace(" )", ")")


@pytest.mark.parametrize("own_name", [True, False])
def test_a_contested_move_is_on_top(site: Site, own_name: bool) -> None:
    """After the end of its procedure, too; whoever undoes it may have let clients in anywhere."""
    site.moved(ago=500)
    by = Step.WATCH_OLD_SOURCE if own_name else ID
    note = {"procedure_id": ID, "contested": ["the fence of primary was lifted twice"]}
    fact = entry(Step.WATCH_OLD_SOURCE, Entry.NOTE, **note).payload
    epoch = 0 if own_name else site.epochs[ID]
    site.journal(100).append(by, Step.WATCH_OLD_SOURCE, Entry.NOTE, epoch, fact)
    page = site.get().text
    assert page.index("<b>Contested.</b>") < page.index('<section class="flow')
    assert "accepts writes" not in flow(page) and "somebody undoes the last move" in flow(page)


@pytest.mark.parametrize("readable", [set(), {"readiness_check"}, {"planned_failover"}, {"failback"}, set(ALL_DAGS)])
def test_everybody_sees_what_they_may_read(site: Site, readable: set[str]) -> None:
    """Nothing without a right; documents by the right on readiness_check, a procedure by that on its own DAG."""
    site.moved(ago=500)
    site.checked(FINDING, outlook=known())
    site.readable = readable
    page = site.get().text
    assert ("There is nothing here that you may read" in page) == (not readable)
    assert ("primary" in page) == bool(readable)
    assert ("recorder_silent" in page and "1,234" in page) == ("readiness_check" in readable)
    assert (ID in page and "moved there" in page) == ("planned_failover" in readable)
    assert "chip good" not in page


def test_a_procedure_that_may_not_be_read_hides_where_clients_are(site: Site) -> None:
    """Also an earlier one: what it moved is not told by a later one."""
    site.opened(by=BACK, source="standby")
    site.readable = {"planned_failover"}
    page = site.get().text
    site.readable |= {"readiness_check"}
    site.checked(outlook=known(), drill=drill(10), drill_days=92.0, ago=300)
    assert chips(site.get().text)[0] == ("unknown", "UNKNOWN")
    assert BACK not in page and "not shown (you may not read the procedure that says so" in flow(page)


@pytest.mark.parametrize("text", [None, "clusters: 7", "clusters: ["])
def test_a_broken_topology_is_said_with_what_to_do(site: Site, text: str | None) -> None:
    """On the page, not as an error of the server."""
    site.bench.topology.unlink()
    if text is not None:
        site.bench.topology.write_text(text)
    answer = site.get()
    assert answer.status_code == 503 and "The flows cannot be shown." in answer.text and "Next:" in answer.text


def test_without_the_journal_the_checks_are_still_shown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where clients are is unknown then, and no flow is green: without the journal nothing could be moved."""
    site.checked(LACKS_DRILL, outlook=known())
    site.checked(source="standby", outlook=known(), drill=replace(drill(1), source="standby"), drill_days=92.0)
    extra = {"url": "sqlite:////nowhere/at/all/journal.db"}
    monkeypatch.setenv("AIRFLOW_CONN_JOURNAL", json.dumps({"conn_type": "generic", "extra": extra}))
    answer = site.get()
    assert answer.status_code == 503 and "The journal cannot be read" in answer.text
    assert chips(answer.text) == [("unknown", "UNKNOWN")] * 2 and "Repair the journal" in flow(answer.text)
    assert "drill_missing" in flow(answer.text) and "unknown (the journal cannot be read" in flow(answer.text)


def test_no_plan_is_read(site: Site) -> None:
    """A running procedure whose plan file is missing, and a move with ten thousand ACL entries, are shown as others."""
    site.opened(ago=900)
    plan = {"plan_file": {"file": "plan-gone.json", "rows": 1, "sha256": "0" * 64}, "plan_digest": "0" * 64}
    site.write(800, Step.FORECAST, Entry.OUTCOME, active_groups=[f"group-{n}" for n in range(10_000)], **plan)
    entries = [vars(replace(TARGET_FENCE, name=f"topic-{n}")) for n in range(10_000)]
    site.bench.journal.append(ID, Step.OPEN_TARGET, Entry.INTENT, site.epochs[ID], {"removes_acl_entries": entries})
    page = site.get()
    assert page.status_code == 200 and "group-17" not in page.text and "topic-17" not in page.text
    assert "between the clusters" in flow(page.text)


def test_everything_from_outside_is_escaped(site: Site) -> None:
    """Texts of a document are text, and nothing is loaded from elsewhere."""
    odd = replace(FINDING, id=ODD, about=ODD, text=ODD)
    outlook = replace(known(), possible=None, unknown={"possible": ODD})
    site.checked(odd, outlook=outlook, drill=replace(drill(1), procedure_id=ODD))
    page = site.get().text
    assert page.count("<script") == 1 and page.count("&lt;script&gt;alert(1)") >= 4
    assert not re.search(r"https?:|src=|@import|url\(", page)
