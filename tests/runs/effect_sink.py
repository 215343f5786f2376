"""A process outside of any store, to which effects happen: it notes each in a log of its own, and answers.

Arguments: a socket to listen on, and the log. A line that comes is a key, which is appended to the log and
answered with a receipt, however often it comes; an empty line is answered once all lines before it are noted.
"""

from __future__ import annotations

import os
import socket
import sys


def main() -> None:
    """Serve until the process is ended."""
    address, path = sys.argv[1:]
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        count = 0
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                key = lines.readline()
                if key.strip():
                    os.write(log, key)
                    os.fsync(log)
                    count += 1
                try:
                    connection.sendall(f"receipt {count}\n".encode())
                except OSError:  # whoever asked is gone
                    continue


if __name__ == "__main__":
    main()
