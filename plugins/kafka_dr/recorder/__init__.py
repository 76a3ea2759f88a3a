"""The flight recorder: one long-lived process a flow, on the target's side."""
