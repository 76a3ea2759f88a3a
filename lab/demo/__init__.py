"""The demos: one real failover each, from nothing to a verdict, and nothing left behind but the evidence."""
