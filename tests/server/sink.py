"""What workflows of the tests change outside: a process with a log of its own, which it never reads."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path


def serve(place: Path, log: Path) -> None:
    """Take a line a connection, keep it, and only then answer."""
    with socket.socket(socket.AF_UNIX) as door, log.open("ab", buffering=0) as kept:
        door.bind(str(place))
        door.listen(64)
        print("ready", flush=True)  # noqa: T201 - the test reads it
        while True:
            link, _ = door.accept()
            with link:
                line = link.recv(4_096)
                if not line.startswith(b"#"):  # which only asks for an answer
                    kept.write(line)
                    os.fsync(kept.fileno())
                with suppress(OSError):  # who told may be dead
                    link.sendall(b"taken\n")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
