"""Command lines for the platform engineer and for the operator on call."""
