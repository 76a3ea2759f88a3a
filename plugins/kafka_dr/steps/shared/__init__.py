"""Steps that several procedures share."""
