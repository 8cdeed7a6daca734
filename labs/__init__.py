"""The labs: what goes beyond the lesson, each in a folder that can be deleted."""
