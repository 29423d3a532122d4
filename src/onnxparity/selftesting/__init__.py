"""Planted faults, judged by the same code as any model, and the score."""
