"""Routes, parameters, responses, errors, and who may ask."""
