"""The plan, its digest, and what an approver reads."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace

import pandas as pd
import pytest
from kafka_dr.domain.canonical_json import digest_of
from kafka_dr.domain.clients.inventory import SeenClients, list_clients
from kafka_dr.domain.flow_graph.graph import FlowEdge, FlowGraph
from kafka_dr.domain.flow_graph.move import GraphMove
from kafka_dr.domain.flow_graph.section import flows_section
from kafka_dr.domain.mirror_maker.naming import NamingSpec, naming_of
from kafka_dr.domain.readiness.plan import (
    POLICY_MEANS,
    ExcludedGroup,
    FailoverPlan,
    GroupForecast,
    expected_classes,
    plan_markdown,
    table_cell,
    unknown_groups,
)
from markdown_it import MarkdownIt

PLAN = FailoverPlan(
    procedure_id="planned_failover-1",
    dag_id="planned_failover",
    source="primary",
    target="standby",
    reason="maintenance",
    naming="identity",
    connectors={"source": "p->s.source", "checkpoint": "p->s.checkpoint"},
    topics=(("orders", "orders", 3, "id-1"),),
    groups=(
        GroupForecast("billing", 3, 7, "earliest", True, 12, {"END": 2, "CONTENT": 1}),
        GroupForecast("audit", 1, 0, "fail", False, None),
    ),
    fence=("deny User:app",),
    opening=(),
    deadlines={"max_fence_seconds": 600.0},
    start_reverse=False,
    lag=7,
    drain_seconds=None,
    unproven=("quotas",),
)


COOL_DOWN = {"procedure_id": "p-0", "outcome": "completed", "acknowledged": "the site <b> burns"}
COOL_DOWN |= {"ended_at": "2026-11-20T12:00:00+00:00", "ends_at": "2026-11-20T12:15:00+00:00"}


def shown(plan: FailoverPlan) -> str:
    """The plan as an approver sees it, from what the journal gives back."""
    return plan_markdown(json.loads(json.dumps(plan.as_dict())), plan.digest)


def test_the_digest_is_the_one_of_what_the_journal_gives_back() -> None:
    """Stored as JSON and read back, a plan has the digest it was approved under."""
    assert digest_of(json.loads(json.dumps(PLAN.as_dict()))) == PLAN.digest


def test_every_field_changes_the_digest() -> None:
    """No part of the plan can be changed under an approval."""
    changes = dict.fromkeys("procedure_id dag_id source target reason naming".split(), "x")
    changes |= {"connectors": {}, "deadlines": {}, "topics": (), "groups": (), "fence": ()}
    changes |= {"unproven": (), "opening": ("x",), "start_reverse": True, "lag": 8, "drain_seconds": 1.0}
    changes |= {"excluded": (ExcludedGroup("g", "r", "fail", 1, 0, False),), "abort_open_transactions": True}
    changes |= {"cool_down": COOL_DOWN, "copies": {"standby.orders": "orders"}}
    changes |= {"fence_removes": ("x",), "fence_modes": {"x": 1}, "opening_adds": ("x",), "denials": ("x",)}
    changes |= {"terms": {"topology_digest": "x"}, "objectives": {"tier": "x"}}
    changes |= {"clients": list_clients(SeenClients())}
    changes |= {"access": {"orders": "login"}, "differences": {"count": 1}, "flows": {"patterns": []}}
    changes |= {"offset_option": {"option": "x"}}
    assert set(changes) == set(PLAN.as_dict())
    found = len({replace(PLAN, **{name: value}).digest for name, value in changes.items()} | {PLAN.digest})
    assert found == len(changes) + 1


def test_a_cool_down_that_is_not_waited_for_stands_out() -> None:
    """Its reason and times are bold and escaped, each part is in the digest; nothing where none was running."""
    said = (
        "**p-0 ended as completed at 2026-11-20 12:00:00 UTC, and its cool-down lasts until 2026-11-20 12:15:00 UTC."
        " The starter does not wait until then, because:** the site &lt;b&gt; burns"
    )
    assert said in shown(replace(PLAN, cool_down=COOL_DOWN)).splitlines()[:3] and "cool-down" not in shown(PLAN)
    found = len(
        {replace(PLAN, cool_down=COOL_DOWN | {name: "x"}).digest for name in COOL_DOWN}
        | {replace(PLAN, cool_down=COOL_DOWN).digest, PLAN.digest}
    )
    assert found == len(COOL_DOWN) + 2


def test_the_forecast_says_what_will_happen() -> None:
    """Direction, reason, counts, MirrorMaker 2's re-reads, the fence's limit, what is unproven, and the digest."""
    text = shown(PLAN)
    counted = ("1 topics, 2 groups, 7 records", "at most 600 s", "- quotas", PLAN.digest)
    billing = "| billing | 3 | 7 | CONTENT 1, END 2 | 12 | yes |"
    audit = "| audit | 1 | 0 | no position | no checkpoint | no |"
    for part in ("**primary** to **standby**", "maintenance", billing, audit, *counted):
        assert part in text


@pytest.mark.parametrize(
    ("position", "end", "synced", "wanted"),
    [
        (10, 10, False, "END"),
        (10, 10, True, "END"),
        (0, 0, False, "END"),
        (4, 10, True, "SYNC"),
        (4, 10, False, "CONTENT"),
        (11, 10, False, "REFUSED"),
        (-1, 10, False, "REFUSED"),
    ],
)
def test_the_expected_class_follows_from_position_end_and_syncs(
    position: int, end: int, synced: bool, wanted: str
) -> None:
    """The log end counts before a sync; outside the log a person decides."""
    rows = pd.DataFrame({"position": [position], "end": [end], "synced": [synced]})
    assert expected_classes(rows).tolist() == [wanted]


def test_positions_outside_their_logs_are_announced() -> None:
    """The approver learns that somebody will have to decide, and exactness is not promised for those."""
    text = shown(
        replace(PLAN, groups=(GroupForecast("billing", 3, 7, "earliest", True, 12, {"END": 2, "REFUSED": 1}),))
    )
    assert (
        "1 positions lie outside the logs of their partitions: a second person must decide" in text
        and "Every position is expected to be exact" not in text
    )


def test_what_a_group_or_reason_is_called_cannot_change_the_page() -> None:
    """Markup, table bars, line breaks and template braces in names arrive as text."""
    odd = "x|y<script>\n# {{ conn.a }} [a](b) `"
    text = shown(replace(PLAN, reason=odd, groups=(GroupForecast(odd, 1, 0, "fail", False, None),), unproven=(odd,)))
    assert "<script>" not in text and "{{" not in text and "[a](" not in text and "\n# " not in text
    row = next(line for line in text.splitlines() if line.startswith("| x"))
    assert row.replace("\\|", "").count("|") == 7


def test_many_groups_are_cut_and_counted() -> None:
    """With 10,000 groups the fifty with most lag are shown, and the rest are counted."""
    groups = tuple(GroupForecast(f"g{n}", 1, n, "fail", False, None) for n in range(10_000))
    text = shown(replace(PLAN, groups=groups))
    assert "| g9999 |" in text and "| g9950 |" in text and "| g9949 |" not in text
    assert "9950 more groups" in text


def test_an_unknown_rate_gives_no_time() -> None:
    """Without a rate no time to drain is claimed; with one it is."""
    assert "How long that takes is unknown" in shown(PLAN)
    assert "which takes about 4 s." in shown(replace(PLAN, drain_seconds=4.2))


@pytest.mark.parametrize("policy", ["earliest", "fail", "boundary"])
def test_excluded_groups_stand_with_reason_and_what_their_policy_means(policy: str) -> None:
    """The approver sees which groups are not waited for, why, if active, and what becomes of positions."""
    text = shown(replace(PLAN, excluded=(ExcludedGroup("re|ports", "owner {{ away }}", policy, 2, 6, True),)))
    row = next(line for line in text.splitlines() if line.startswith("| re"))
    assert "**1 groups are not waited for**" in text
    assert "| re\\|ports | owner &#123;&#123; away &#125;&#125; | 6 | yes |" in row and POLICY_MEANS[policy] in row
    assert "not waited for" not in shown(PLAN)


def test_each_part_of_an_exclusion_is_part_of_the_digest() -> None:
    """Neither the reason nor the policy of an excluded group can be changed under an approval."""
    named = (("g", "r", "fail"), ("h", "r", "fail"), ("g", "s", "fail"), ("g", "r", "earliest"))
    variants = [ExcludedGroup(*names, 1, 0, False) for names in named]
    assert len({replace(PLAN, excluded=(one,)).digest for one in variants}) == 4


def test_what_becomes_of_open_transactions_is_said_either_way() -> None:
    """Aborted by decision, or waited for: the approver reads which."""
    assert "aborts none of them" in shown(PLAN) and "are aborted**" not in shown(PLAN)
    assert "are aborted**" in shown(replace(PLAN, abort_open_transactions=True))


def test_a_plan_made_before_these_choices_can_still_be_shown() -> None:
    """A run that was planned by an older version and is shown by this one excludes nobody and aborts nothing."""
    new = ("excluded", "abort_open_transactions", "cool_down")
    older = {key: value for key, value in PLAN.as_dict().items() if key not in new}
    assert plan_markdown(older, "d") == plan_markdown(PLAN.as_dict(), "d")


@pytest.mark.parametrize(("wanted", "said"), [
    (["billing"], []), ([], []),
    (["biling"], ["'biling' (similar: 'billing')"]),
    (["zzz", "billing", "Audit"], ["'Audit' (similar: 'audit')", "'zzz' (similar: none)"]),
    (["b\u202eilling"], ["'b\\u202eilling' (similar: 'billing')"]),
])  # fmt: skip
def test_unknown_groups_are_named_with_those_like_them(wanted: list[str], said: list[str]) -> None:
    """A misspelt name is answered with what may have been meant, in printable characters."""
    assert unknown_groups(wanted, ["billing", "audit"]) == said


def test_no_groups_and_nothing_unproven() -> None:
    """The empty case reads well, too."""
    text = shown(replace(PLAN, groups=(), unproven=(), topics=(), lag=0))
    assert "0 topics, 0 groups, 0 records" in text and "What cannot be proven: nothing." in text


def test_consumers_are_told_what_to_subscribe_to() -> None:
    """Both names of a topic, and where a copy's records are on the target; nothing where names do not differ."""
    assert "subscribe" not in shown(PLAN)
    named = replace(PLAN, topics=(("orders", "primary.orders", 3, "id-1"),), copies={"standby.orders": "orders"})
    assert "| orders | primary.orders | orders |" in shown(named)
    assert "| standby.orders | orders | orders |" in shown(named)


