"""Applications' access to the target: what their own logins showed, and how both clusters differ for them."""
