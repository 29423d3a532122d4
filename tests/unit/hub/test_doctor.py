"""What `doctor` shows is what was found, also where it looks like markup."""

from __future__ import annotations

import pytest

from onnxparity.commands.doctor import _print
from onnxparity.protocols import Availability


def test_remedies_keep_their_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    missing = Availability("openvino", False, "no [package]", None, "pip install 'onnxparity[openvino]'")
    _print({"processor": "a CPU", "cores": 2, "platform": "here", "packages": {"torch": "2"}}, [missing])
    shown = " ".join(capsys.readouterr().out.split())
    assert "no [package]" in shown
    assert "pip install 'onnxparity[openvino]'" in shown
