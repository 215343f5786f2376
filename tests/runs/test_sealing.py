"""Sealed content: what was changed, swapped, lost or sealed under another key is found and named."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from afterrun.runs import (
    Display,
    Keys,
    NoSealingKey,
    PayloadUnreadable,
    RunStore,
    SealedStore,
    WrongSealingKey,
)
from afterrun.runs.keys import VARIABLE
from afterrun.runs.schema import blobs, store_identity, tombstones
from afterrun.runs.scrub import GONE
from afterrun.runs.sealing import Sealing
from runs.runs_kit import KEYS, Home

PLAIN = b'{"password": "hunter2", "answer": 42}'
SHOWN = f'{{"password": "{GONE}", "answer": 42}}'
OTHER = b"something else of the same store"


def _change(home: Home, number: int, **values: object) -> None:
    with home.behind() as transaction:
        transaction.change(sa.update(blobs).where(blobs.c.id == number), values)


def _rows(home: Home) -> list[dict[str, Any]]:
    return [dict(row) for row in sorted(home.rows(blobs), key=lambda row: int(row["id"]))]


def _flip(content: bytes, place: int) -> bytes:
    place %= len(content)
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.fixture
def run(store: RunStore) -> str:
    """Give a run with two contents: input 1 and the output of its one step, 2."""
    made = store.create("agent", content=PLAIN).run.id
    store.start(made)
    store.steps.record(made, "think", output=OTHER)
    return made


@pytest.fixture
def _whole(run: str, store: RunStore) -> None:
    """See before each change that the content opens."""
    assert store.input_of(run) == PLAIN
    assert store.steps.output_of(store.steps.of(run)[0]) == OTHER


def _refused(read: Callable[[], object], run: str, target: str) -> str:
    """Return why something is not read; the error names whose it is, and gives nothing else."""
    with pytest.raises(PayloadUnreadable) as refused:
        read()
    assert (refused.value.run, refused.value.target) == (run, target)
    assert target in str(refused.value)
    for told in ("hunter2", GONE, run):
        assert told not in str(refused.value)
    return refused.value.why


def test_nothing_of_content_is_in_the_store(home: Home, store: RunStore, run: str) -> None:
    """Neither the exact content nor a part of it stands in any column; the display is scrubbed."""
    stored = repr(_rows(home)) + repr(home.rows(store_identity))
    assert "hunter2" not in stored
    assert KEYS.text().strip() not in stored
    assert store.input_of(run) == PLAIN
    assert store.input_display_of(run) == Display(len(PLAIN), SHOWN)


REGIONS = {
    "first of the nonce": 0,
    "last of the nonce": 11,
    "row": 14,
    "content": 60,
    "tag": -1,
    "tag begins": -16,
}


@pytest.mark.usefixtures("_whole")
@pytest.mark.parametrize("region", REGIONS)
def test_a_changed_byte_is_found(home: Home, store: RunStore, run: str, region: str) -> None:
    """One bit of the nonce, of what tells the row, of the content or of the tag is enough."""
    _change(home, 1, content=_flip(_rows(home)[0]["content"], REGIONS[region]))
    assert _refused(lambda: store.input_of(run), run, "input of the run") == "tampered"
    assert store.input_display_of(run) == Display(len(PLAIN), SHOWN)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "the address": ({"address": "0" * 64}, "tampered"),
    "no address": ({"address": "none"}, "tampered"),
    "the size": ({"size": 7}, "tampered"),
    "an unknown key": ({"key_id": "f" * 16}, "wrong-key"),
    "in the clear": ({"key_id": None, "content": PLAIN}, "tampered"),
    "nothing": ({"content": b""}, "tampered"),
    "cut off": ({"content": b"x" * 27}, "tampered"),
}


@pytest.mark.usefixtures("_whole")
@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_column_is_found(home: Home, store: RunStore, run: str, what: str) -> None:
    """Address, size, key and content belong together."""
    values, why = CHANGES[what]
    _change(home, 1, **values)
    assert _refused(lambda: store.input_of(run), run, "input of the run") == why


@pytest.mark.usefixtures("_whole")
def test_another_known_key_in_the_row_is_found(home: Home, store: RunStore, run: str) -> None:
    """The id of a key that the store has, but that did not seal this, opens nothing."""
    _change(home, 1, key_id=KEYS.rotated().current.id)
    newer = Keys(KEYS.current, (KEYS.rotated().current,))
    with home.open(newer) as again:
        _change(home, 1, key_id=newer.older[0].id)
        assert _refused(lambda: again.input_of(run), run, "input of the run") == "tampered"


SWAPS = {
    "content": ("content",),
    "content and its address": ("content", "address", "size"),
    "all but the number": ("content", "address", "size", "key_id", "display", "display_mark", "created_at"),
}


@pytest.mark.usefixtures("_whole")
@pytest.mark.parametrize("what", SWAPS)
def test_swapped_content_is_found_in_both_rows(home: Home, store: RunStore, run: str, what: str) -> None:
    """Content of another row opens nowhere else, also when everything that tells of it came along."""
    first, second = _rows(home)
    if "address" in SWAPS[what]:
        _change(home, 2, address="on its way")
    _change(home, 1, **{name: second[name] for name in SWAPS[what]})
    _change(home, 2, **{name: first[name] for name in SWAPS[what]})
    step = store.steps.of(run)[0]
    assert _refused(lambda: store.input_of(run), run, "input of the run") == "swapped"
    target = "output of attempt 1 at step 1"
    assert _refused(lambda: store.steps.output_of(step), run, target) == "swapped"


@pytest.mark.usefixtures("_whole")
def test_a_missing_row_is_found(home: Home, store: RunStore, run: str) -> None:
    """Content that a row refers to and that is gone is not the same as none."""
    with home.behind() as transaction:
        transaction.change(sa.delete(blobs).where(blobs.c.id == 2))
    step = store.steps.of(run)[0]
    target = "output of attempt 1 at step 1"
    assert _refused(lambda: store.steps.output_of(step), run, target) == "missing"
    assert _refused(lambda: store.steps.display_of(step), run, target) == "missing"
    assert store.output_of(run) is None


@pytest.mark.usefixtures("_whole")
@pytest.mark.parametrize("text", ["all is well", None, SHOWN + " "])
def test_a_changed_display_is_found_by_who_has_the_key(
    home: Home, store: RunStore, run: str, text: str | None
) -> None:
    """The exact content opens as before; without the key the display is believed."""
    _change(home, 1, display=text)
    assert _refused(lambda: store.input_display_of(run), run, "display of the input of the run") == "tampered"
    assert store.input_of(run) == PLAIN


@pytest.mark.usefixtures("_whole")
def test_content_of_another_store_opens_nowhere_else(
    home: Home, store: RunStore, run: str, tmp_path: Path
) -> None:
    """Two stores with the same key share nothing: neither addresses nor seals."""
    with RunStore.open(str(tmp_path / "other.sqlite"), sealing=KEYS) as other:
        made = other.create("agent", content=PLAIN).run.id
        assert other.address_of(PLAIN) != store.address_of(PLAIN)
        with other._database.reading() as transaction:
            [row] = transaction.rows(sa.select(blobs))
        assert other.input_of(made) == PLAIN
    _change(home, 1, content=bytes(row.content))
    assert _refused(lambda: store.input_of(run), run, "input of the run") == "tampered"


def test_a_wrong_key_does_not_open_the_store(home: Home, run: str) -> None:
    """Who comes with another key learns whose key is wanted, and nothing was changed."""
    before = home.rows(store_identity)
    with pytest.raises(WrongSealingKey) as refused:
        home.open(Keys.generate())
    assert refused.value.key_id == KEYS.current.id
    assert home.rows(store_identity) == before


@pytest.mark.parametrize("column", ["store_id", "secret", "key_id"])
def test_a_changed_identity_is_found(home: Home, run: str, column: str) -> None:
    """The secret of the addresses opens for this store and this key only."""
    [row] = home.rows(store_identity)
    changed = {"store_id": "0" * 32, "secret": _flip(bytes(row["secret"]), 20), "key_id": "0" * 16}
    with home.behind() as transaction:
        transaction.change(sa.update(store_identity).values({column: changed[column]}))
    with pytest.raises(WrongSealingKey):
        home.open()


def test_without_a_key_all_works_that_needs_no_content(
    home: Home, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs, steps and displays can be read and changed; exact content is neither stored nor opened."""
    monkeypatch.delenv(VARIABLE)
    with home.open() as keyless:
        assert keyless.input_display_of(run) == Display(len(PLAIN), SHOWN)
        step = keyless.steps.start(run, "without output")
        keyless.steps.complete(step)
        needed: list[Callable[[], object]] = [
            lambda: keyless.input_of(run),
            lambda: keyless.create("agent", content=b"x"),
            lambda: keyless.steps.record(run, "think", output=b""),
            lambda: keyless.address_of(PLAIN),
            keyless.reseal,
        ]
        for call in needed:
            with pytest.raises(NoSealingKey, match="AFTERRUN_SEALING_KEY"):
                call()
        assert keyless.output_of(run) is None
        keyless.finish(run)


