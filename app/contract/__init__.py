"""Rules that shop, board and rush share. Locust's image has this package and the slow motion, and no more of `app`."""
