"""Flags of every Java program of the lab: one that starts quickly and works for minutes, beside ten others."""

from __future__ import annotations

FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")
