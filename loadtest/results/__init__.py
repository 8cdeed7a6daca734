"""Answers, ledger and critical sections become a verdict, an audit and a record. Starts nothing, asks nobody."""
