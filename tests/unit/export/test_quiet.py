"""What is said is caught, once, and everything is as before afterwards."""

from __future__ import annotations

import logging
import sys
import warnings

import pytest

from onnxparity.export.quiet import quiet


def test_warnings_log_records_and_prints_are_caught_once_each(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("torch.onnx.somewhere")
    with quiet() as said:
        for _ in range(2):
            warnings.warn("too short", stacklevel=1)
            logger.warning("two\n  lines")
            print("on stdout")
            print("on stderr", file=sys.stderr)
        logger.info("not worth a word")

    assert said == [
        "UserWarning: too short",
        "torch.onnx.somewhere: two lines",
        "printed: on stdout",
        "printed: on stderr",
    ]
    assert capfd.readouterr() == ("", "")


def test_a_loggers_own_handler_is_quiet_and_then_back(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("onnxscript.own_handler")
    handler = logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    try:
        with quiet() as said:
            logger.error("broken")
        assert said == ["onnxscript.own_handler: broken"]
        assert capfd.readouterr().err == ""
        assert logger.handlers == [handler]
        assert logger.propagate
        logger.error("heard again")
        assert "heard again" in capfd.readouterr().err
    finally:
        logger.removeHandler(handler)


def test_the_exception_behind_a_log_record_is_kept() -> None:
    with quiet() as said:
        try:
            raise ValueError("no adapter")
        except ValueError:
            logging.getLogger("onnxscript").exception("cannot convert")

    assert said == ["onnxscript: cannot convert (ValueError: no adapter)"]


def test_noise_is_dropped() -> None:
    with quiet() as said:
        logging.getLogger("torch.onnx").warning("torchvision is not installed. Skipping torchvision::nms")
        warnings.warn_explicit("old style", FutureWarning, logging.__file__, 1)

    assert said == []


def test_what_was_said_before_a_failure_is_kept() -> None:
    def fail() -> None:
        with quiet() as said:
            warnings.warn("nearly", stacklevel=1)
            raise KeyError(said)

    with pytest.raises(KeyError) as raised:
        fail()
    assert raised.value.args[0] == ["UserWarning: nearly"]
