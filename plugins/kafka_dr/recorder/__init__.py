"""The flight recorder: one long-lived process per flow, near the target cluster."""
