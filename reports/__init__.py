"""Renderings of the report document: Markdown, HTML, JUnit. They compute nothing."""

from onnxparity.spoke import must_be

must_be(__name__, "onnxparity.reports")
