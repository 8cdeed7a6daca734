"""The barrier, the conductor, Locust's events and page, and progress."""
