"""(m) The page Switchback: 10,000 groups and 150 past procedures, beside itself with nothing kept from page to page."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kafka_dr.web import sources

from tests.benchmarks.measuring import Bound, Figures, say, told
from tests.support.page.heavy_page import HeavySite, heavy_site

GROUPS, PAST = 10_000, 150
PATHS = {"all flows": "/", "a running procedure": "/run?dag_id=planned_failover&run_id=running"}
SECONDS, SHARE = Bound(1), Bound(0.7)
#: What is kept from page to page; a page that keeps nothing forgets all of it first.
KEPT = (sources._topology_of, sources._document_of, sources._journal_of)


def figure(page: str) -> str:
    """Name the seconds of one page."""
    return f"(m) page of {page}, {GROUPS:,} groups and {PAST} past procedures"


def share(page: str) -> str:
    """Name the comparison of one page."""
    return f"(m) page of {page}: its time beside a page that keeps nothing"


def promise(figures: Figures) -> None:
    """Name what will be measured."""
    for page in PATHS:
        figures.promise(figure(page), SECONDS, " s")
        figures.promise(share(page), SHARE)


def run(figures: Figures, scale: float, passes: int) -> None:
    """Fill an installation, and get each page again and again, in turn with one that keeps nothing."""
    past, groups = max(2, int(PAST * scale)), max(10, int(GROUPS * scale))
    with tempfile.TemporaryDirectory() as folder, heavy_site(Path(folder), past, groups) as site:
        for page, path in PATHS.items():
            measure(figures, site, page, path, 4 * passes)


def measure(figures: Figures, site: HeavySite, page: str, path: str, passes: int) -> None:
    """Measure one page; the first one, which reads everything, is not counted."""
    kept, anew = [], []
    for _ in range(passes):
        site.get(path)
        kept.append(seconds_of(lambda: site.get(path)))
        anew.append(seconds_of(lambda: forgetful(site, path)))
    say(f"  {page}: {told(kept)}; nothing kept: {told(anew)}")
    figures.measured(figure(page), statistics.median(kept), f"slowest {max(kept):.2f} s")
    figures.measured(share(page), statistics.median(kept) / statistics.median(anew))


def forgetful(site: HeavySite, path: str) -> None:
    """Get a page that keeps nothing of the pages before."""
    for one in KEPT:
        one.cache_clear()
    site.get(path)


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
