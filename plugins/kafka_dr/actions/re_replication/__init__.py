"""What the steps of re_replicate_topics do and observe."""
