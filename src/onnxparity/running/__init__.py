"""Carrying a plan out in worker processes, from the request to the report."""
