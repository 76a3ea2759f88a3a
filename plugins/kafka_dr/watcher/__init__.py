"""The watcher of old sources."""
