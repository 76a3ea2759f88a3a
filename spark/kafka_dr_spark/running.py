"""What the jobs' main programs share: options, progress, phases, and how an error ends them."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kafka_dr_spark import sources
from kafka_dr_spark.schemas import ContractBroken
from kafka_dr_spark.windows import KafkaAccess, WindowUnreadable

#: The input or the clusters are to blame, and the message says how.
TOLD_AS_THEY_ARE = (ContractBroken, WindowUnreadable, OSError)


def say(line: str) -> None:
    """Print one line of progress."""
    print(f"INFO {line}", file=sys.stderr, flush=True)


class Clock:
    """Measures the job's phases one after the other."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def phase(self, name: str) -> None:
        """End a phase under its name."""
        now = time.monotonic()
        self.seconds[name], self._last = round(now - self._last, 3), now


def options(about: str) -> argparse.ArgumentParser:
    """Return what the command lines of all jobs offer."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--input", required=True, type=Path, help="folder with the job's input")
    parser.add_argument("--output", required=True, type=Path, help="folder to be made")
    parser.add_argument(
        "--wait-for-input", type=float, default=0.0, help="seconds to wait for job.json, which is written last"
    )
    parser.add_argument("--rows-per-read", type=int, help="records taken from a consumer at once")
    parser.add_argument("--content-limit", type=int, help="most records to read per partition and side")
    parser.add_argument("--source-config", help="private JSON file with the source's client settings")
    parser.add_argument("--target-config", help="private JSON file with the target's client settings")
    return parser


def access(wanted: argparse.Namespace, source_readable: bool) -> KafkaAccess:
    """Return the client settings of the clusters that will be read."""
    source = sources.kafka_settings("source", wanted.source_config) if source_readable else None
    target = sources.kafka_settings("target", wanted.target_config)
    if target is None or (source is None and source_readable):
        missing = "target" if target is None else "source"
        raise ContractBroken(
            f"{missing}: no client settings in {sources.SECRET_SOURCES[missing]} or --{missing}-config"
        )
    return KafkaAccess(source, target)


def reason(error: Exception) -> str:
    """Return the one line that says what went wrong, also where it happened in a worker."""
    if isinstance(error, TOLD_AS_THEY_ARE):
        return str(error)
    pattern = rf"(?:{WindowUnreadable.__name__}|{ContractBroken.__name__}): (.*)"
    found = re.findall(pattern, str(error))
    lines = str(error).strip().splitlines() or [""]
    return found[-1] if found else f"{type(error).__name__}: {lines[0]}"


def exit_code(run: Callable[[], None]) -> int:
    """Run a job and return its exit code: 0, or 1 or 2 with one line on stderr; 2 where its input or the clusters
    are to blame.
    """
    try:
        run()
    except TOLD_AS_THEY_ARE as error:
        print(f"ERROR {reason(error)}", file=sys.stderr)
        return 2
    except Exception as error:  # noqa: BLE001
        print(f"ERROR {reason(error)}", file=sys.stderr)
        return 1
    return 0
