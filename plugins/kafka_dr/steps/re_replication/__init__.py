"""Steps of re_replicate_topics."""