def test_a_new_store_without_a_key_holds_no_content_until_somebody_says_how(
    empty_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first word decides: a key, or that none is wanted; the second is remembered."""
    monkeypatch.delenv(VARIABLE)
    with empty_home.open() as store, pytest.raises(NoSealingKey):
        store.create("agent", content=b"x")
    with empty_home.open("off") as store:
        made = store.create("agent", content=PLAIN).run.id
    with empty_home.open() as store:
        assert store.input_of(made) == PLAIN
        assert store.input_display_of(made) == Display(len(PLAIN), SHOWN)
        assert store.reseal() == 0
    [row] = empty_home.rows(blobs)
    assert bytes(row["content"]) == PLAIN


def test_a_sealed_store_is_not_opened_unsealed(home: Home, run: str) -> None:
    """The word "off" does not undo what a key began."""
    with pytest.raises(SealedStore, match="nothing is written to it in the clear"):
        home.open("off")


def test_content_in_the_clear_is_checked_against_its_address(empty_home: Home) -> None:
    """Damage is found there, too."""
    with empty_home.open("off") as store:
        made = store.create("agent", content=PLAIN).run.id
        _change(empty_home, 1, content=b"x" + PLAIN[1:])
        assert _refused(lambda: store.input_of(made), made, "input of the run") == "tampered"


def test_a_store_that_gets_a_key_is_sealed_with_all_it_has(
    empty_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New addresses, new seals, the same numbers; who had it open before writes nothing in the clear."""
    with empty_home.open("off") as before:
        made = before.create("agent", idempotency_key="k", content=PLAIN).run.id
        before.start(made)
        before.finish(made, output=OTHER)
        old = _rows(empty_home)
        with empty_home.open(KEYS) as store:
            assert store.input_of(made) == PLAIN
            assert store.output_of(made) == OTHER
            with pytest.raises(NoSealingKey, match="open it again"):
                before.create("agent", content=b"more")
            with pytest.raises(PayloadUnreadable):
                before.input_of(made)
            [tombstone] = empty_home.rows(tombstones)
            assert tombstone["outcome_digest"] == store.address_of(OTHER)
    new = _rows(empty_home)
    assert [row["id"] for row in new] == [row["id"] for row in old]
    assert not {row["address"] for row in new} & {row["address"] for row in old}
    assert "hunter2" not in repr(new)


def test_equal_content_shares_a_row_and_a_digest_confirms_no_guess(
    home: Home, store: RunStore, run: str
) -> None:
    """The address is a MAC under the store's secret: nothing in the store lets anybody compute it."""
    again = store.create("agent", content=PLAIN).run.id
    assert len(home.rows(blobs)) == 2
    assert store.input_of(again) == PLAIN
    [identity] = home.rows(store_identity)
    address = _rows(home)[0]["address"]
    assert address == store.address_of(PLAIN)
    known = [identity["store_id"].encode(), bytes(identity["secret"]), identity["key_id"].encode(), b""]
    for key in known:
        for digest in ("sha256", "sha512"):
            assert hmac.new(key, PLAIN, digest).hexdigest()[:64] != address
    assert hashlib.sha256(PLAIN).hexdigest() != address


def test_the_same_content_is_never_sealed_to_the_same_bytes(store: RunStore) -> None:
    """Nonces are random: two seals of one content have nothing in common."""
    sealing: Sealing = store._database.sealing  # type: ignore[assignment]
    address = sealing.address(PLAIN)
    sealed = {sealing.seal(1, address, PLAIN).content for _ in range(100)}
    assert len(sealed) == len({one[:12] for one in sealed}) == 100


def test_a_new_key_changes_no_address_and_opens_what_was(home: Home, store: RunStore, run: str) -> None:
    """The store's secret is sealed anew at once, content when it is stored again or when there is time."""
    before = _rows(home)
    keys = KEYS.rotated()
    with home.open(keys) as rotated:
        assert rotated.input_of(run) == PLAIN
        assert rotated.address_of(PLAIN) == store.address_of(PLAIN)
        rotated.create("agent", content=PLAIN)
        assert [row["key_id"] == keys.current.id for row in _rows(home)] == [True, False]
        assert rotated.reseal(limit=1) == 1
        assert rotated.reseal(limit=1) == 0
        assert rotated.reseal() == 0
    after = _rows(home)
    for name in ("id", "address", "size", "display", "display_mark", "created_at"):
        assert [row[name] for row in before] == [row[name] for row in after]
    with home.open(Keys(keys.current)) as only:
        assert only.input_of(run) == PLAIN
        assert only.steps.output_of(only.steps.of(run)[0]) == OTHER
    with pytest.raises(WrongSealingKey):
        home.open(KEYS)


def test_a_key_that_is_taken_away_too_early_is_named(home: Home, run: str) -> None:
    """What it still seals is not opened; who stores such content again seals it anew."""
    keys = KEYS.rotated()
    home.open(keys).close()
    with home.open(Keys(keys.current)) as only:
        assert _refused(lambda: only.input_of(run), run, "input of the run") == "wrong-key"
        assert only.reseal() == 0
        assert _refused(lambda: only.input_of(run), run, "input of the run") == "wrong-key"
        only.create("agent", content=PLAIN)
        assert only.input_of(run) == PLAIN


def test_an_old_process_goes_on_beside_a_new_key(home: Home, store: RunStore, run: str) -> None:
    """It seals under its key; whoever has both opens both, and shares what is equal."""
    keys = KEYS.rotated()
    with home.open(keys) as rotated:
        later = store.create("agent", content=b"from the old one").run.id
        assert rotated.input_of(later) == b"from the old one"
        mine = rotated.create("agent", content=b"from the new one").run.id
        assert _refused(lambda: store.input_of(mine), mine, "input of the run") == "wrong-key"
        while rotated.reseal(limit=1):
            pass
        assert {row["key_id"] for row in _rows(home)} == {keys.current.id}


def test_large_and_empty_content_is_exact(home: Home, store: RunStore) -> None:
    """Also what is no text, of which there is no display but a size."""
    for content in (b"", b"\x00\xff" * 300_000, "€".encode() * 50_000):
        made = store.create("agent", content=content).run.id
        assert store.input_of(made) == content
        display = store.input_display_of(made)
        assert display is not None
        assert display.size == len(content)
        assert (display.text is None) == content.startswith(b"\x00")
        assert display.cut == (len(content) > 100_000 and display.text is not None)
