"""`python -m onnxparity`."""

import sys

from onnxparity.cli import main

if __name__ == "__main__":
    sys.exit(main())
