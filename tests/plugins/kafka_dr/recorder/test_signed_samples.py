"""What counts of an archive of signed samples: the recorder's own chain, whatever else somebody puts into it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_dr.domain.sample_chain import SampleStatement, missing_newest, parse_note
from kafka_dr.errors import ArchiveUnavailable
from kafka_dr.hooks.archive import Archive
from kafka_dr.recorder.loop import SAMPLES
from kafka_dr.recorder.sample_proof import rows_digest, with_proof

from tests.plugins.kafka_dr.recorder.signed_recorder import BEGIN, FLOW, SignedRecorder, copied, read, rewritten
from tests.support.examples import examples

LATER = BEGIN + timedelta(hours=2)


@pytest.fixture
def recorder(tmp_path: Path) -> SignedRecorder:
    """Six samples; the hour ends after the second."""
    made = SignedRecorder(tmp_path)
    for _ in range(6):
        made.sample()
    return made


def test_the_recorders_own_samples_count(recorder: SignedRecorder) -> None:
    """All of them, in their order, with nothing to say; also merged, and merged again."""
    samples = recorder.reading()
    assert read(samples) == [1, 2, 3, 4, 5, 6] and samples.chain.problems() == []
    assert len(recorder.files) == 6 and recorder.files[0].name == "095940.000000-0000000001.parquet"
    recorder.signing.merge(LATER)
    assert len(recorder.files) == 2
    assert read(samples) == [1, 2, 3, 4, 5, 6] and samples.chain.problems() == []
    recorder.signing.merge(LATER)
    assert len(recorder.files) == 2
    assert recorder.archive.read(SAMPLES)["position"].to_pylist() == [1, 2, 3, 4, 5, 6]


def test_numbers_go_on_in_another_process(recorder: SignedRecorder) -> None:
    """By the archive; and by the journal where the archive lacks the newest samples, so that the gap stays."""
    newest = recorder.notes.newest
    assert (newest.first, newest.last) == (6, 6)
    recorder.start(noted=(6, newest.digest))
    recorder.sample()
    assert read(recorder.reading()) == [1, 2, 3, 4, 5, 6, 7]
    recorder.files[-1].unlink()
    recorder.start(noted=parse_note(recorder.notes.newest.noted))
    recorder.sample()
    samples = recorder.reading()
    assert recorder.notes.newest.last == 8 and read(samples) == [8]
    (told,) = samples.chain.problems()
    assert "sample 7 of the recorder is missing" in told and "older samples do not count" in told


def test_a_write_with_an_unknown_result_is_the_same_file_again(
    recorder: SignedRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive says that it failed although the file is there: no number is given twice."""
    write, rows = Archive.write, recorder.table()

    def answered_wrongly(*args: object) -> None:
        write(*args)
        raise ArchiveUnavailable("writing in the archive failed", "TimeoutError", "look")

    monkeypatch.setattr(Archive, "write", answered_wrongly)
    with pytest.raises(ArchiveUnavailable):
        recorder.signing.write(rows, recorder.now, recorder.ids, 0)
    monkeypatch.undo()
    recorder.signing.write(rows, recorder.now, recorder.ids, 0)
    recorder.sample()
    samples = recorder.reading()
    assert read(samples) == [1, 2, 3, 4, 5, 6, 7, 8] and samples.chain.problems() == []


def test_dropped_samples_are_named(recorder: SignedRecorder) -> None:
    """Also once they stand in a merged file."""
    recorder.sample(dropped=3)
    for merged in (False, True):
        if merged:
            recorder.signing.merge(LATER)
        samples = recorder.reading()
        assert read(samples) == [1, 2, 3, 4, 5, 6, 7]
        assert samples.chain.problems() == ["the recorder gave up 3 samples, because its archive was away"]


# -- what somebody with the right to write to the archive does ---------------------------------------------------------


def unsigned(recorder: SignedRecorder) -> None:
    """A file of one's own."""
    recorder.archive.write(SAMPLES, recorder.table(), recorder.now)


