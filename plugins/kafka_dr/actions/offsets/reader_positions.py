"""Translate positions that readers keep outside Kafka's groups, with the Spark job that translated the groups.

A *reader* is a program that stores its positions itself, for example Flink, Spark, or a program with a database table.

Invariants
1. The job and its input are those of translate_offsets, only the positions are others: a reader gets the answer that a
   group at the same position got. The journal has the digest of that input. An input that is made anew would be
   wrong: once the target is open, clients write there, logs have grown, and the journal lists a later client move.
2. Nothing is changed: no lease is taken, and no cluster and no journal is written.
3. The job reads no record above the cut-off of the source or the boundary of the target, however long the target has
   been open to clients. What retention or a recreated topic has taken since is compared first, and what can no longer
   be proven is refused (class REFUSED, without an offset), never guessed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from kafka_dr.actions import spark_jobs
from kafka_dr.actions.offsets.logs_since import LogsSince
from kafka_dr.actions.scope.flow_scope import names_separate_directions
from kafka_dr.actions.spark_jobs import write_frame
from kafka_dr.domain.plain_text import count_of, first_few
from kafka_dr.errors import BadInput, Contradiction, Refusal
from kafka_dr.hooks.private_files import private_file, private_folder
from kafka_dr.procedure.entries import FolderReceipt, OffsetsTranslated, Receipt, TargetOpened
from kafka_dr.procedure.run import Run
from kafka_dr.vocabulary import Step

_JOB = "translate_offsets"
_PARTITION = ["topic", "partition"]
_KEY = ["reader", *_PARTITION]
#: Files of the job's input that are made anew; of all others the job reads what translate_offsets wrote.
_MADE_ANEW = ("positions.parquet", "bounds.parquet", "segments.parquet", "job.json")
#: Columns of the answer, by the columns of the job's output.
_ANSWER = {
    "target_topic": "target_topic",
    "target_position": "target_offset",
    "class": "class",
    "exact": "exact",
    "bound": "bound",
    "evidence": "evidence",
    "clamped": "clamped",
}


def translate_positions(
    procedure: Run,
    positions: pd.DataFrame,
    context: Any = None,
    tell: Callable[[str], object] = str,
) -> pd.DataFrame:
    """Return one row per position, in the order of `positions`, with the offset from which its reader reads on.

    May be called once translate_offsets is done, during the procedure or later. In a script, `reopened_run` of
    `kafka_dr.procedure.find` gives the procedure; in a task, `procedure_of`. Takes as long as a start of Spark and the
    reading of the records, and changes nothing.

    Args:
        procedure: the procedure that moves, or has moved, clients from source to target.
        positions: topic (name on the source), partition and offset (next record to read), and, for positions of
            several readers, reader (any text). No two rows have the same reader, topic and partition.
        context: the Airflow task's context; None outside Airflow.
        tell: called with each line of progress; what it returns is ignored.

    Returns:
        The columns topic, partition, offset and, if given, reader; target_topic; target_offset (Int64); class (as of
        groups, REFUSED where target_offset is null); exact; bound (Int64): most records that the reader reads again,
        null if unknown; evidence: from what the offset was found, or why there is none; clamped: a note on records that
        may be skipped, null without one.

    Raises:
        BadInput: a column is missing; or a position is a duplicate, of no topic or partition of the flow, negative, or
            beyond the cut-off.
        Refusal: translate_offsets is not done, or clients return or have returned to the source.
        SystemUnavailable: a cluster or Spark did not do its work.
    """
    job_input, topics = _inputs_of(procedure)
    given = _checked_positions(positions)
    folder = procedure.artifacts.find_folder(job_input)
    bounds = pd.read_parquet(folder / "bounds.parquet")
    asked = given.merge(bounds, on=_PARTITION, how="left", validate="many_to_one")
    _refuse_outside(asked, procedure)
    readers = given["reader"].nunique()
    partitions = count_of(len(given.drop_duplicates(_PARTITION)), "partition")
    tell(f"{count_of(len(given), 'position')} of {count_of(readers, 'reader')} on {partitions}")
    job: dict[str, Any] = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    logs = LogsSince.read(procedure, asked, procedure.artifacts.load_json(topics), job["source_readable"])
    refused = logs.reasons(asked)
    kept = asked[refused.isna()]
    tell(f"{count_of(len(asked) - len(kept), 'position')} can no longer be proven; Spark translates {len(kept)}")
    rows = _translated(procedure, context, folder, job, kept, logs) if len(kept) else _no_rows()
    answers = _answers(asked, refused, rows, logs).astype({"partition": "int32"})
    return answers[[*(name for name in positions.columns if name in answers), *_ANSWER.values()]]


def _inputs_of(procedure: Run) -> tuple[FolderReceipt, Receipt]:
    """Return the receipts of the job's input and of the target topics' ids; raise Refusal if there are none."""
    if procedure.progress.began(Step.RETURN_TO_SOURCE) is not None and procedure.progress.done(TargetOpened) is None:
        raise Refusal(
            f"{procedure.id} leads no client to {procedure.request.target}",
            "return_to_source has begun",
            "Leave the readers on the source. After a later procedure has moved the clients, translate with that one.",
        )
    translated = procedure.progress.done(OffsetsTranslated)
    if translated is None:
        raise Refusal(
            f"{procedure.id} has not translated its groups' positions yet",
            "the journal holds no outcome of translate_offsets, so the boundary may not be known either",
            "Wait until translate_offsets is done, then repeat the command.",
        )
    if translated.job_input is None or translated.target_topics is None:
        raise Refusal(
            f"{procedure.id} was translated by an older version of Switchback",
            "the journal does not name the input of the Spark job",
            "Place the readers by the time of their last record, or at the log's beginning.",
        )
    return translated.job_input, translated.target_topics


def _checked_positions(positions: pd.DataFrame) -> pd.DataFrame:
    """Return reader (empty without that column), topic, partition and offset; refuse duplicates and wrong values."""
    needed = [*_PARTITION, "offset"]
    whole = [name for name in ("partition", "offset") if name in positions and _is_whole(positions[name])]
    if not set(needed) <= {*positions.columns} or (len(positions) and len(whole) < 2):
        raise BadInput(
            "The frame of positions lacks a column, or partition or offset is no integer",
            f"columns: {dict(positions.dtypes.astype(str))}",
            "Give topic (text), partition and offset (integers without nulls), and reader (text) if there are several.",
        )
    given = positions.reset_index(drop=True)
    given = given.assign(reader=given.get("reader", "")).astype({"topic": object})
    given = given[[*_KEY, "offset"]].astype({"partition": "int64", "offset": "int64"})
    odd = sorted({name for name in set(given["reader"]) if not name.isprintable()})
    if odd:
        raise BadInput(
            "Names of readers have characters that cannot be printed",
            first_few([ascii(name) for name in odd], 5),
            "Give each reader a name of letters, digits and signs.",
        )
    duplicates = given[given.duplicated(_KEY)]
    if len(duplicates):
        raise BadInput(
            "Partitions have more than one position of one reader",
            _named(duplicates),
            "Give one row for each partition; give positions of several readers a column `reader`.",
        )
    negative = given[given["offset"] < 0]
    if len(negative):
        raise BadInput(
            "Positions are negative",
            _named(negative),
            "A negative number stands for a place such as the log's beginning. Give the offset of the next record to"
            " read, or leave out partitions that the reader has not begun to read.",
        )
    return given


def _is_whole(column: pd.Series) -> bool:
    """Whether a column has integers, and no null."""
    return pd.api.types.is_integer_dtype(column) and not column.isna().any()


def _refuse_outside(asked: pd.DataFrame, procedure: Run) -> None:
    """Raise BadInput for topics and partitions that did not move, and for positions beyond the cut-off."""
    unknown = asked[asked["target_topic"].isna()]
    if len(unknown):
        raise BadInput(
            f"Topics or partitions did not move with {procedure.id}",
            _named(unknown),
            f"Give topics by their names on {procedure.request.source}, and only partitions that they had there when"
            " clients were fenced.",
        )
    beyond = asked[(asked["offset"] > asked["cut_off"]).fillna(False).astype(bool)]
    if len(beyond):
        ends = ", which ends at " + first_few(beyond["cut_off"].astype(str).tolist(), 5)
        raise BadInput(
            "Positions lie beyond the cut-off",
            _named(beyond) + ends,
            "No record stood there when clients were fenced: check that the positions are of this cluster, and of the"
            " next record to read, not of another run of the reader.",
        )


def _named(rows: pd.DataFrame) -> str:
    """Return the first few rows as text, and the number of the others."""
    shown = rows.head(6)
    names = [
        f"{reader + ': ' if reader else ''}{topic}-{partition} at {offset}"
        for reader, topic, partition, offset in shown[[*_KEY, "offset"]].itertuples(index=False)
    ]
    rest = len(rows) - len(shown)
    return ", ".join(names) + (f" and {rest} more" if rest else "")


def _translated(
    procedure: Run, context: Any, recorded: Path, job: Mapping[str, Any], asked: pd.DataFrame, logs: LogsSince
) -> pd.DataFrame:
    """Run the Spark job on the recorded input with other positions; return its rows, a group being a reader."""
    with tempfile.TemporaryDirectory(prefix="translate_positions-") as scratch:
        folder = private_folder(Path(scratch, "input"))
        for path in recorded.iterdir():
            if path.name not in _MADE_ANEW and path.is_file():
                (folder / path.name).symlink_to(path.resolve())
        bounds = logs.bounds_now(asked)
        write_frame(folder, "positions", _job_positions(asked))
        write_frame(folder, "bounds", bounds)
        if (recorded / "segments.parquet").exists():
            segments = pd.read_parquet(recorded / "segments.parquet")
            if not names_separate_directions(procedure):
                segments = segments_for(segments, bounds, asked)
            write_frame(folder, "segments", segments)
        settings = {name: value for name, value in job.items() if name != "deadline_seconds"}
        private_file(folder / "job.json").write_text(json.dumps(settings), encoding="utf-8")
        output = Path(scratch, "output")
        spark_jobs.submit_job(procedure, context or {}, _JOB, folder, output, "Spark did not translate the positions")
        return pd.read_parquet(output / "translation.parquet")


def _job_positions(asked: pd.DataFrame) -> pd.DataFrame:
    """Return the job's input `positions`, in which each reader is a group whose policy is to be refused."""
    return pd.DataFrame(
        {
            "group": asked["reader"],
            "topic": asked["topic"],
            "partition": asked["partition"].astype("int32"),
            "position": asked["offset"],
            "position_at": pd.Series(0, asked.index, "int64"),
            "policy": "fail",
            "may_have_moved": False,
        }
    )


