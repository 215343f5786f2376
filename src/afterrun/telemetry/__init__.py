"""Telemetry: what sweeps tell to logs, to OpenTelemetry and to Prometheus.

An *observer* takes in core events. A *label* is a plain name that a host gives a store. An *exposition* is
the Prometheus text of the last runs and the totals. All names stand in `names`, and text in values is one of
a closed list of words: no ids, no paths, no payloads.

Imports the core alone, and OpenTelemetry's API only where it is installed.
"""

from afterrun.telemetry.logs import JsonFormatter, LogObserver, TextFormatter, formatter, say
from afterrun.telemetry.names import NAMES, Name
from afterrun.telemetry.observers import Observers, Watched, compose
from afterrun.telemetry.otel import OpenTelemetry, SpanObserver, opentelemetry
from afterrun.telemetry.prometheus import LastRun, Totals, TotalsObserver, exposition

__all__ = [
    "NAMES",
    "JsonFormatter",
    "LastRun",
    "LogObserver",
    "Name",
    "Observers",
    "OpenTelemetry",
    "SpanObserver",
    "TextFormatter",
    "Totals",
    "TotalsObserver",
    "Watched",
    "compose",
    "exposition",
    "formatter",
    "opentelemetry",
    "say",
]
