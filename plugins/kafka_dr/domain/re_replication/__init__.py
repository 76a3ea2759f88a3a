"""Rules of re_replicate_topics: where copying begins again, what the plan says, how two logs are compared."""
