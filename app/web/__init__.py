"""Routes, parameters, responses, errors, and access."""
