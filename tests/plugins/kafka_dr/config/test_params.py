"""A run's params, checked against the topology before anything is touched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.config.settings import Request, check_params, check_topology
from kafka_dr.errors import BadInput

WORKER = {"connect": "x", "connectors": {"source": "s", "checkpoint": "c"}}
TOPOLOGY = check_topology(
    {
        "clusters": {"primary": {"connection": "a"}, "standby": {"connection": "b"}, "third": {"connection": "c"}},
        "naming": {"policy": "identity"},
        "flows": [
            {"source": "primary", "target": "standby", **WORKER, "mirror_maker": {"topics": "orders, pay.*"}},
            {"source": "standby", "target": "primary", **WORKER, "connect": "y"},
        ],
        "routing": {"kind": "file", "path": "/r"},
        "journal": {"connection": "j"},
        "airflow_api": {"connection": "a"},
        "spark": {"connection": "s"},
        "evidence": "/e",
        "deadlines": {"drain_seconds": 7},
    },
    "topology",
)
GOOD = {"source": "primary", "target": "standby", "reason": "drill"}


def check(**params: Any) -> Request:
    """Checks good params with some changed."""
    return check_params(TOPOLOGY, GOOD | params)


def refused(**params: Any) -> list[str]:
    """What is said to be wrong with good params after a change."""
    with pytest.raises(BadInput) as error:
        check_params(TOPOLOGY, GOOD | params)
    assert all(problem in str(error.value) for problem in error.value.problems)
    return list(error.value.problems)


def test_three_params_are_enough() -> None:
    """Source, target and reason alone make a request for all of the flow with the topology's deadlines."""
    request = check()
    found = (request.source, request.target, request.reason, request.topics, request.groups)
    assert found == ("primary", "standby", "drill", ".*", ".*")
    seen = (request.deadlines.drain_seconds, request.deadlines.stop_seconds, request.start_reverse_replication)
    assert seen == (7, 120, False)


def test_given_params_are_taken() -> None:
    """Deadlines, the switch, a padded reason and nulls are taken as meant."""
    request = check(
        reason="  moving house ", stop_seconds=30, start_reverse_replication=True, topics=None, drain_seconds=1.5
    )
    assert (
        request.reason,
        request.deadlines.stop_seconds,
        request.start_reverse_replication,
        request.deadlines.drain_seconds,
    ) == ("moving house", 30, True, 1.5)


def test_request_cannot_be_changed() -> None:
    """A request stays as it was checked."""
    with pytest.raises(ValueError, match="frozen"):
        check().source = "standby"


def test_all_of_the_flow_in_other_words() -> None:
    """The flow's own topics, in any order, are all of it."""
    assert check(topics="pay.*,orders").topics == ".*"
    assert check(topics=".*", groups=".*").groups == ".*"


@pytest.mark.parametrize(
    "params", [{"topics": "orders"}, {"topics": "-1"}, {"groups": "app"}, {"groups": "orders, pay.*"}]
)
def test_narrower_choice_is_refused_with_the_reason(params: dict[str, str]) -> None:
    """A part of the flow is refused, never quietly widened, and the reason says what is not built."""
    (problem,) = refused(**params)
    assert "taken out of the running flow" in problem and "not built yet" in problem


def test_everything_wrong_is_said_at_once() -> None:
    """All faults come in one error, a line each."""
    wrong = {"source": "prod", "target": "prod", "reason": " ", "topics": "(a+)+", "groups": "[", "modus": "append"}
    problems = refused(**wrong, stop_seconds=-1, drain_seconds="x", start_reverse_replication="yes")
    named = "'modus' source target reason topics groups start_reverse_replication drain_seconds stop_seconds"
    assert [problem.split(":")[0] for problem in problems] == named.split()


def test_nothing_at_all_is_refused() -> None:
    """Without params the three that must be there are named."""
    with pytest.raises(BadInput) as error:
        check_params(TOPOLOGY, {})
    assert [problem.split(":")[:2] for problem in error.value.problems] == [
        ["source", " missing; clusters of the topology"],
        ["target", " missing; clusters of the topology"],
        ["reason", " missing; state why this run is made"],
    ]


