"""The console and the table that commands share."""
