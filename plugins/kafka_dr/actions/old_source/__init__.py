"""A source that is lost, or was left: its views, its fence, what it accepted."""
