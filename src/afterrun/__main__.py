"""Run the command line as ``python -m afterrun``."""

import sys

from afterrun.cli import main

sys.exit(main())
