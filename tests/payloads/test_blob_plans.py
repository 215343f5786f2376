"""What the databases do to check blobs: probes of indexes, never a scan, with statistics and without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from afterrun.stores.sql.store import SqlStore
from payloads.blob_kit import OLD_MS, Shop, opened

BLOBS = 20_000
ROWS = [
    "INSERT INTO runs SELECT 'r' || n, 'done', {old}, NULL, NULL FROM {numbers}",
    "INSERT INTO steps SELECT 'r' || n, NULL, 'b' || n FROM {numbers}",
    "INSERT INTO blobs SELECT 'b' || n, NULL, 10, {old} FROM {numbers}",
    "INSERT INTO pins SELECT 'b' || n, {old} FROM {numbers}",
]
NUMBERS = {
    "sqlite": "(WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT {count})"
    " SELECT n FROM c)",
    "postgresql": "(SELECT generate_series(1, {count}) AS n) AS numbers",
}


@pytest.fixture(params=["no statistics", "statistics"])
def big(request: pytest.FixtureRequest, shop: Shop) -> Shop:
    """Fill a store with many blobs; two of three references are all NULL, which misleads planners."""
    with closing(shop.connect()) as session:
        for text in ROWS:
            numbers = NUMBERS[shop.name].format(count=BLOBS)
            session.run(text.format(old=OLD_MS, numbers=numbers))
        if request.param == "statistics":
            session.run("ANALYZE")
    return shop


def plans(store: SqlStore) -> Iterator[tuple[str, str]]:
    """Yield the plan of each statement that blobs go by."""
    assert store.blobs is not None
    given = {"keys": store.dialect.bind_keys([f"b{number}" for number in range(500)]), "now": OLD_MS * 1_000}
    for name, statement in store.blobs.statements():
        yield name, "\n".join(store.dialect.explain(statement, given))
    (table,) = store.blobs.tables
    yield "free", "\n".join(store.dialect.explain(table.free, given))


def test_no_statement_scans_a_table(big: Shop) -> None:
    """Each blob is found by its key, and each reference and pin by its index."""
    with opened(big) as retention:
        found = dict(plans(retention.store))
    assert len(found) == (3 if big.name == "sqlite" else 4)
    for name, plan in found.items():
        assert "Seq Scan" not in plan, f"{name}: {plan}"
        scans = [line for line in plan.splitlines() if line.startswith("SCAN") and "json_each" not in line]
        assert not [line for line in scans if "VIRTUAL TABLE" not in line], f"{name}: {plan}"
        assert "BLOOM" not in plan, f"{name}: {plan}"
    probes = found["removal from blobs"]
    assert all(index in probes for index in ("runs_input", "steps_input", "steps_output", "pins_digest"))
