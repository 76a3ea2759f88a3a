"""`python -m tests.benchmarks`: runs the benchmarks and prints every figure beside its bound on its last lines."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import signal
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "plugins"), str(ROOT / "spark")]

from tests.benchmarks.measuring import Figures, say  # noqa: E402

BENCHMARKS = {
    "a": "translate",
    "b": "commits",
    "c": "rereads",
    "d": "failover",
    "e": "content",
    "f": "stranded",
    "g": "metadata",
    "h": "recorder",
    "i": "lost_source",
    "j": "anti_join",
    "k": "acl_rights",
    "l": "readiness",
    "m": "web.page",
    "n": "size.large_clusters",
    "o": "size.whole_procedures",
    "p": "reconcile",
}


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description="Switchback beside its peers, in one run"
    )
    parser.add_argument("--only", default=",".join(BENCHMARKS), help="letters, such as a,b (default: all)")
    parser.add_argument(
        "--scale",
        type=float,
        default=float(os.environ.get("SWITCHBACK_BENCH_SCALE", "1")),
        help="factor on the sizes; bounds are meant for 1",
    )
    parser.add_argument("--passes", type=int, default=5, help="passes of each contestant (default: 5)")
    return parser.parse_args()


def main() -> int:
    """Run what is asked for; a benchmark that fails leaves its figures unmeasured and the others run."""
    wanted, figures = arguments(), Figures()
    # The lab of a benchmark that is ended must come down too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    modules = {
        letter: importlib.import_module(f"tests.benchmarks.{BENCHMARKS[letter]}") for letter in wanted.only.split(",")
    }
    for module in modules.values():
        module.promise(figures)
    for letter, module in modules.items():
        began = time.monotonic()
        say(module.__doc__.splitlines()[0])
        try:
            module.run(figures, wanted.scale, wanted.passes)
        except Exception:
            traceback.print_exc()
        gc.collect()
        say(f"  ({letter}) took {time.monotonic() - began:.0f} s")
    return conclude(figures, wanted.scale)


def conclude(figures: Figures, scale: float) -> int:
    """Print every figure beside its bound; answer the exit code."""
    say("" if scale == 1 else f"Sizes were scaled by {scale:g}: the bounds are meant for 1.")
    for figure in figures.promised.values():
        say(str(figure))
    return int(any(figure.verdict in ("MISSED", "NOT MEASURED") for figure in figures.promised.values()))


if __name__ == "__main__":
    sys.exit(main())
