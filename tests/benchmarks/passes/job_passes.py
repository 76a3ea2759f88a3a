"""A Spark job's program once per line of standard input in one session: what a warm pass costs."""

from __future__ import annotations

import json
import runpy
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "spark" / "jobs"))


def main() -> None:
    """Run the job on every line's input; answer its seconds and where its output is as JSON."""
    name, folder, logins = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]).read_bytes()
    for line in sys.stdin:
        output = folder / f"warm-{uuid.uuid4()}"
        (given := folder / "given.json").touch(0o600)
        given.write_bytes(logins)
        sys.argv = [name, "--input", line.strip(), "--output", str(output), "--logins", str(given)]
        began = time.monotonic()
        try:
            runpy.run_module(name, run_name="__main__")
        except SystemExit as end:
            if end.code:
                sys.exit(1)
        print(json.dumps({"seconds": time.monotonic() - began, "output": str(output)}), flush=True)


if __name__ == "__main__":
    main()
