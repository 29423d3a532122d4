"""The grammar of the command line: every verb with its flags, its help and its exit codes.

Each verb names the function that carries it out, below `commands`, so that nothing is imported for its help alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from onnxparity import __version__

__all__ = ["parser"]

EXIT_CODES = """exit codes:
  0   conforms
  1   does not conform
  2   wrong usage or configuration
  3   evidence incomplete: a required runtime is not there, or nothing ran
  70  internal error
"""
VERIFY_EXAMPLES = """examples:
  onnxparity verify                              the whole catalogue
  onnxparity verify 'causal-*' --opset 23        some of it, at one opset
  onnxparity verify mypackage.model:factory      your own: returns (module, args)
  onnxparity verify new.onnx --against old.onnx  two files
  onnxparity verify model.onnx --against minilm  a file against a PyTorch subject
"""

EXPLAIN_EXAMPLES = """examples:
  onnxparity explain causal-attention/dynamo-23/float32/ort-cpu/b2-t17/normal
  onnxparity explain new/file-18/float32/onnx-float64/b2 --report onnxparity-report
"""

PLACEMENT_EXAMPLES = """examples:
  onnxparity placement model.onnx
  onnxparity placement causal-attention --opset 18

exit codes:
  0   all that handles data is on the device
  1   data falls back to the host, or there is no file that ONNX Runtime loads
  2   wrong usage or configuration
  3   it cannot be asked here, or the dry run does not prove itself
