"""Change a running flow: the plan, stopped connectors, proof that records flow, the way back."""
