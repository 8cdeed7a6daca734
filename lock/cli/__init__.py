"""The commands of `python -m lock`."""
