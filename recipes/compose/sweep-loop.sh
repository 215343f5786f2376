#!/bin/sh
# Sweep AFTERRUN_STORE every SWEEP_EVERY seconds with the options given. A sweep that fails or asks is tried again at
# the next turn; its output is in the container's log. SIGTERM lets the running batch end.
set -u

# What ends the child of the moment. A sweep is asked; a pause is killed, for a process that was started just now and is
# not yet `sleep` would lose a SIGTERM, and the loop would wait for its whole pause.
word=TERM
stop() {
    trap '' TERM INT
    kill "-$word" "${!-}" 2>/dev/null && wait "$!"
    exit 0
}
trap stop TERM INT

while :; do
    word=TERM
    afterrun sweep "$@" &
    wait "$!"
    echo "sweep-loop: the sweep ended with $?" >&2
    word=KILL
    sleep "${SWEEP_EVERY:-86400}" &
    wait "$!"
done