def test_same_cluster_and_missing_flow() -> None:
    """Source and target must be two clusters that a flow joins in this direction."""
    assert "name two different clusters" in refused(target="primary")[0]
    assert "flows: primary->standby, standby->primary" in refused(target="third")[0]


WORDS = ". .. $(id) `id` ' \" ../../etc/passwd file:///etc/passwd рrimary -primary --help <b>x</b> =cmd|x PRIMARY"
HOSTILE = ["", " ", "a" * 249, "a" * 250, "a\x00b", "a\nb", "{{ conf }}", "{% x %}", "primary\u202e", "10; drop"]
NUMBERS = [-1, 0, 2**31, 2**63 - 1, float("nan"), float("inf"), True, [], {}]


@pytest.mark.parametrize(
    "value",
    [*WORDS.split(), *HOSTILE, "primary ", *NUMBERS, ["primary"], b"primary", pytest.param(10**5000, id="huge")],
)
def test_hostile_aliases_are_refused_in_printable_lines(value: Any) -> None:
    """Whatever stands for a cluster but is none is refused, and what is repeated of it is printable and short."""
    for end in ("source", "target"):
        problems = refused(**{end: value})
        assert problems[0].startswith(f"{end}: ")
        assert all(p.isprintable() and p.isascii() and len(p) < 400 for p in problems)


@pytest.mark.parametrize(
    "value",
    ["", "  ", "\n", "a\nb", "a\x00b", "a\x1b[31mb", "a\u202eb", "a\u2028b", "x" * 501, 3, True, ["x"], {}, "\u200b"],
)
def test_reasons_that_say_nothing_or_break_a_log_are_refused(value: Any) -> None:
    """A reason is visible text on one line, not empty and not long."""
    assert refused(reason=value)[0].startswith("reason: ")


@pytest.mark.parametrize("value", ["Umzug nach Köln", "<b>x</b>", "{{ x }}", "$(id)", "=cmd", "x" * 500, "-1"])
def test_reasons_are_free_text(value: str) -> None:
    """What is harmless as text is a reason, kept as it is; it is up to pages to escape it."""
    assert check(reason=value).reason == value


@pytest.mark.parametrize(
    "value",
    [*NUMBERS, float("-inf"), 1e308, "10", "10; drop", "1e400", 604801, -0.0, pytest.param(10**400, id="huge")],
)
def test_deadlines_are_positive_and_bounded(value: Any) -> None:
    """A deadline is a finite number of seconds above 0 and at most a week, and no text or boolean."""
    (problem,) = refused(stop_seconds=value)
    assert problem.startswith("stop_seconds: ") and "expected seconds: " in problem and len(problem) < 200


@pytest.mark.parametrize(
    "value", ["[", "(a+)+", "", 3, ["a"], "a,,b", "x" * 10_001, "a\x00", "../../etc/passwd", "{{ x }}"]
)
def test_bad_patterns_are_refused(value: Any) -> None:
    """Topics that are no usable list of regular expressions are refused, and not taken for a narrower choice."""
    (problem,) = refused(topics=value)
    assert problem.startswith("topics: ") and "not built yet" not in problem


@pytest.mark.parametrize("key", ["max_fence_second", "Topics", "", "sasl.password", "bootstrap.servers", "x" * 10_000])
def test_unknown_params_are_refused(key: str) -> None:
    """A misspelt param is refused; Airflow would pass it on and the default would hold."""
    (problem,) = refused(**{key: "hunter2"})
    assert "no such param" in problem and "max_fence_seconds" in problem and "hunter2" not in problem


def test_open_transactions_are_aborted_only_by_decision() -> None:
    """It is false by default."""
    assert check(abort_open_transactions=True).abort_open_transactions is True
    assert check(abort_open_transactions=False).abort_open_transactions is check().abort_open_transactions is False
    assert refused(abort_open_transactions="yes")[0].startswith(
        "abort_open_transactions: 'yes'; expected true or false"
    )