def segments_for(segments: pd.DataFrame, bounds: pd.DataFrame, asked: pd.DataFrame) -> pd.DataFrame:
    """Return the job's input `segments` with positions of readers in place of those of groups, for identity naming.

    Where neither the older segments nor the cut-off are known, the only segment begins at the target's log end and
    above the highest position. A reader's position can be higher than those of all groups, so that segment is moved up.
    """
    key = pd.MultiIndex.from_frame(segments[_PARTITION])
    ends = bounds.set_index(_PARTITION)
    highest = asked.groupby(_PARTITION)["offset"].max()
    unknown = []
    for tp in ends.index[ends["cut_off"].isna() & ends["boundary"].notna()]:
        rows = segments[key == tp]
        if not len(rows) or (len(rows) == 1 and rows["target_from"].iloc[0] == ends["boundary"][tp]):
            unknown.append(tp)
    if not unknown:
        return segments
    moved = pd.DataFrame(
        {
            "topic": [topic for topic, _ in unknown],
            "partition": [partition for _, partition in unknown],
            "segment": 0,
            "source_from": [int(highest[tp]) + 1 for tp in unknown],
            "source_to": None,
            "target_from": [int(ends["boundary"][tp]) for tp in unknown],
            "target_to": None,
            "copied_back": False,
            "drained": False,
        }
    )
    return pd.concat([segments[~key.isin(unknown)], moved.astype(segments.dtypes)], ignore_index=True)


