"""ACL entries that fence clients, and armed fences."""
