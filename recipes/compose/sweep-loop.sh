#!/bin/sh
# Sweep AFTERRUN_STORE every SWEEP_EVERY seconds with the options given. A sweep that fails or asks is tried again at
# the next turn; its output is in the container's log. SIGTERM lets the running batch end.
set -u

child=
stop() {
    trap '' TERM INT
    if [ -n "$child" ]; then
        kill -TERM "$child" 2>/dev/null
        wait "$child"
    fi
    exit 0
}
trap stop TERM INT

while :; do
    afterrun sweep "$@" &
    child=$!
    wait "$child"
    echo "sweep-loop: the sweep ended with $?" >&2
    sleep "${SWEEP_EVERY:-86400}" &
    child=$!
    wait "$child"
done
