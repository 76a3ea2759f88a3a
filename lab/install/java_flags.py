"""Java flags of all programs of the lab, for quick starts and for about ten programs on one machine."""

from __future__ import annotations

FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")
