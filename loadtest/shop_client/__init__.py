"""The sale under test, seen from outside."""
