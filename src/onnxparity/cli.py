"""The command line. Each verb is one function that returns an exit code; data on stdout, progress on stderr."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from onnxparity import gate
from onnxparity.errors import OnnxParityError
from onnxparity.grammar import parser

__all__ = ["main"]

INTERRUPTED, BROKEN_PIPE = 128 + 2, 128 + 13
"""As a shell reports a program that SIGINT or SIGPIPE ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns its exit code; a user's mistake is one clear message, never a traceback."""
    typed = tuple(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parser().parse_args(typed, argparse.Namespace(typed=typed))
        module, function = options.verb.split(".")
        code = int(getattr(import_module(f"onnxparity.commands.{module}"), function)(options))
        sys.stdout.flush()
        return code
    except OnnxParityError as error:
        print(f"onnxparity: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("onnxparity: interrupted; continue with --resume", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # nobody read to the end; whatever the verdict was, it must not look green
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python fails once more at its end
        return BROKEN_PIPE
    except Exception:
        traceback.print_exc()
        print("onnxparity: internal error; please report it with the lines above", file=sys.stderr)
        return gate.INTERNAL