def signed_by_another(recorder: SignedRecorder) -> None:
    """With a key of one's own, as the next number."""
    other = SignedRecorder(recorder.folder, key=recorder.folder / "other-key")
    other.now = recorder.now
    other.start(parse_note(recorder.notes.newest.noted))
    other.sample()


def with_anothers_signature(recorder: SignedRecorder) -> None:
    """The next statement, with the signature of an older one."""
    older, rows = pq.read_table(recorder.files[-1], partitioning=None), recorder.table()
    newest = recorder.notes.newest
    statement = SampleStatement(FLOW, recorder.ids, 7, 7, newest.at + 10_000, rows_digest(rows), newest.digest)
    metadata = older.schema.metadata | {b"switchback.statement": statement.text.encode()}
    recorder.archive.write(SAMPLES, rows.replace_schema_metadata(metadata), recorder.now)


def statement_on_other_rows(recorder: SignedRecorder) -> None:
    """A valid statement, copied onto rows of one's own."""
    rows = recorder.table().replace_schema_metadata(pq.read_schema(recorder.files[-1]).metadata)
    recorder.archive.write(SAMPLES, rows, recorder.now)


def replayed_in_its_hour(recorder: SignedRecorder) -> None:
    """An old file once more."""
    copied(recorder.files[3])


def replayed_in_a_newer_hour(recorder: SignedRecorder) -> None:
    """An old file as the newest one."""
    copied(recorder.files[0], "2026-11-25/11")


def of_the_reverse_flow(recorder: SignedRecorder) -> None:
    """A file of B->A in the archive of A->B, signed with the same key."""
    other = SignedRecorder(recorder.folder, "standby->primary", recorder.key, recorder.ids[::-1])
    other.now = recorder.now
    other.sample()
    shutil.copy(other.files[-1], recorder.files[-1].with_name("100100.000000-0000000007.parquet"))


def not_parquet(recorder: SignedRecorder) -> None:
    """Something else, in an hour of its own, beside folders that are no hours."""
    for hour in ("2026-11-25/11", "2026-99-99/99", "zzz/zzz"):
        folder = recorder.files[0].parents[2] / hour
        folder.mkdir(parents=True)
        (folder / "x.parquet").write_bytes(b"PAR1 or not")


ADDED: dict[Callable[[SignedRecorder], None], str] = {
    unsigned: "unsigned",
    signed_by_another: "signed by a key that the topology does not name",
    with_anothers_signature: "the signature is not that of its statement",
    statement_on_other_rows: "its rows were changed",
    replayed_in_its_hour: "another file holds the samples of these numbers",
    replayed_in_a_newer_hour: "its samples are of the hour 2026-11-25/09",
    of_the_reverse_flow: "its samples are of the flow standby->primary",
    not_parquet: "it is no Parquet file",
}


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("forge", ADDED, ids=lambda forge: forge.__name__)
def test_what_somebody_adds_counts_for_nothing_and_is_named(
    recorder: SignedRecorder, forge: Callable[[SignedRecorder], None], merged: bool
) -> None:
    """What the recorder signed is read as if nothing had been added; also after the recorder's own merge."""
    forge(recorder)
    samples = recorder.reading()
    assert read(samples) == [1, 2, 3, 4, 5, 6]
    (told,) = samples.chain.problems()
    assert told.startswith("1 file of the recorder's archive not counted, the first is samples/2026-")
    assert told.endswith(ADDED[forge]) or ADDED[forge] in told
    if merged:
        recorder.signing.merge(LATER + timedelta(hours=1))
        assert read(samples) == [1, 2, 3, 4, 5, 6]
        assert samples.chain.problems() == ([] if forge is replayed_in_its_hour else [told])


