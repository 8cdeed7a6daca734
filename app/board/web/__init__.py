"""The board's pages and controls."""
