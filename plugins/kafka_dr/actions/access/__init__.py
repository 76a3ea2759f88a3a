"""Try applications' own logins on the target, and compare both clusters as far as clients depend on them."""
