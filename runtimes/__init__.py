"""Runtimes: torch eager, float64 and spec evaluation of ONNX, ONNX Runtime on CPU and CUDA, OpenVINO."""

from onnxparity.spoke import must_be

must_be(__name__, "onnxparity.runtimes")
