"""The rules that shop, board and rush share, once. Standard library only: Locust's image has nothing else of `app`."""
