"""The watcher: fences old sources once they answer, and stops one of two flows that copy in a circle.

An old source is the cluster that clients left in an unplanned failover.
"""
