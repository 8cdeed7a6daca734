"""The report: what was measured, as one page that opens from disk. Reads what was kept, and starts nothing."""
