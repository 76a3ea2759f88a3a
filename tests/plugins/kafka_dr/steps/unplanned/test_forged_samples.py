"""An unplanned failover on an archive into which somebody else may write: samples that nobody signed move no group."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kafka_dr.domain.loss.loss_page import loss_markdown
from kafka_dr.domain.loss.loss_plan import UNSIGNED_SAMPLES
from kafka_dr.recorder.journal_notes import name_in_journal
from kafka_dr.steps.shared.close_procedure import CloseProcedure
from kafka_dr.steps.shared.review_translation import ReviewTranslation
from kafka_dr.steps.unplanned.assess_data_loss import AssessDataLoss
from kafka_dr.steps.unplanned.translate_offsets import TranslateWithoutSource
from kafka_dr.vocabulary import Step

from tests.plugins.kafka_dr.recorder.signed_recorder import FLOW, IDS, SignedRecorder, copied
from tests.support.facts import asked_by, figures_of
from tests.support.given_up_source import STOP, T0, TRANSLATE, execute
from tests.support.lost_source import Recorder, held, seen

FORGED = seen(100, 5000, replicated=4999)


class Signed(Recorder):
    """The flight recorder of primary->standby, or of another flow, which signs its samples."""

    def __init__(self, folder: Path, flow: str = FLOW, ids: tuple[str, str] = IDS, key: Path | None = None) -> None:
        super().__init__(folder)
        self.signed = SignedRecorder(folder, flow, key, ids)
        self.archive = self.signed.archive

    def store(self, rows: pa.Table, at: datetime) -> None:
        """Put a sample's rows into the archive, signed."""
        self.signed.signing.write(rows, at, self.signed.ids, 0)


@pytest.fixture
def site(make_lost: Callable[..., Any], quick_path: Path) -> tuple[Signed, Callable[[], Any]]:
    """A recorder's archive with three samples, and what makes the run that finds it: topology and journal know them."""
    signed = Signed(quick_path / "archive")
    for source, target in ((1000, 1000), (2000, 2000), (5000, 4990)):
        signed.sample(
            seen(source, target, replicated=target - 1),
            held("billing", 150),
            held("at the end", 5000),
            groups_read="whole",
        )

    def run() -> Any:
        keys = [signed.signed.signer.public_key]
        bench = make_lost(recorder={"archive": f"file://{quick_path}/archive", "public_keys": keys})
        bench.journal.show_life(name_in_journal(FLOW), signed.signed.notes.newest.noted)
        bench.clusters["standby"].partitions["orders"] = {0: 1}
        bench.clusters["standby"].log_ends[T0] = 4990
        bench.workers["standby"].replicated = {T0: 4989}
        bench.clusters["standby"].records[T0] = {offset: f"{offset}" for offset in range(4990)}
        return bench

    return signed, run


def translated(bench: Any) -> tuple[dict[str, Any], pd.DataFrame]:
    """Assess, approve and translate; the assessment's figures and the positions by group."""
    AssessDataLoss(task_id=Step.ASSESS_DATA_LOSS.value).execute(bench.context())
    procedure = bench.procedure()
    figures = figures_of(bench.procedure(), Step.ASSESS_DATA_LOSS)
    bench.api.answer(Step.APPROVE_DATA_LOSS, f"Plan {figures['plan_digest']}")
    bench.done(procedure, Step.APPROVE_DATA_LOSS, asked=True)
    bench.done(procedure, Step.FENCE_SOURCE, fenced="armed")
    execute(bench, STOP)
    TranslateWithoutSource(task_id=TRANSLATE).execute(bench.context())
    rows = procedure.artifacts.load(figures_of(bench.procedure(), TRANSLATE)["translation"])
    return figures, rows.set_index("group")[["target_position", "class", "exact"]]


def evidence_of(bench: Any) -> dict[str, Any]:
    """Evidence of the run, closed as it stands."""
    with suppress(AirflowFailException):
        CloseProcedure(task_id=Step.CLOSE_PROCEDURE.value).execute(bench.context())
    return json.loads((bench.procedure().artifacts.folder / "evidence.json").read_text(encoding="utf-8"))


def by_forged_row(signed: Signed) -> None:
    """One file with one row, 20 s after the last sample: the source ended at 100, the target at 5000."""
    signed.at += 10
    Recorder.sample(_Unsigned(signed), FORGED, held("billing", 5000), held("at the end", 0), groups_read="whole")


class _Unsigned(Recorder):
    """Whoever may write into the archive, and has no key."""

    def __init__(self, signed: Signed) -> None:
        self.archive, self.at = signed.archive, signed.at


def by_reverse_flow(signed: Signed) -> None:
    """The files of standby->primary, signed with the same key, copied into the archive of primary->standby."""
    other = Signed(signed.signed.folder, "standby->primary", IDS[::-1], signed.signed.key)
    other.at = signed.at
    other.sample(FORGED, held("billing", 5000), groups_read="whole")
    (made,) = other.signed.files
    shutil.copy(made, signed.signed.files[-1].with_name("120050.000000-0000000004.parquet"))


