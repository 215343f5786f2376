"""What the scrubber finds, what it takes by mistake, and how long it takes.

Recall is counted on text that is made here: token formats as services and public detectors document them,
each in eight contexts, and passwords that only their place tells. False positives are counted on text without
secrets, and on what real engines stored: each value of text of a store made by DBOS and one made by Prefect.

Run: python benchmarks/scrubbing.py [--seeds 20] [--engines dbos,prefect]
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from _common import VERSION, header, say
from afterrun.runs.scrub import GONE, scrub_text
from engines import prefect_stores, stores
from recording import payload
from runs.scrub_corpus import ORDINARY, Sample, named, pem, tokens

LIMIT_US = 100


def values_of(store: Path) -> Iterator[str]:
    """Yield every value of text in a SQLite file, as its engine stored it."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            for row in database.execute(f'SELECT * FROM "{name}"'):
                yield from (value for value in row if isinstance(value, str) and value)


def removed(texts: Iterable[str]) -> tuple[int, int, int, Counter[str]]:
    """Return how many texts there are, of how many characters, how often something goes, and examples."""
    count = length = gone = 0
    where: Counter[str] = Counter()
    for text in texts:
        count, length = count + 1, length + len(text)
        shown = scrub_text(text)
        if shown != text:
            gone += shown.count(GONE) - text.count(GONE)
            place = shown.index(GONE) if GONE in shown else 0
            where[shown[max(0, place - 40) : place + len(GONE)]] += 1
    return count, length, gone, where


def recall(seeds: int) -> None:
    """Print what is found, kind by kind where not all is."""
    made: list[Sample] = []
    for seed in range(seeds):
        made += [*tokens(seed), *named(seed), *pem(seed)]
    all_kinds = Counter(_group(sample) for sample in made)
    found = Counter(_group(sample) for sample in made if sample.secret not in scrub_text(sample.text))
    say("| secrets | made | found | recall |")
    say("|---|---|---|---|")
    for group in ("token formats", "named", "private keys"):
        say(f"| {group} | {all_kinds[group]} | {found[group]} | **{found[group] / all_kinds[group]:.2%}** |")
    missed = Counter(sample.kind for sample in made if sample.secret in scrub_text(sample.text))
    say()
    say(f"missed by kind: {dict(missed.most_common(10)) or 'none'}")


def _group(sample: Sample) -> str:
    if sample.kind.startswith("named"):
        return "named"
    return "private keys" if sample.kind == "pem" else "token formats"


def false_positives(engines: Iterable[str]) -> None:
    """Print what goes although it is no secret; a person has to judge what engines stored."""
    sources = {"ordinary text": list(ORDINARY)}
    if "dbos" in engines:
        sources[f"DBOS {VERSION}"] = list(values_of(stores.template(VERSION)))
    if "prefect" in engines:
        sources[f"Prefect {prefect_stores.VERSION}"] = list(values_of(prefect_stores.template()))
    say("| text without secrets | values | characters | removed |")
    say("|---|---|---|---|")
    examples: Counter[str] = Counter()
    for name, texts in sources.items():
        count, length, gone, where = removed(texts)
        examples += where
        say(f"| {name} | {count} | {length} | **{gone}** |")
    for shown, count in examples.most_common(8):
        say(f"\n    {count} x {shown!r}")


def speed() -> None:
    """Print the time for 4 KiB of an agent's step."""
    rng = random.Random(6)
    texts = [payload(rng).decode() for _ in range(500)]
    times = []
    for _ in range(5):
        begun = time.process_time()
        for text in texts:
            scrub_text(text)
        times.append((time.process_time() - begun) / len(texts) * 1e6)
    say(f"4 KiB of an agent's step: **{statistics.median(times):.0f} us** (limit {LIMIT_US} us)")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--engines", default="dbos,prefect")
    arguments = parser.parse_args()
    header("Scrubbing")
    recall(arguments.seeds)
    say()
    false_positives(arguments.engines.split(","))
    say()
    speed()


if __name__ == "__main__":
    main()
