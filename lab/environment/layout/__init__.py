"""Which clusters a lab has, and which flows join them."""