def _no_rows() -> pd.DataFrame:
    """Return the job's output for no position."""
    return pd.DataFrame({name: pd.Series(dtype=object) for name in ("group", *_PARTITION, *_ANSWER)})


def _answers(asked: pd.DataFrame, refused: pd.Series, rows: pd.DataFrame, logs: LogsSince) -> pd.DataFrame:
    """Return the positions with their answers, in the order of `asked`.

    Raises:
        Contradiction: the job did not answer each position that it was given.
    """
    rows = rows.rename(columns={"group": "reader", **_ANSWER}).astype({"partition": "int64"})
    answered = asked[[*_KEY, "offset"]].merge(
        rows[[*_KEY, *_ANSWER.values()]], on=_KEY, how="left", validate="one_to_one"
    )
    answered["target_topic"] = asked["target_topic"]
    answered["class"] = answered["class"].where(refused.isna(), "REFUSED")
    answered["evidence"] = answered["evidence"].where(refused.isna(), refused)
    answered["exact"] = answered["exact"].eq(True)
    answered = answered.astype({"target_offset": "Int64", "bound": "Int64"})
    if answered["class"].isna().any():
        raise Contradiction(
            "Spark did not translate every position",
            _named(answered[answered["class"].isna()]),
            "Nothing was written. Repeat the command; if positions are missing again, keep the input file and report"
            " the fault.",
        )
    return logs.raised_to_start(answered)


def without_offset(rows: pd.DataFrame) -> list[str]:
    """Return each position without an offset on the target, as text with the reason."""
    refused = rows[rows["target_offset"].isna()]
    names = [f"{reader}: " for reader in refused["reader"]] if "reader" in refused else [""] * len(refused)
    columns = (refused[name].tolist() for name in ("topic", "partition", "offset", "evidence"))
    return [f"{name}{t}-{p} at {offset}: {why}" for name, t, p, offset, why in zip(names, *columns, strict=True)]
