"""Run a Spark job's main program: parse options, read the input, make the output, report progress and errors."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark import SparkContext

from kafka_dr_spark import session
from kafka_dr_spark.contract import input as sources
from kafka_dr_spark.contract import output as sinks
from kafka_dr_spark.contract.digests import input_digest
from kafka_dr_spark.contract.logins import Logins, take_logins
from kafka_dr_spark.contract.private_files import private_folder
from kafka_dr_spark.contract.schemas import ContractBroken
from kafka_dr_spark.export.store import NotStored
from kafka_dr_spark.reading.windows import KafkaAccess, WindowUnreadable

#: Errors caused by the input or the clusters: their messages are printed unchanged.
TOLD_AS_THEY_ARE = (ContractBroken, WindowUnreadable, NotStored, OSError)


def print_progress(line: str) -> None:
    """Print one line of progress on stderr."""
    print(f"INFO {line}", file=sys.stderr, flush=True)


class Clock:
    """Measures how many seconds each phase of the job takes; `seconds` has them by name of the phase."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def phase(self, name: str) -> None:
        """End the current phase, store its seconds under ``name``, and begin the next phase."""
        now = time.monotonic()
        self.seconds[name], self._last = round(now - self._last, 3), now


def common_options(about: str) -> argparse.ArgumentParser:
    """Return a command line parser with the options of all jobs; ``about`` begins with the job's description."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--input", required=True, type=Path, help="folder with the job's input")
    parser.add_argument("--output", required=True, type=Path, help="folder that the job creates")
    parser.add_argument(
        "--wait-for-input", type=float, default=0.0, help="seconds to wait for job.json, which is written last"
    )
    parser.add_argument("--rows-per-read", type=int, help="most records that one read of a consumer returns")
    parser.add_argument("--content-limit", type=int, help="most records to read per partition and cluster")
    parser.add_argument(
        "--logins", required=True, type=Path, help="private JSON file with the clusters' logins; deleted once read"
    )
    return parser


def client_access(logins: Logins, source_readable: bool) -> KafkaAccess:
    """Return the client settings of the target and, if ``source_readable``, of the source.

    Raises:
        ContractBroken: the settings of one of these clusters are missing.
    """
    source = logins.source if source_readable else None
    if logins.target is None or (source is None and source_readable):
        missing = "target" if logins.target is None else "source"
        raise ContractBroken(f"{missing}: no client settings; add {missing} to the file that --logins names")
    return KafkaAccess(source, logins.target)


def error_line(error: Exception) -> str:
    """Return one line that describes an error, including an error that was raised in a Spark worker."""
    if isinstance(error, TOLD_AS_THEY_ARE):
        return str(error)
    pattern = rf"(?:{WindowUnreadable.__name__}|{ContractBroken.__name__}|{NotStored.__name__}): (.*)"
    worker_messages = re.findall(pattern, str(error))
    lines = str(error).strip().splitlines() or [""]
    return worker_messages[-1] if worker_messages else f"{type(error).__name__}: {lines[0]}"


@dataclass
class JobRun:
    """One run of a Spark job, from an input folder to an output folder.

    Attributes:
        name: name of the job, for example translate_offsets.
        wanted: parsed command line options.
        logins: logins of the clusters, and settings of Spark that hold a secret.
        given: input folder.
        output: folder that the run creates.
        reads_source: whether the job reads the source even if job.json states that the source is not readable.
        reads_all: whether every partition of a readable source must be readable.
        clock: measures the seconds of each phase of the run.
    """

    name: str
    wanted: argparse.Namespace
    logins: Logins
    given: Path
    output: Path
    reads_source: bool = False
    reads_all: bool = True
    clock: Clock = field(default_factory=Clock)

    def make(self, work: Callable[[JobRun], None]) -> None:
        """Run ``work``, which makes the output; do nothing if the output exists and was made from the same input.

        Raises:
            ContractBroken: the input or the client settings are unusable, or the output was made from another input.
        """
        self.limits = sources.load_limits(self.given, self.wanted.content_limit, self.wanted.rows_per_read)
        self.digest = input_digest(self.given, asdict(self.limits))
        if sinks.is_done(self.output, self.digest):
            print_progress(f"{self.output} exists already: nothing to do")
            return
        readable = self.reads_source or self.limits.source_readable
        self.clients = client_access(self.logins, readable)
        self.bounds = sources.load_bounds(self.given, readable and self.reads_all)
        work(self)

    @contextmanager
    def started(self, *folders: str) -> Iterator[tuple[SparkContext, Path]]:
        """Start Spark; yield its context and a scratch folder that contains the empty folders ``folders``.

        The scratch folder is deleted at the end unless it was renamed to the output.
        """
        self.clock.phase("plan")
        scratch = sinks.scratch_folder(self.output)
        try:
            for folder in folders:
                private_folder(scratch / folder)
            spark = session.spark_with_package(self.name, self.logins.spark)
            self.clock.phase("session")
            yield spark, scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def run_job(
    name: str,
    about: str,
    work: Callable[[JobRun], None],
    reads_source: bool = False,
    reads_all: bool = True,
    prepare: Callable[[str, Mapping[str, str]], SparkContext] = session.preloaded_spark,
) -> int:
    """Run a job and return its exit code: 0 if the output exists, 2 for an error of input or clusters, else 1.

    With exit code 1 or 2 one line on stderr gives the reason.

    Args:
        name: name of the job.
        about: the job's docstring.
        work: makes the output.
        reads_source: whether the job reads the source even if job.json states that the source is not readable.
        prepare: starts Spark; called only with --wait-for-input, before the job waits for its input.
    """
    try:
        wanted = common_options(about).parse_args()
        logins = take_logins(wanted.logins)
        run = JobRun(name, wanted, logins, wanted.input, wanted.output.absolute(), reads_source, reads_all)
        if wanted.wait_for_input:
            prepare(name, logins.spark)
            sources.await_input(wanted.input, wanted.wait_for_input)
            run.clock.phase("start")
        run.make(work)
    except Exception as error:  # noqa: BLE001
        print(f"ERROR {error_line(error)}", file=sys.stderr)
        return 2 if isinstance(error, TOLD_AS_THEY_ARE) else 1
    return 0
