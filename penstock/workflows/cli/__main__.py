"""``python -m penstock.workflows.cli``: the command where its script is not on the path."""

from __future__ import annotations

import sys

from penstock.workflows.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