"""


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = argparse.ArgumentParser(
        prog="onnxparity",
        description="Export Transformers from PyTorch to ONNX, run them under ONNX Runtime,\n"
        "and verify that they are still the same model.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"onnxparity {__version__}")
    verbs = top.add_subparsers(title="verbs", required=True, metavar="VERB")
    _add_verify(verbs)
    _add_explain(verbs)
    _add_export(verbs)
    _add_list(verbs)
    _add_placement(verbs)
    _add_doctor(verbs)
    _add_report(verbs)
    _add_gate(verbs)
    _add_selftest(verbs)
    return top


Verbs = argparse._SubParsersAction  # the only name argparse has for it


def _add_verify(verbs: Verbs[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "verify",
        help="judge meaning, arithmetic, properties and speed, and write the report",
        epilog=VERIFY_EXAMPLES + "\n" + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb="verify.verify")
    verb.add_argument(
        "targets",
        nargs="*",
        metavar="SUBJECT",
        help="catalogue name or glob, FILE.onnx, or package.module:factory; the whole catalogue when left out",
    )
    verb.add_argument(
        "--against", metavar="REFERENCE", help="what a FILE.onnx is held against: another file, or a subject"
    )
    verb.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="REF=CAND",
        help="the reference's input or output REF is called CAND in the file (repeatable)",
    )
    verb.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="NAME=ROLE",
        help="what an input, output or axis of a FILE.onnx is, such as mask=mask-drop (repeatable)",
    )
    verb.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="NAME",
        help="what a FILE.onnx promises, such as causality or window=128 (repeatable)",
    )
    verb.add_argument("--opset", action="append", type=int, help="repeatable; 18 20 23 24 and the newest when left out")
    verb.add_argument(
        "--dtype",
        action="append",
        choices=("float32", "float16", "bfloat16"),
        help="repeatable; float32 and float16 when left out",
    )
    verb.add_argument(
        "--runtime", action="append", metavar="NAME", help="repeatable; one that is asked for must be there"
    )
    verb.add_argument(
        "--shape", action="append", default=[], metavar="ID", help="such as b2-t17; repeatable; the grid when left out"
    )
    verb.add_argument(
        "--regime",
        action="append",
        default=[],
        metavar="NAME",
        help="such as saturated or mask-left, or a property; repeatable; all that tell something when left out",
    )
    verb.add_argument(
        "--inputs",
        action="append",
        default=[],
        metavar="FILE.npz|DIR",
        help="real inputs beside the drawn ones: arrays by input name, or a folder of input_N.pb; repeatable",
    )
    verb.add_argument("--allow-nonfinite", action="store_true", help="take NaN and infinity in --inputs as they are")
    verb.add_argument(
        "--cell", action="append", default=[], metavar="ID", help="only cells with this id or glob; repeatable"
    )
    verb.add_argument("--quick", action="store_true", help="few points, opsets 18 and 23, float32")
    verb.add_argument(
        "--latency",
        action="append",
        metavar="GLOB",
        help="subjects to time, or none; repeatable; up to 4 subjects are timed when left out",
    )
    verb.add_argument(
        "--expect",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="TOML file of known failures; repeatable",
    )
    verb.add_argument(
        "--out",
        type=Path,
        default=Path("onnxparity-report"),
        metavar="DIR",
        help="where the report goes (default: %(default)s)",
    )
    verb.add_argument("--json", metavar="FILE", help="write the report document there too; - for standard output")
    verb.add_argument("--resume", action="store_true", help="keep the verdicts of an interrupted run in --out")
    verb.add_argument(
        "--no-explain",
        dest="explain",
        action="store_const",
        const="none",
        default="red",
        help="do not lead failures back to their cause",
    )
    verb.add_argument("--no-cache", action="store_true", help="export and evaluate again, whatever the cache holds")
    verb.add_argument("--jobs", type=int, metavar="N", help="subjects at a time (default: one per core)")
    verb.add_argument(
        "--limit", type=float, default=300.0, metavar="SECONDS", help="time limit of a cell (default: %(default)g)"
    )


def _add_explain(verbs: Verbs[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "explain",
        help="lead one failing cell back to the node, the line and the smallest shape",
        epilog=EXPLAIN_EXAMPLES + "\n" + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb="explain.explain")
    verb.add_argument("cell", metavar="CELL", help="its id; with a report, a glob or prefix that fits one cell")
    verb.add_argument(
        "--report",
        type=Path,
        metavar="DIR|REPORT.json",
        help="says how the cell was judged (default: onnxparity-report, where there is one)",
    )
    verb.add_argument("--against", metavar="REFERENCE", help="as in verify; the report's own when left out")
    verb.add_argument(
        "--map", action="append", default=[], metavar="REF=CAND", help="as in verify; the report's own when left out"
    )
    verb.add_argument(
        "--out", type=Path, metavar="DIR", help="where the reproduction goes (default: the report's folder)"
    )
    verb.add_argument("--json", metavar="FILE", help="write verdict and location there too; - for standard output")
    verb.add_argument("--no-cache", action="store_true", help="export and evaluate again, whatever the cache holds")
    verb.add_argument(
        "--limit", type=float, default=300.0, metavar="SECONDS", help="time limit of a cell (default: %(default)g)"
    )


def _add_export(verbs: Verbs[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "export",
        help="write the ONNX file of a subject, with its record",
        epilog="example:\n  onnxparity export causal-attention --opset 23 --out causal.onnx",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb="export.export")
    verb.add_argument("target", metavar="SUBJECT", help="catalogue name or package.module:factory")
    verb.add_argument("--opset", type=int, default=23, help="default: %(default)s")
    verb.add_argument(
        "--dtype", choices=("float32", "float16", "bfloat16", "float64"), default="float32", help="default: %(default)s"
    )
    verb.add_argument(
        "--out", type=Path, metavar="FILE", help="default: SUBJECT-OPSET-DTYPE.onnx in the working directory"
    )
    verb.add_argument("--json", action="store_true", help="print the artifact's record as JSON")


def _add_list(verbs: Verbs[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "list",
        help="show the catalogue: source, parameters, axes, properties",
        epilog="examples:\n  onnxparity list\n  onnxparity list '*-decoder' --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb="catalogue.show")
    verb.add_argument("pattern", nargs="?", default="*", help="a name or glob")
    verb.add_argument("--json", action="store_true", help="print the descriptions as JSON")


def _add_placement(verbs: Verbs[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "placement",
        help="where ONNX Runtime would put each node on CUDA; needs no GPU",
        epilog=PLACEMENT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb="placement.placement")
    verb.add_argument("target", metavar="MODEL.onnx|SUBJECT", help="a file, a catalogue name, package.module:factory")
    verb.add_argument("--opset", type=int, help="of a subject; 23 when left out")
    verb.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), help="of a subject; float32 when left out")
    verb.add_argument(
        "--compute-capability", default="9.0", metavar="X.Y", help="of the device asked about (default: %(default)s)"
    )
    verb.add_argument("--json", metavar="FILE", help="write the placement there too; - for standard output")


def _add_doctor(verbs: Verbs[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "doctor",
        help="what this machine can run, and why not the rest",
        epilog="exit codes:\n  0   nothing is broken, whatever is absent\n  1   an installation is broken",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb="doctor.doctor")
    verb.add_argument("--json", action="store_true", help="print the findings as JSON")


def _add_report(verbs: Verbs[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "report",
        help="render a report document; needs no torch",
        epilog="example:\n  onnxparity report onnxparity-report/report.json --html report.html --junit junit.xml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb="report.render")
    verb.add_argument("document", type=Path, metavar="REPORT.json")
    for form in ("html", "markdown", "junit"):
        verb.add_argument(f"--{form}", type=Path, metavar="FILE")


def _add_gate(verbs: Verbs[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "gate",
        help="exit with a report's verdict; needs no torch",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb="gate.gate")
    verb.add_argument("document", type=Path, metavar="REPORT.json")


def _add_selftest(verbs: Verbs[argparse.ArgumentParser]) -> None:
    verb = verbs.add_parser(
        "selftest",
        help="plant faults and see that each is found, and that nothing clean is red",
        epilog="example:\n  onnxparity selftest 'rope-*' 'mask-*'\n\nexit codes:\n"
        "  0   every fault was found, and no clean cell was red\n  1   not so\n  3   something did not run",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb="selftest.selftest")
    verb.add_argument("kinds", nargs="*", metavar="KIND", help="a kind of fault or glob; all when left out")
    verb.add_argument("--quick", action="store_true", help="a few faults that stand for the rest, few clean cells")
    verb.add_argument("--json", metavar="FILE", help="write the score there too; - for standard output")
    verb.add_argument("--out", type=Path, metavar="DIR", help="keep the faulty files and their reproductions there")
    verb.add_argument("--no-cache", action="store_true", help="export and evaluate again, whatever the cache holds")
    verb.add_argument("--jobs", type=int, metavar="N", help="subjects at a time (default: one per core)")
    verb.add_argument(
        "--limit", type=float, default=300.0, metavar="SECONDS", help="time limit of a cell (default: %(default)g)"
    )
