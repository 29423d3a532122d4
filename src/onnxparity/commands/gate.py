"""`onnxparity gate`: a report's verdict as an exit code."""

from __future__ import annotations

import argparse

from onnxparity.record import Report

__all__ = ["gate"]


def gate(options: argparse.Namespace) -> int:
    """Prints the conclusion; exits as the run did. Raises UsageError for what is no report."""
    report = Report.read(options.document)
    print(report.conclusion)
    return report.exit_code
