"""Rehearsals that must have no finding, for integration and fault tests."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from kafka_dr.domain.evidence.loss_chart import LANES_SHOWN

from lab.environment.state import Lab
from lab.rehearsal.planned import Rehearsal
from lab.rehearsal.round_trip import Leaving, Returning, rehearse_round_trips
from lab.rehearsal.unplanned import Accident, LostSourceRehearsal, rehearse_lost_source

SEED = int(os.environ.get("SWITCHBACK_SEED", "4177"))


def concluded_without_findings(rehearsal: Rehearsal) -> Path:
    """Fail over under load; assert that the check passes; return the evidence folder."""
    with kept_if_it_fails(rehearsal.lab.root, rehearsal.folder):
        verdict = rehearsal.conclude("approver")
        assert verdict.passed, "\n".join(verdict.lines(limit=5))
        assert verdict.figures["exact"] == verdict.figures["positions"] > 0
        assert verdict.figures["acknowledged_by_load"] > rehearsal.rate
        assert verdict.figures["new_records_consumed"] > 0
        return rehearsal.evidence()[0]


def lost_without_findings(
    state: Path, folder: Path, accident: Accident, rate: int, seed: int = SEED, **choices: Any
) -> tuple[dict[str, Any], Counter[str]]:
    """Fail over without the source of a running lab; assert that the check passes; return its results."""
    with kept_if_it_fails(state, folder):
        return _lost_without_findings(state, folder, accident, rate, seed, **choices)


@contextmanager
def kept_if_it_fails(state: Path, folder: Path) -> Iterator[None]:
    """Copy a lab's files if the block fails, because the lab is taken down afterwards."""
    try:
        yield
    except BaseException:
        keep_files(state, folder / "kept")
        raise


def keep_files(state: Path, folder: Path) -> None:
    """Copy a lab's evidence, archive and logs to a folder."""
    lab = Lab(state)
    for files in (lab.evidence, lab.archive, lab.logs):
        # The lab still lives: what vanishes meanwhile must not hide the failure.
        with suppress(OSError, shutil.Error):
            shutil.copytree(files, folder / files.name, dirs_exist_ok=True)
    print(f"evidence, archive and logs are kept under {folder}", flush=True)


def _lost_without_findings(
    state: Path, folder: Path, accident: Accident, rate: int, seed: int, **choices: Any
) -> tuple[dict[str, Any], Counter[str]]:
    verdict, kept = rehearse_lost_source(state, folder, seed, rate, accident, **choices)
    evidence = json.loads((kept / "evidence.json").read_text(encoding="utf-8"))
    print(
        f"seed {seed}, {accident}: {evidence['outcome']}, re-reads {evidence['rereads']}, seconds"
        f" {evidence['seconds']}, {dict(verdict.figures)}",
        flush=True,
    )
    assert verdict.passed, "\n".join(verdict.lines(limit=5))
    assert verdict.figures["positions"] > 0
    assert verdict.figures["acknowledged_by_load"] > rate
    assert verdict.figures["new_records_consumed"] > 0
    assert evidence["rereads"]["mirror_maker"] is not None, (
        "MirrorMaker 2's own checkpoints are not told beside the bound"
    )
    _page_shows(kept / "evidence.html", evidence)
    return evidence, verdict.figures


def _page_shows(page: Path, evidence: dict[str, Any]) -> None:
    """Assert that the page is of this evidence, draws its loss, and does not deny an armed fence."""
    text = page.read_text(encoding="utf-8")
    drawn = [row for row in evidence["loss"] if row["possible_to"] is None or row["possible_to"] > row["from_offset"]]
    assert evidence["digest"] in text and "Clients were not fenced" not in text
    assert text.count('<rect class="lost"') == min(len(drawn), LANES_SHOWN), f"{len(drawn)} ranges are lost"
    assert "When the loss was assessed: " in text or not evidence["loss"]


def trips_without_findings(
    state: Path, folder: Path, trips: Sequence[tuple[Leaving, Returning]], rate: int, seed: int = SEED, **workload: Any
) -> Counter[str]:
    """Run round trips on a running lab; assert that the check passes; return all figures together."""
    with kept_if_it_fails(state, folder):
        verdict = rehearse_round_trips(state, folder, seed, rate, trips, **workload)
        assert verdict.passed, "\n".join(verdict.lines(limit=5))
        figures = verdict.figures
        # What nobody can tell apart would pass unseen.
        assert figures["positions"] > figures["positions_ambiguous"], dict(figures)
        assert figures["flowed_on"] > 0, "nothing that clients wrote after a failback was mirrored"
        assert figures["new_records_consumed"] > 0, (
            "no client was given a record that was written after a change of sides"
        )
        assert figures["acknowledged_by_load"] > rate, "there was hardly any load"
        lost = [leaving for leaving, _ in trips if leaving.accident is not None]
        assert not any(leaving.stranded for leaving in lost) or figures["stranded_listed"] > 0, (
            "replication stood when the source died, and nothing was stranded"
        )
        assert all(leaving.accident is not None for leaving, _ in trips) or figures["exact"] > 0
        return figures


def exact_list(rehearsal: LostSourceRehearsal) -> Path:
    """Let a run that is not approved list the records of the returned source that the target never got."""
    params = {"override_source_lost": "it is back, and only its list is wanted", "approval_wait_seconds": 3}
    rehearsal.run(None, "what is stranded on the old source?", seconds=300, **params)
    folder, evidence = rehearsal.evidence()
    assert (evidence["outcome"], evidence["failing_step"]) == ("refused", "approve_data_loss"), evidence[
        "reason_for_outcome"
    ]
    assert evidence["stranded"] is not None, "the source is back, and was not read"
    _receipts_hold(folder / evidence["stranded"])
    return folder / evidence["stranded"]


def _receipts_hold(made: Path) -> None:
    """Assert that each listed file, stranded or uncommitted, has the digest in its row of the inventory."""
    rows = pq.read_table(made / "loss.parquet").to_pylist()
    for kind, column in (("stranded", "sha256"), ("uncommitted", "uncommitted_sha256")):
        told = {row["file"]: row[column] for row in rows if row[column] is not None}
        assert told == {path.name: sha256(path.read_bytes()).hexdigest() for path in (made / kind).glob("*.parquet")}
