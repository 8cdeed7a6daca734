"""What the board read, combined and streamed."""