def test_of_many_topics_some_are_named() -> None:
    """The first twenty, and how many more there are."""
    names = [f"t{n:02}" for n in range(25)]
    topics = tuple((name, f"primary.{name}", 1, "id") for name in names)
    many = replace(PLAN, topics=topics)
    assert "| t19 |" in shown(many) and "| t20 |" not in shown(many) and "5 more topics" in shown(many)


MARKUP = "\\\\| *bold* __init__ ~~gone~~ ![x](y) &lt;b&gt; https://evil.example/x a\u202egpj.exe"


@pytest.mark.parametrize("name", [*MARKUP.split(), "a\\\\| forged | row |"])
def test_a_name_stays_one_cell_of_plain_text(name: str) -> None:
    """Rendered, a row keeps its cells, and the name is text: no link, image, emphasis or other direction."""
    page = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    rendered = page.render(f"| group | more |\n| --- | --- |\n| {table_cell(name)} | end |\n")
    cells = re.findall(r"<td>(.*?)</td>", rendered, re.DOTALL)
    assert len(cells) == 2 and cells[1] == "end"
    assert not re.search(r"<(a|em|strong|s|img|code)\b", cells[0])
    shown = html.unescape(cells[0]).replace(": //", "://")
    assert shown == name.replace("\u202e", "")


