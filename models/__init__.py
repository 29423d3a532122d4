"""Subjects: blocks in plain PyTorch, their NumPy float64 oracles, the catalogue, subjects that a user brings."""

from onnxparity.spoke import must_be

must_be(__name__, "onnxparity.models")
