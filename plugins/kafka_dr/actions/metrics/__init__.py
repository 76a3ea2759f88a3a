"""Read metrics from journal and readiness documents, and write them for Prometheus."""