def by_replay(signed: Signed) -> None:
    """The oldest sample once more, as the newest one."""
    copied(signed.signed.files[0], "2026-11-01/13")
    copied(signed.signed.files[0], None, "125959.000000-0000000009")


def by_another_cluster(signed: Signed) -> None:
    """A sample of other clusters under the same aliases and key, as from a copy of the site."""
    other = Signed(signed.signed.folder / "copy", key=signed.signed.key, ids=("x", "y"))
    other.at = signed.at
    other.sample(FORGED, held("billing", 5000), groups_read="whole")
    (made,) = other.signed.files
    shutil.copy(made, signed.signed.files[-1].with_name("120050.000000-0000000004.parquet"))


FORGERIES = {
    by_forged_row: ("1 file", "unsigned"),
    by_reverse_flow: ("1 file", "its samples are of the flow standby->primary"),
    by_replay: ("1 file", "its samples are of the hour 2026-11-01/12"),
    by_another_cluster: ("1 file", "its samples are of another target, cluster id 'y' and not 'id-standby'"),
}


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_forged_samples_change_nothing_and_are_named(
    site: tuple[Signed, Callable[[], Any]], forge: Callable[[Signed], None]
) -> None:
    """Positions and loss are those of the recorder's own samples, and the approver reads what did not count."""
    signed, run = site
    forge(signed)
    figures, positions = translated(run())
    assert positions.loc["billing"].tolist() == [0, "POLICY", False]
    assert positions.loc["at the end"].tolist() == [4990, "NEAREST", True]
    (loss,) = figures["plan"]["loss"]
    assert loss["from_offset"] == 4990 and loss["possible_to"] is None
    assert (figures["samples_signed"], figures["samples_missing"]) == (True, False)
    named = [note for note in figures["missing"] if all(part in note for part in FORGERIES[forge])]
    assert len(named) == 1 and set(named) <= set(figures["plan"]["unproven"])
    assert figures["plan"]["warnings"] == [] and UNSIGNED_SAMPLES not in loss_markdown(figures["plan"], "d")


def test_nothing_is_exact_where_the_newest_samples_were_removed(site: tuple[Signed, Callable[[], Any]]) -> None:
    """By the journal's note: the group whose place would be exact is not, and no loss is called complete."""
    signed, run = site
    signed.signed.files[-1].unlink()
    bench = run()
    bench.clusters["standby"].log_ends[T0] = 2000
    figures, positions = translated(bench)
    assert figures["samples_missing"] and not positions["exact"].any()
    assert any("newer samples were removed" in note for note in figures["plan"]["unproven"])
    assert [row["possible_to"] for row in figures["plan"]["loss"]] == [None]
    gate = ReviewTranslation(task_id=Step.REVIEW_TRANSLATION.value)
    assert asked_by(gate, bench.procedure()) is not None


@pytest.mark.parametrize("older", [False, True])
def test_without_a_note_in_the_journal_that_is_named(site: tuple[Signed, Callable[[], Any]], older: bool) -> None:
    """As before the recorder's first note, and in a journal of an earlier version, which lacks the column."""
    bench = site[1]()
    bench.journal.show_life(name_in_journal(FLOW))
    if older:
        with closing(sqlite3.connect(bench.url.removeprefix("sqlite:///"))) as database, database:
            database.execute("ALTER TABLE signs_of_life DROP COLUMN detail")
    figures, positions = translated(bench)
    (named,) = [note for note in figures["missing"] if "does not say which sample" in note]
    assert ("detail" if older else "it has no note") in named and positions.loc["at the end", "exact"]


def test_unsigned_samples_are_warned_of_first(make_lost: Any, recorder: Recorder) -> None:
    """Without a key in the topology they count, as before; plan, gate and evidence begin with what that means."""
    recorder.sample(seen(100, 80, replicated=79), held("billing", 90), groups_read="whole")
    bench = make_lost()
    AssessDataLoss(task_id=Step.ASSESS_DATA_LOSS.value).execute(bench.context())
    figures = figures_of(bench.procedure(), Step.ASSESS_DATA_LOSS)
    assert not figures["samples_signed"] and figures["plan"]["warnings"] == [UNSIGNED_SAMPLES]
    assert loss_markdown(figures["plan"], "d").startswith(f"**{UNSIGNED_SAMPLES}**")
    evidence = evidence_of(bench)
    assert next(iter(evidence.items())) == ("warnings", [UNSIGNED_SAMPLES])
    page = (bench.procedure().artifacts.folder / "evidence.html").read_text(encoding="utf-8")
    summary = page[page.index('<div class="summary">') :]
    assert summary.index(UNSIGNED_SAMPLES) < summary.index("</p>") < summary.index("The attempt to")
