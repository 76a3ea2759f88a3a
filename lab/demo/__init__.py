"""The demo: one real planned failover from nothing to a verdict, and nothing left behind but the evidence."""
