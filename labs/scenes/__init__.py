"""Scenes on the running stack: each is announced, played phase by phase, and judged, from one button on the board."""
