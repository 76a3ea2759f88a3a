"""What the first web page shows of each flow, from journal entries, a readiness document and the given time."""
