"""Translates positions that are kept outside Kafka's groups, such as those of Flink, Spark or a database.

    python -m kafka_dr.commands.translate_positions PROCEDURE_ID INPUT OUTPUT

INPUT has the positions on the source of the procedure: topic, partition, and offset, the next record to read. OUTPUT
gets a row for each, in the same order: the offset on the target, the translation class, and how many records are read
again at most. Both are JSON or Parquet, by their names' endings. Once translate_offsets of the procedure is done, the
command may be run, during the procedure or later. It reads the journal, the procedure's files and both clusters, and
changes nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from kafka_dr.actions.offsets.position_files import check_ending, read_positions, write_rows
from kafka_dr.actions.offsets.reader_positions import translate_positions, without_offset
from kafka_dr.commands.command_line import add_json, command_parser, print_json
from kafka_dr.domain.plain_text import count_of
from kafka_dr.errors import BadInput, SwitchbackError
from kafka_dr.procedure.find import reopened_run

_NAMED = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if every position has an offset on the target, 1 if some have none, 2 on errors.

    With 0 and 1 the output is written, with 2 it is not.
    """
    options = _parser().parse_args(arguments)
    # With this value Airflow reads connections as a server does, not from its API as a task does.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    try:
        rows = _translated(options)
        write_rows(options.output, rows)
    except (OSError, SwitchbackError) as error:
        print(f"nothing was written: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return _report(options.output, rows, options.json)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("translate_positions", __doc__)
    parser.add_argument("procedure_id", help="the name of the evidence folder of the procedure that moved the clients")
    parser.add_argument("input", type=Path, help="positions on the source: a .json or .parquet file")
    parser.add_argument("output", type=Path, help="file for the positions on the target: .json or .parquet")
    add_json(parser)
    return parser


def _translated(options: argparse.Namespace) -> pd.DataFrame:
    check_ending(options.output)
    if not options.output.parent.is_dir() or options.output.resolve() == options.input.resolve():
        raise BadInput(
            "The output cannot be written there",
            f"{options.output}: its folder is missing, or it is the input",
            "Name a file in a folder that exists, other than the input.",
        )
    positions = read_positions(options.input)
    procedure = reopened_run(options.procedure_id)
    try:
        return translate_positions(procedure, positions, tell=_tell)
    finally:
        procedure.close()


def _tell(line: str) -> None:
    print(f"INFO {line}", file=sys.stderr, flush=True)


def _report(output: Path, rows: pd.DataFrame, as_json: bool) -> int:
    """Print how the positions were translated; return the exit code."""
    refused, skipping = without_offset(rows), int(rows["clamped"].notna().sum())
    for line in refused[:_NAMED]:
        print(line, file=sys.stderr)
    if len(refused) > _NAMED:
        print(f"and {len(refused) - _NAMED} more", file=sys.stderr)
    if skipping:
        print(f"{count_of(skipping, 'position')} with a note in `clamped`: records may be skipped", file=sys.stderr)
    counts = {str(name): int(count) for name, count in rows["class"].value_counts().sort_index().items()}
    if as_json:
        exact = int(rows["exact"].sum())
        result = {"output": str(output), "positions": len(rows), "classes": counts, "exact": exact}
        print_json({**result, "with_note": skipping, "without_offset": refused})
        return 1 if refused else 0
    classes = ", ".join(f"{name} {count}" for name, count in counts.items())
    print(
        f"{output}: {count_of(len(rows), 'position')}{': ' + classes if classes else ''}; exact: {rows['exact'].sum()};"
        f" without an offset: {len(refused)}"
    )
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