def test_what_a_fence_changes_for_everyone_is_named() -> None:
    """How many names are fenced in which way, the replaced entries, and those that come back on the target."""
    entry = "allow User:* write topic literal '*' from *"
    page = shown(
        replace(
            PLAN, fence_modes={"denied to each client by name": 3}, fence_removes=(entry,), opening_adds=(entry,) * 21
        )
    )
    assert "Topics and groups: 3 denied to each client by name." in page
    assert "**On primary, 1 ALLOW entries for everyone are replaced:** allow User:\\* write topic" in page
    assert "**open_target adds 21 ALLOW entries for everyone on standby**" in page and " and 1 more." in page
    assert "ALLOW entries" not in shown(PLAN)


def test_the_page_says_what_becomes_of_every_flow() -> None:
    """Each flow with its reason, and what readers find under each name."""
    graph = FlowGraph("default", (FlowEdge("p", "s", always=True), FlowEdge("s", "p", always=True)))
    names = naming_of(NamingSpec("default"), ("p", "s"))
    text = shown(replace(PLAN, flows=flows_section(graph, names, GraphMove("p", "s", lost=False))))
    assert "Topology: active-active (p, s)." in text
    assert "| p->s | stops | s takes the place of p" in text and "| s->p | stays |" in text
    assert "| s | TOPIC | s.TOPIC | also has what the clients write that moved from p |" in text
    assert "What becomes of each flow" not in shown(PLAN)


def test_the_offset_option_stands_before_the_groups() -> None:
    """With what it means for this failover; an older plan has none."""
    view = {"option": "two_deployments", "recorded": True, "reason": "scale", "date": None, "person": None}
    text = shown(replace(PLAN, offset_option=view | {"means": "Both must answer.", "differs": []}))
    line = "**Offset option two_deployments.** Both must answer. Chosen because: scale."
    assert text.index(line) < text.index("| group | partitions |") and "Offset option" not in shown(PLAN)
