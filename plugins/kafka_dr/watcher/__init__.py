"""The watcher of old sources: fences them once they answer, and stops flows that copy in a circle."""
