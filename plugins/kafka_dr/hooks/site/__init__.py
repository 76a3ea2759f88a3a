"""Clients of a site's hooks (drain, probe, fence, stop, routing) over HTTP, and of the routing record in a file."""
