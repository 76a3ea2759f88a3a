"""What keeps the clients of a drill's run from changing anything outside the drill."""
