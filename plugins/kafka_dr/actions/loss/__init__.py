"""Records that are lost with a source, and what is known of it although it does not answer."""
