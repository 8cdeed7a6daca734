"""The guards of this lab."""
