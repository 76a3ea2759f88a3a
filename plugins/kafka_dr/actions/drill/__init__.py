"""What the steps of a drill do."""
