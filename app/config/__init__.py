"""The environment as one checked value."""
