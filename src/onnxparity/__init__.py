"""Export, run and verify Transformers from PyTorch to ONNX Runtime."""

__version__ = "0.1.0"

__all__ = ["__version__"]
