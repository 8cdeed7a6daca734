"""What the board reads."""
