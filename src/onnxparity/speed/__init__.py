"""Latency: workers that take turns, and what their samples say."""
