"""What the shop adds to gunicorn's worker."""
