"""The demos: each starts a lab, runs real procedures on the lab, checks them, and removes all but the evidence."""
