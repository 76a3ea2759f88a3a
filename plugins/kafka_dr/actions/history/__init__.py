"""What earlier procedures of the pair did, by the journal."""
