"""One pass in a process of its own, without rights: prints what it came to."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from afterrun.profiles.directory_loader import load_directory
from directory.pi_tree import Pass


def main() -> None:
    """Sweep the directory that the command line names, as the user that it names."""
    load_directory("pi-subagents")  # while it can be read
    if os.getuid() == 0:
        os.setgid(int(sys.argv[2]))
        os.setuid(int(sys.argv[2]))
    work = Pass(Path(sys.argv[1]))
    reports = work.run()
    print(  # noqa: T201 - the parent reads it
        json.dumps(
            {
                "removed": {report.kind: report.units.removed for report in reports},
                "blocked": dict(reports[0].units.blocked),
                "deferred": work.deferrals.failed,
                "notices": work.notices,
            }
        )
    )


if __name__ == "__main__":
    main()
