"""The address that Prometheus scrapes: switched on by the topology, open to the token alone, and never an error 500."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from fastapi.testclient import TestClient
from kafka_dr.domain.metrics.series import PREFIX, SERIES
from kafka_dr.web import app as web

from tests.support.metrics.site import TOKEN, MetricsSite, samples_in


class Scraper:
    """A site and what is answered there."""

    def __init__(self, site: MetricsSite) -> None:
        self.site, self.client = site, TestClient(web.app, root_path="/switchback")

    def get(self, authorization: str | None = f"Bearer {TOKEN}") -> Any:
        """One scrape."""
        return self.client.get("/metrics", headers={"Authorization": authorization} if authorization else {})


@pytest.fixture
def scraper(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Scraper:
    """A whole site whose connections are in the environment."""
    site = MetricsSite(bench)
    site.fill()
    monkeypatch.setenv("AIRFLOW_CONN_JOURNAL", json.dumps({"conn_type": "generic", "extra": {"url": bench.url}}))
    monkeypatch.setenv("AIRFLOW_CONN_METRICS", json.dumps({"conn_type": "generic", "password": TOKEN}))
    return Scraper(site)


def test_the_token_opens_all_series(scraper: Scraper) -> None:
    """In the form that Prometheus reads, not kept by anybody on the way."""
    answer = scraper.get()
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert {key[0].removeprefix(PREFIX) for key in samples_in(answer.text)} == set(SERIES)
    assert samples_in(answer.text)["switchback_up",] == 1
    assert "python_info" not in answer.text, "only a registry of its own is written"


@pytest.mark.parametrize(
    "shown",
    [None, "", TOKEN, "Bearer", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer é"],
)
def test_without_the_token_nothing_is_told(scraper: Scraper, shown: str | None) -> None:
    """401, without a series and without the token."""
    answer = scraper.get(shown.encode() if shown else shown)
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert "switchback_" not in answer.text and TOKEN[:8] not in answer.text


@pytest.mark.parametrize("settings", [None, {"file": "/tmp/x.prom"}])
def test_metrics_are_off_unless_a_connection_is_named(scraper: Scraper, settings: Any) -> None:
    """404 with one sentence, with and without a token."""
    scraper.site.state(metrics=settings)
    for shown in (None, f"Bearer {TOKEN}"):
        answer = scraper.get(shown)
        assert answer.status_code == 404 and answer.text.count("\n") == 1 and "not switched on" in answer.text


@pytest.mark.parametrize("password", ["", "short", None])
def test_a_token_that_cannot_be_used_opens_nothing(
    scraper: Scraper, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, password: str | None
) -> None:
    """503; the reason is in the log alone, without the token."""
    if password is None:
        monkeypatch.delenv("AIRFLOW_CONN_METRICS")
    else:
        monkeypatch.setenv("AIRFLOW_CONN_METRICS", json.dumps({"conn_type": "generic", "password": password}))
    with caplog.at_level(logging.WARNING):
        answer = scraper.get(f"Bearer {password or ''}")
    assert answer.status_code == 503 and "switchback_" not in answer.text
    said = "at least 16" if password is not None else "neither in the environment nor"
    assert said in caplog.text and "short" not in caplog.text.replace("is too short", "")


def test_a_topology_that_cannot_be_read_is_no_error_500(scraper: Scraper) -> None:
    """Nothing says then what the token is."""
    scraper.site.bench.topology.write_text("{")
    assert scraper.get().status_code == 503


def test_a_journal_that_is_away_is_scraped(scraper: Scraper, monkeypatch: pytest.MonkeyPatch) -> None:
    """200, and the series say so; no password of its address is shown."""
    for url in ("sqlite:////nowhere/at/all/journal.db", "postgresql+psycopg://u:hunter2@127.0.0.1:1/x"):
        monkeypatch.setenv("AIRFLOW_CONN_JOURNAL", json.dumps({"conn_type": "generic", "extra": {"url": url}}))
        answer = scraper.get()
        said = samples_in(answer.text)
        assert answer.status_code == 200 and said["switchback_up",] == said["switchback_journal_up",] == 0
        assert said["switchback_document_up", "primary", "standby"] == 1 and "hunter2" not in answer.text
    monkeypatch.delenv("AIRFLOW_CONN_JOURNAL")
    assert samples_in(scraper.get().text)["switchback_journal_up",] == 0


def test_the_token_is_told_to_nobody(scraper: Scraper, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in the log nor on any page."""
    with caplog.at_level(logging.DEBUG):
        texts = [scraper.get().text, scraper.get("Bearer wrong").text, scraper.client.get("/").text]
    assert TOKEN not in "".join(texts) + caplog.text
