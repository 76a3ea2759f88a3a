"""The watcher as a command: it looks until it is ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka_dr.commands import watch_old_source
from kafka_dr.vocabulary import Step
from kafka_dr.watcher import watcher as watching


def test_it_watches_and_shows_that_it_lives(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever arms a fence finds it alive; it says what it sees, and ends when it is interrupted."""
    real, looks = watching.Watcher, []

    class Interrupted(real):
        """Somebody ends it after two looks."""

        def look(self) -> None:
            looks.append(1)
            if len(looks) > 2:
                raise KeyboardInterrupt
            super().look()

    bench.no_watcher()
    before = bench.journal.last_sign(Step.WATCH_OLD_SOURCE)
    monkeypatch.setattr(watching, "Watcher", lambda tell: Interrupted(tell, lambda: bench.connections))
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.01)
    assert watch_old_source.main([]) == 130
    assert capsys.readouterr().out == "watching: 0 old sources are watched\n"
    assert bench.journal.last_sign(Step.WATCH_OLD_SOURCE) > before


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is watched."""
    (tmp_path / "users.json").write_text("{}")
    (tmp_path / "users.json").chmod(0o644)
    assert watch_old_source.main(["--own-database", str(tmp_path)]) == 2
    assert "holds secrets, and other users may read the file" in capsys.readouterr().err
