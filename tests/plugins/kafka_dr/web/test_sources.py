"""What pages keep of topology, journal and documents is what stands there now, whoever writes in between."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import pytest
from kafka_dr.config import settings
from kafka_dr.hooks.journal.journal import Journal
from kafka_dr.vocabulary import Entry, Step
from kafka_dr.web import sources

from tests.plugins.kafka_dr.web.conftest import ID, Site


def test_a_page_reads_nothing_again_that_has_not_changed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither topology nor documents, and of the journal only its newest entry, leases and signs of life."""
    site.moved(ago=500)
    site.checked()
    assert "moved there by" in site.get().text
    read: list[Any] = []
    monkeypatch.setattr(settings, "read_yaml", read.append)
    monkeypatch.setattr(sources, "read_document", read.append)
    ask = Journal._read
    monkeypatch.setattr(Journal, "_read", lambda journal, query: read.append("journal") or ask(journal, query))
    assert "moved there by" in site.get().text
    assert set(read) == {"journal"} and len(read) <= 4


def test_each_write_shows_on_the_next_page(site: Site) -> None:
    """An entry, a lease that is taken or released, a document, a topology."""
    assert ID not in site.get().text
    site.opened()
    assert ID in site.get().text
    site.write(100, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
    assert "Clients fenced for" in site.get().text
    site.closed(50)
    assert "Clients fenced for" not in site.get().text
    site.checked(source="standby")
    assert site.get().text.count("No check of this flow has ended yet.") == 1
    site.checked()
    assert "No check of this flow has ended yet." not in site.get().text
    document = json.loads(site.bench.topology.read_text())
    site.bench.topology.write_text(json.dumps({**document, "flows": document["flows"][:1]}))
    assert 'id="standby-to-primary"' not in site.get().text


def test_what_was_read_of_a_procedure_is_read_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a running procedure only the entries since are parsed, however long the older ones are."""
    site.opened()
    kept = sources.journal_of(sources.topology_now())
    first, read, anew = kept.entries(ID), Journal.entries, list[Any]()
    assert kept.entries("another") == [] and first
    monkeypatch.setattr(Journal, "entries", lambda journal, *asked: anew.append(asked) or read(journal, *asked))
    for seconds in (90, 80, 70):
        site.write(seconds, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": seconds})
        kept.look_again()
        entries = kept.entries(ID)
    assert anew == [] and len(entries) == len(first) + 3 and kept.entries("another") == []
    assert entries == read(kept, ID) and entries[0] is first[0]


def test_entries_of_another_journal_are_not_added(site: Site) -> None:
    """Such as one that was restored from a copy and written on: nothing that was read of the other one counts."""
    site.opened()
    kept = sources.journal_of(sources.topology_now())
    kept.look_again()
    assert kept.entries(ID)
    kept._newest = replace(kept._newest, hash="of another journal")
    site.write(90, Step.FENCE_PRODUCERS, Entry.INTENT, **{"try": 1})
    kept.look_again()
    assert not kept._kept and len(kept.entries(ID)) == len(Journal.entries(kept, ID))


def test_a_document_that_was_replaced_within_a_tick_is_read(site: Site) -> None:
    """readiness_check replaces the file, so that it is another one, whatever its time and size."""
    site.checked()
    path = next((site.bench.folder / "evidence" / "readiness").iterdir())
    assert sources.document_now(path) is not None
    before, aside = path.stat(), path.with_suffix(".new")
    aside.write_text(" " * before.st_size)
    os.utime(aside, ns=(before.st_atime_ns, before.st_mtime_ns))
    aside.replace(path)
    assert sources.document_now(path) is None


def test_a_journal_that_was_away_is_opened_anew(site: Site) -> None:
    """Its tables are made again, as every reader makes them."""
    site.opened()
    assert ID in site.get().text
    for path in site.bench.folder.glob("journal.db*"):
        path.unlink()
    assert site.get().status_code == 503
    answer = site.get()
    assert answer.status_code == 200 and ID not in answer.text
