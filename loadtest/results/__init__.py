"""Answers, ledger and critical sections become a verdict, an audit, a record. Starts no process, asks no server."""
