"""The offset option of a flow: what fits its set-up, what contradicts it, and what plans say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.mirror_maker.offset_option import (
    FlowSetUp,
    OffsetOption,
    RecordedOption,
    configured_option,
    meaning_of,
    option_markdown,
    option_problems,
    running_differences,
    view_option,
)

ACCEPT, CUSTOM, PREFIX, TWO = OffsetOption
IDENTITY = FlowSetUp("primary", "standby", "identity", workers=("connect_a",))
DEFAULT = replace(IDENTITY, policy="default", example="primary.orders")
KEEPING = replace(IDENTITY, policy_class="com.example.DrPolicy")
TEMPLATE = replace(IDENTITY, policy="template", example="replicated-primary-orders")
SPLIT = replace(IDENTITY, workers=("connect_a", "connect_b"))
DEDICATED = replace(IDENTITY, workers=())
SET_UPS = (IDENTITY, DEFAULT, KEEPING, TEMPLATE, SPLIT, DEDICATED)
SYNCS = {
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "30",
    "emit.checkpoints.interval.seconds": "10",
}


@pytest.mark.parametrize(
    ("option", "fitting"),
    [
        (ACCEPT, {IDENTITY, SPLIT, DEDICATED}),
        (CUSTOM, {KEEPING, TEMPLATE}),
        (PREFIX, {DEFAULT, TEMPLATE}),
        (TWO, {SPLIT, DEDICATED}),
    ],
)
def test_an_option_fits_the_set_ups_that_have_it(option: OffsetOption, fitting: set[FlowSetUp]) -> None:
    """Every other one is named, with what to record or to change instead."""
    assert {set_up for set_up in SET_UPS if not list(option_problems(option, set_up))} == fitting
    for set_up in {*SET_UPS} - fitting:
        assert all("record" in problem for problem in option_problems(option, set_up))


@given(st.sampled_from(SET_UPS), st.sampled_from(["identity", "default", "template"]), st.booleans())
def test_what_a_set_up_has_never_contradicts_it(set_up: FlowSetUp, policy: str, custom: bool) -> None:
    """Whatever the set-up is, the option that it has by configuration may be recorded."""
    changed = replace(set_up, policy=policy, policy_class="a.B" if custom and policy != "default" else None)
    assert list(option_problems(configured_option(changed), changed)) == []


@pytest.mark.parametrize(
    ("set_up", "option"),
    [(IDENTITY, ACCEPT), (DEFAULT, PREFIX), (KEEPING, CUSTOM), (TEMPLATE, CUSTOM), (SPLIT, TWO), (DEDICATED, ACCEPT)],
)
def test_an_unrecorded_option_follows_from_the_set_up(set_up: FlowSetUp, option: OffsetOption) -> None:
    """A plan says which it is, and that nobody recorded it; nothing contradicts a record that does not exist."""
    view = view_option(None, set_up, {})
    assert (view["option"], view["recorded"], view["reason"], view["differs"]) == (option, False, None, [])
    (line, _) = option_markdown({"offset_option": view})
    assert f"**Offset option {option}, by configuration: the topology records no choice**" in line
    assert "runbooks/offset_options.md" in line


@pytest.mark.parametrize("option", list(OffsetOption))
@pytest.mark.parametrize("set_up", SET_UPS)
@pytest.mark.parametrize("checkpoint", [None, {}, SYNCS])
def test_each_meaning_is_one_or_two_sentences(option: OffsetOption, set_up: FlowSetUp, checkpoint: Any) -> None:
    """Of whole words, whatever the set-up."""
    text = meaning_of(option, set_up, checkpoint)
    sentences = text.replace(".reset", "").split(". ")
    assert 1 <= len(sentences) <= 2 and text.endswith(".") and "None" not in text and "  " not in text


@pytest.mark.parametrize(
    ("option", "set_up", "checkpoint", "words"),
    [
        (ACCEPT, IDENTITY, SYNCS, "up to 40 s old"),
        (ACCEPT, IDENTITY, {"sync.group.offsets.enabled": "TRUE"}, "up to 2 min 00 s old"),
        (ACCEPT, IDENTITY, {}, "finds no position on standby"),
        (ACCEPT, IDENTITY, None, "by the time of two syncs and more"),
        (CUSTOM, KEEPING, {}, "keep their names, because com.example.DrPolicy"),
        (CUSTOM, TEMPLATE, {}, "such as orders to replicated-primary-orders, because a custom class"),
        (PREFIX, DEFAULT, {}, "records from before the move are in primary.orders, and records from after it in"),
        (TWO, SPLIT, {}, "source connectors by connect_a, the checkpoint connector by connect_b. Both must answer"),
        (TWO, DEDICATED, {}, "The stop hook must stop and count the processes of both deployments"),
    ],
)
def test_a_meaning_has_the_flows_own_names_and_figures(
    option: OffsetOption, set_up: FlowSetUp, checkpoint: Any, words: str
) -> None:
    """Not a general text: what this flow's next failover will be like."""
    assert words in meaning_of(option, set_up, checkpoint)


def test_accepting_positions_that_nobody_syncs_is_named() -> None:
    """By the running connector; an unread connector proves nothing, and the other options need no sync."""
    assert "sync.group.offsets.enabled=true" in next(running_differences(ACCEPT, {}))
    assert [*running_differences(ACCEPT, SYNCS), *running_differences(ACCEPT, None)] == []
    assert [text for option in (CUSTOM, PREFIX, TWO) for text in running_differences(option, {})] == []


def test_a_plan_shows_the_record_with_its_reason() -> None:
    """Date and person where they are recorded, escaped for Markdown; each difference stands on a line of its own."""
    record = RecordedOption(ACCEPT, "consumers are <b>idempotent</b> | all", "2026-11-20", "J. Doe")
    lines = option_markdown({"offset_option": view_option(record, IDENTITY, {})})
    assert lines[0].startswith("**Offset option accept_replication_only.** Switchback places each group")
    assert lines[0].endswith("&lt;b&gt;idempotent&lt;/b&gt; \\| all (2026-11-20, J. Doe).")
    assert lines[1].startswith("- **Differs:** the checkpoint connector does not set")
    alone = option_markdown({"offset_option": view_option(RecordedOption(TWO, "scale"), SPLIT, None)})
    assert alone[0].endswith("Chosen because: scale.") and alone[1:] == [""]


@pytest.mark.parametrize("plan", [{}, {"offset_option": {}}])
def test_a_plan_without_the_field_shows_nothing(plan: dict[str, Any]) -> None:
    """Plans of earlier versions, and of drills."""
    assert option_markdown(plan) == []
