"""The command line: one command a file, and all rendering in `render`.

Nouns: a *command* checks its options, makes one call into the service and has the answer rendered; a
*session* is one run of the command line with its screen and its signals; a *plan file* is what
``plan --out`` writes and ``prune --plan`` reads. Nothing may import this package.
"""

from afterrun.cli.app import main

__all__ = ["main"]
