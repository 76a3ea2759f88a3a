"""The job's own run(), once per line of standard input, in one process with one Spark session: what a warm pass costs."""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "spark" / "jobs"))

import translate_offsets as job  # noqa: E402


def main() -> None:
    """Translate for every line; answer its seconds and its digest as JSON."""
    folder = Path(sys.argv[1])
    for line in sys.stdin:
        given, output = Path(line.strip()), folder / f"warm-{uuid.uuid4()}"
        wanted = argparse.Namespace(input=given, output=output, rows_per_read=None, content_limit=None, source_config=None, target_config=None)
        began = time.monotonic()
        job.run(wanted)
        print(json.dumps({"seconds": time.monotonic() - began, "output": str(output)}), flush=True)


if __name__ == "__main__":
    main()