@pytest.mark.parametrize(
    ("ids", "told"), [(("other", None), "of another source"), ((None, "other"), "of another target")]
)
def test_samples_of_other_clusters_count_for_nothing(recorder: SignedRecorder, ids: tuple, told: str) -> None:
    """Where the procedure knows another id; a statement without an id is no contradiction."""
    samples = recorder.reading(ids=ids)
    assert read(samples) == [] and told in samples.chain.problems()[0] and "6 files" in samples.chain.problems()[0]
    silent = SignedRecorder(recorder.folder / "silent", key=recorder.key, ids=(None, None))
    silent.sample()
    assert read(silent.reading(ids=ids)) == [1]


def test_samples_from_before_a_cluster_was_replaced_do_not_count(recorder: SignedRecorder) -> None:
    """The source's id changed: what is older is about another cluster; a source without an answer changes nothing."""
    recorder.sample(ids=(None, "id-standby"))
    recorder.sample(ids=("new", "id-standby"))
    recorder.sample(ids=(None, "id-standby"))
    for _ in range(2):
        samples = recorder.reading()
        assert read(samples) == [7, 8, 9]
        assert samples.chain.problems() == [
            "samples up to 6 of the recorder are about other clusters: they do not count"
        ]
        recorder.signing.merge(LATER)
    assert len(recorder.files) == 3


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("remove", [Path.unlink, lambda path: rewritten(path, lambda rows: rows.slice(0, 0))])
def test_below_a_missing_or_altered_sample_nothing_counts(
    recorder: SignedRecorder, number: int, remove: Callable[[Path], None]
) -> None:
    """What the newer ones left unchanged may have changed in it; the oldest may have expired."""
    remove(recorder.files[number - 1])
    samples = recorder.reading()
    assert read(samples) == list(range(number + 1, 7))
    gap = [told for told in samples.chain.problems() if f"sample {number} of the recorder is missing" in told]
    assert len(gap) == (number > 1)


def test_removed_newest_samples_are_known_to_the_journal(recorder: SignedRecorder) -> None:
    """By number; a sample of that number with other content is another one."""
    noted = parse_note(recorder.notes.newest.noted)
    samples = recorder.reading()
    read(samples)
    assert missing_newest(noted, samples.chain.newest) is None and missing_newest(None, samples.chain.newest) is None
    assert "is not the one" in missing_newest((6, "0" * 64), samples.chain.newest)
    recorder.files[-1].unlink()
    assert read(samples) == [1, 2, 3, 4, 5]
    assert "newer samples were removed" in missing_newest(noted, samples.chain.newest)
    assert "is none: newer samples were removed" in missing_newest(noted, None)
    assert [parse_note(text) for text in (None, "", "[]", "x", '{"sequence": "1", "digest": "d"}')] == [None] * 5


def test_a_merge_makes_nothing_proven_that_was_not(recorder: SignedRecorder) -> None:
    """What is unsigned or altered stays a file of its own; so do samples above and below a missing one."""
    unsigned(recorder)
    rewritten(recorder.files[3], lambda rows: rows.set_column(13, "position", pc.add(rows["position"], 100)))
    before = {path.name: path.read_bytes() for path in recorder.files}
    recorder.signing.merge(LATER)
    left = {path.name: path.read_bytes() for path in recorder.files}
    kept = [name for name in left if name in before]
    assert len(left) == 5 and len(kept) == 3 and all(left[name] == before[name] for name in kept)
    assert read(recorder.reading()) == [5, 6]