def test_excluded_groups_come_sorted_with_their_reasons() -> None:
    """Each group has its reason; none is excluded by default, and a null is none."""
    found = check(exclude_groups={"reports": " owner on holiday ", "a b": "x"}).exclude_groups
    assert found == {"a b": "x", "reports": "owner on holiday"}
    assert [check(**none).exclude_groups for none in ({}, {"exclude_groups": None}, {"exclude_groups": {}})] == [{}] * 3


@pytest.mark.parametrize("value", ["reports", ["reports"], 3, True, "reports: why"])
def test_excluded_groups_that_are_no_map_are_refused(value: Any) -> None:
    """A list or a text has no reasons in it; the message shows what a map looks like."""
    (problem,) = refused(exclude_groups=value)
    assert problem.startswith("exclude_groups: ") and "expected a map of group to reason" in problem


@pytest.mark.parametrize(
    ("group", "reason", "words"),
    [
        ("*", "x", "no wildcard"),
        ("orders-*", "x", "no wildcard"),
        ("", "x", "not a group name"),
        (" ", "x", "not a group name"),
        ("g" * 251, "x", "not a group name"),
        ("a\nb", "x", "invisible"),
        ("a\u202eb", "x", "invisible"),
        ("g", "", "why the run does not wait for this group"),
        ("g", "  ", "why the run does not wait for this group"),
        ("g", None, "missing"),
        ("g", 3, "why the run does not wait for this group"),
        ("g", "x" * 501, "at most 500"),
        ("g", "a\nb", "invisible"),
        ("g", ["x"], "why the run does not wait for this group"),
    ],
)
def test_excluded_groups_are_named_one_by_one_with_a_reason(group: str, reason: Any, words: str) -> None:
    """No wildcard, no empty or invisible name, and a reason for each, in printable lines."""
    (problem,) = refused(exclude_groups={group: reason, "fine": "because"})
    assert problem.startswith("exclude_groups[") and words in problem and problem.isprintable() and len(problem) < 250


def test_groups_are_not_excluded_by_the_thousand() -> None:
    """A number of excluded groups that nobody can have decided on is refused, and not listed line by line."""
    assert "1001 groups; at most 1000" in refused(exclude_groups={f"g{n}": "x" for n in range(1001)})[0]
    assert len(refused(exclude_groups={f"g{n}": "" for n in range(5000)})) == 1001


def test_choices_of_a_procedure() -> None:
    """A procedure's own params are checked by their types and come back in `choices`; what others take is refused."""
    assert check(mode="append").choices == {"mode": "append"}
    problems = refused(mode="rewrite", undo_procedure=3, other=1)
    for problem, words in zip(problems, ("no such param", "'append' or 'recreate'", "undo_procedure")):
        assert words in problem
    with pytest.raises(BadInput, match="this procedure does not take it"):
        check_params(TOPOLOGY, GOOD | {"mode": "append"}, {"mode"})


def test_a_reason_as_a_procedures_own_param() -> None:
    """Padding goes, the same texts are refused as for the run's reason, and null is none."""
    assert check(override_source_lost="  the site burns ").choices == {"override_source_lost": "the site burns"}
    assert check(override_source_lost=None).choices == {}
    for value, words in (
        ("", "state the reason"),
        (" ", "state the reason"),
        ("a\u202eb", "invisible"),
        ("x" * 501, "at most 500"),
        (3, "string"),
        (True, "string"),
    ):
        (problem,) = refused(override_source_lost=value)
        assert problem.startswith("override_source_lost: ") and words in problem and problem.isprintable()


TEXTS = st.text(max_size=3)
LISTS = st.lists(TEXTS, max_size=2)
MAPS = st.dictionaries(TEXTS, st.one_of(st.none(), TEXTS), max_size=2)


@given(
    st.dictionaries(
        st.sampled_from(
            "source target reason topics groups stop_seconds exclude_groups abort_open_transactions x".split()
        ),
        st.one_of(st.none(), st.text(max_size=20), st.integers(), st.floats(), st.booleans(), LISTS, MAPS),
    )
)
def test_any_params_are_taken_or_refused(params: dict[str, Any]) -> None:
    """No params make another error than BadInput, and its lines are printable."""
    try:
        check_params(TOPOLOGY, params)
    except BadInput as error:
        assert all(problem.isprintable() for problem in error.problems)
