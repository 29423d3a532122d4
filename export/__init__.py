"""Exporters: from a PyTorch module to an ONNX file with a record of what was asked and what came out."""

from onnxparity.spoke import must_be

must_be(__name__, "onnxparity.export")
