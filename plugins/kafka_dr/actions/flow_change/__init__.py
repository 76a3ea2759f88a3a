"""Change a running flow: plan, settings and offsets of stopped connectors, proof that records flow, the way back."""
