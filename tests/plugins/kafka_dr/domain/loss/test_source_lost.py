"""Whether the source is lost: conservative over every mixture of views and rounds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.loss.source_lost import FROM_HERE, Look, Sight, SourceState, verdict_of

LETTERS = {"A": Sight.ANSWERS, "R": Sight.REFUSES_WRITES, "S": Sight.SLOW, "G": Sight.GONE, "?": Sight.UNKNOWN}
VIEWS = (FROM_HERE, "connect", "application")


def looks(*rounds: str) -> list[Look]:
    """Looks of here, Connect and the application, a word a round and a letter a view; a dot is no look."""
    return [
        Look(view, LETTERS[letter], f"{view} {letter}", 0.5, f"2026-01-01T00:00:{number:02d}+00:00", number)
        for number, word in enumerate(rounds)
        for view, letter in zip(VIEWS, word, strict=False)
        if letter != "."
    ]


@pytest.mark.parametrize(("rounds", "state"), [
    (("GGG", "GGG", "GGG"), SourceState.LOST),
    (("G", "G", "G"), SourceState.LOST),
    (("G??", "G?G", "GG?"), SourceState.LOST),
    (("GGG", "GAG", "GGG"), SourceState.ANSWERS),
    (("A", "G", "G"), SourceState.ANSWERS),
    (("RSA", "RSS", "RSS"), SourceState.ANSWERS),
    (("?GG", "?GG", "?GG"), SourceState.UNDECIDED),
    (("GGG", "?GG", "GGG"), SourceState.UNDECIDED),
    (("GGG", "???", "GGG"), SourceState.UNDECIDED),
    (("GGG", "...", "GGG"), SourceState.UNDECIDED),
    ((".GG", ".GG", ".GG"), SourceState.UNDECIDED),
    (("???", "???", "???"), SourceState.UNDECIDED),
    ((), SourceState.UNDECIDED),
    (("RGG", "RGG", "RGG"), SourceState.REFUSES_WRITES),
    (("GGG", "GGG", "GGR"), SourceState.REFUSES_WRITES),
    (("SGG", "SGG", "SGG"), SourceState.SLOW),
    (("RRR", "SSR", "SSR"), SourceState.SLOW),
    (("SSS", "RRS", "RRS"), SourceState.REFUSES_WRITES),
    (("S", "S", "R"), SourceState.REFUSES_WRITES),
    (("R", "R", "S"), SourceState.SLOW),
    (("RS", "RS", "RS"), SourceState.REFUSES_WRITES),
    (("S", "?", "?"), SourceState.SLOW),
    (("S", "G", "G"), SourceState.UNDECIDED),
    (("R", "G", "G"), SourceState.UNDECIDED),
    (("GGS", "GGS", "GGS"), SourceState.SLOW),
    (("GGG", "GSG", "GGG"), SourceState.UNDECIDED),
    (("GGG", "GRG", "GGG"), SourceState.UNDECIDED),
])  # fmt: skip
def test_every_kind_of_window(rounds: tuple[str, ...], state: SourceState) -> None:
    """Gone, refusing, slow and answering sources are told apart, and so is not knowing."""
    assert verdict_of(looks(*rounds), len(rounds)).state is state


def test_a_round_that_never_was_is_not_seen_lost() -> None:
    """Two rounds of three are not the whole window."""
    assert verdict_of(looks("G", "G"), 3).state is SourceState.UNDECIDED


def test_a_verdict_names_every_view_with_its_first_and_last_look() -> None:
    """What is written down is plain data: counts, words and times of each view."""
    told = json.loads(json.dumps(verdict_of(looks("GG?", "G??", "GG?"), 3).as_dict()))
    assert (told["state"], told["rounds"]) == ("lost", 3)
    found = [(view["view"], view["saw"]) for view in told["views"]]
    assert found == [("here", {"gone": 3}), ("connect", {"gone": 2, "unknown": 1}), ("application", {"unknown": 3})]
    seen = told["views"][0]["first"]
    assert seen == {"at": "2026-01-01T00:00:00+00:00", "sight": "gone", "words": "here G", "seconds": 0.5}
    assert told["views"][0]["last"]["at"] == "2026-01-01T00:00:02+00:00"


def test_a_verdict_reads_as_a_sentence() -> None:
    """Every view with its counts and its last words."""
    found = str(verdict_of(looks("GR", "GR"), 2))
    assert found == "from here: gone 2x, last result: here G; from connect: refuses writes 2x, last result: connect R"
    assert str(verdict_of([], 0)) == "no view has checked the source"


#: Any window, and one that is lost or almost: gone from here every time, with at most one other letter somewhere.
anything = st.lists(st.text("ARSG?.", min_size=1, max_size=3), max_size=5)
lost = st.lists(st.text("G?.", max_size=2).map("G".__add__), min_size=1, max_size=5)


def spoiled(rounds: list[str], letter: str, at: int) -> list[str]:
    """The window with one letter, counted over all rounds, replaced."""
    whole, sizes = list("".join(rounds)), [len(word) for word in rounds]
    whole[at % len(whole)] = letter
    return ["".join(whole[sum(sizes[:n]) : sum(sizes[: n + 1])]) for n in range(len(sizes))]


windows = st.one_of(anything, lost, st.builds(spoiled, lost, st.sampled_from("ARS?."), st.integers(0, 14)))


@given(windows)
def test_whoever_saw_it_answer_is_believed(rounds: list[str]) -> None:
    """One answer in one round, and the source is not lost; without one it never answers."""
    state = verdict_of(looks(*rounds), len(rounds)).state
    assert (state is SourceState.ANSWERS) == ("A" in "".join(rounds))


@given(windows)
def test_lost_means_gone_to_everybody_every_time(rounds: list[str]) -> None:
    """It is lost if no view saw it in any round in which the view from here could look, and only then."""
    state = verdict_of(looks(*rounds), len(rounds)).state
    gone = bool(rounds) and all(word[0] == "G" and set(word[1:]) <= set("G?.") for word in rounds)
    assert (state is SourceState.LOST) == gone


@given(st.lists(st.text("?.", min_size=1, max_size=3), max_size=5))
def test_not_knowing_never_means_lost(rounds: list[str]) -> None:
    """Views that could not look decide nothing."""
    assert verdict_of(looks(*rounds), len(rounds)).state is SourceState.UNDECIDED


@given(windows, st.randoms())
def test_the_order_of_views_decides_nothing(rounds: list[str], random: object) -> None:
    """Looks of one round may come in any order."""
    taken = looks(*rounds)
    mixed = sorted(taken, key=lambda look: (look.round, random.random()))
    assert verdict_of(mixed, len(rounds)).state is verdict_of(taken, len(rounds)).state
