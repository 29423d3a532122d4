"""The same module exported by two processes is one file byte for byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
import torch
from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.export.dynamo import DynamoExporter
from onnxparity.plan import ArtifactKey
torch.manual_seed(0)
module = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
subject = Subject("s", "factory", "o", "s", "s", (TensorSpec("x", ("batch", "sequence", 8)),),
                  (OutputSpec("y", (None,)),), (Axis("batch", "b", "batch"), Axis("sequence", "t", "sequence")))
for opset in (20, 23):
    key = ArtifactKey("s", "dynamo", opset, "float32")
    print(DynamoExporter().export(module, (torch.ones(2, 3, 8),), subject, key, Path(sys.argv[1])).sha256)
"""


@pytest.mark.slow
def test_two_processes_write_the_same_file(tmp_path: Path) -> None:
    hashes = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / seed / "m.onnx")],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin", "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(hashes) == 1
    assert len(set(hashes.pop().split())) == 2
