"""What the board read, combined, streamed and recorded."""