def test_an_interrupted_merge_loses_and_doubles_nothing(
    recorder: SignedRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process died between writing the whole and deleting its parts; they are named, and go with the next merge."""
    monkeypatch.setattr(Archive, "delete", lambda *_: None)
    recorder.signing.merge(LATER)
    monkeypatch.undo()
    samples = recorder.reading()
    assert read(samples) == [1, 2, 3, 4, 5, 6] and len(recorder.files) == 8
    assert "6 files" in samples.chain.problems()[0] and "another file holds" in samples.chain.problems()[0]
    recorder.start()
    recorder.signing.merge(LATER)
    assert read(samples) == [1, 2, 3, 4, 5, 6] and samples.chain.problems() == [] and len(recorder.files) == 2


def test_two_recorders_at_once_leave_one_chain(recorder: SignedRecorder) -> None:
    """One that was thought dead goes on beside its successor: the newest sample decides, the others are named."""
    zombie = SignedRecorder(recorder.folder, key=recorder.key)
    zombie.now = recorder.now
    zombie.sample()
    recorder.now += timedelta(seconds=1)
    recorder.sample()
    recorder.sample()
    samples = recorder.reading()
    assert read(samples) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert "another file holds the samples of these numbers" in samples.chain.problems()[0]


@examples(150)
@given(st.data())
def test_no_set_of_foreign_or_replayed_files_changes_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever copies, foreign keys, flows and unsigned rows lie beside them, in whichever hours, merged or not."""
    recorder = SignedRecorder(tmp_path_factory.mktemp("archive"))
    for _ in range(data.draw(st.integers(1, 8))):
        recorder.sample()
    if data.draw(st.booleans()):
        recorder.signing.merge(LATER)
    before, genuine = read(recorder.reading()), recorder.files
    names = random.Random(data.draw(st.integers(0, 999)))
    for forge in data.draw(st.lists(st.sampled_from([*ADDED, "replay"]), max_size=6)):
        if forge == "replay":
            hour = data.draw(
                st.sampled_from([None, "2026-11-25/08", "2026-11-25/09", "2026-11-25/10", "2026-11-26/01"])
            )
            copied(data.draw(st.sampled_from(genuine)), hour, f"{names.random()}")
        elif forge not in (not_parquet, replayed_in_its_hour, with_anothers_signature):
            forge(recorder)
    samples = recorder.reading()
    assert read(samples) == before
    if data.draw(st.booleans()):
        recorder.signing.merge(LATER + timedelta(hours=30))
        assert read(samples) == before
        recorder.start(parse_note(recorder.notes.newest.noted))
        recorder.now = datetime(2026, 11, 26, 2, tzinfo=UTC)
        recorder.sample()
        assert read(samples) == [*before, recorder.count]


@examples(100)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=20), st.data())
def test_a_digest_is_that_of_the_rows(numbers: list[int | None], data: st.DataObject) -> None:
    """Equal for equal rows however they are cut; another one for any other value, null, name or order."""
    texts = [None if n is None else "é" * (n % 3) for n in numbers]
    rows = pa.table({"n": pa.array(numbers, pa.int64()), "t": pa.array(texts, pa.string())})
    cut = data.draw(st.integers(0, len(rows)))
    assert rows_digest(pa.concat_tables([rows.slice(0, cut), rows.slice(cut)])) == rows_digest(rows)
    others = [rows.rename_columns(["n", "u"]), rows.slice(1) if len(rows) else rows.rename_columns(["m", "t"])]
    if numbers:
        others += [rows.set_column(0, "n", pc.coalesce(pc.bit_wise_not(rows["n"]), 0))]
        others += [rows.set_column(1, "t", pc.if_else(pc.is_null(rows["t"]), "", pa.scalar(None, pa.string())))]
    assert rows_digest(rows) not in [rows_digest(other) for other in others]


def test_a_statement_is_read_as_it_was_written() -> None:
    """And a text for another purpose is none."""
    statement = SampleStatement(FLOW, ("a", None), 3, 7, 5, "d", None, 2, "l")
    assert SampleStatement.parse(statement.text) == statement and statement.digest == "l"
    for other in (
        "",
        "{}",
        "[1]",
        statement.text.replace("samples", "plans"),
        statement.text.replace('"first"', '"f"'),
    ):
        assert SampleStatement.parse(other) is None
    rows = with_proof(pa.table({"n": [1]}), statement, _AnySigner())
    assert rows.schema.metadata[b"switchback.statement"].decode() == statement.text


class _AnySigner:
    key_id = "id"

    def sign(self, content: bytes) -> str:
        """Return nothing of worth."""
        return "signature"
