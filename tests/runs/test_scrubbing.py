from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afterrun.core.errors import UsageError
from afterrun.runs import RunStore
from afterrun.runs.displays import CUT, LONGEST, WINDOW, display_of
from afterrun.runs.scrub import GONE, scrub, scrub_text
from runs.scrub_corpus import FORMATS, NAMED, ORDINARY, Sample, named, pem, samples, token, tokens


@pytest.mark.parametrize("kind", FORMATS)
def test_a_token_is_known_by_its_format(kind: str) -> None:
    """Wherever it stands: in prose, in JSON, in JSON within JSON, in an address, in a list."""
    shown = [sample.text for sample in tokens() if sample.kind == kind and _shows(sample)]
    assert shown == []


@pytest.mark.parametrize("kind", NAMED)
def test_a_password_is_known_by_its_name(kind: str) -> None:
    """A value without any format goes when what stands before it announces a secret."""
    shown = [sample.text for sample in named() if sample.kind == f"named {kind}" and _shows(sample)]
    assert shown == []


def test_a_private_key_goes_whole() -> None:
    """Also where its end was cut off, and with what JSON makes of its lines."""
    assert [sample.text for sample in pem() if _shows(sample)] == []


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    """Ids, digests, counts of tokens, code and prose about passwords are no secrets."""
    assert scrub_text(text) == text


def test_recall_is_bounded_over_many_seeds() -> None:
    """Of 3,000 tokens that were made at random, 99 in 100 are found."""
    made = [sample for seed in range(5) for sample in tokens(seed)]
    missed = [sample for sample in made if _shows(sample)]
    assert len(made) > 2_500
    assert len(missed) <= len(made) / 100, {sample.kind for sample in missed}


def test_json_stays_json() -> None:
    """What is shown of a document can still be read as one."""
    for sample in samples():
        try:
            json.loads(sample.text)
        except ValueError:
            continue
        json.loads(scrub_text(sample.text))


def test_what_is_beside_a_secret_stays() -> None:
    """Only the value goes, not what comes after it."""
    text = json.dumps({"password": 'a"b\\', "after": "stays", "token_count": 3})
    assert json.loads(scrub_text(text)) == {"password": GONE, "after": "stays", "token_count": 3}
    assert scrub_text("a=1&token=abc123def456&b=2") == f"a=1&token={GONE}&b=2"


def test_a_secret_at_the_cut_is_never_shown_in_part() -> None:
    """Wherever a display is cut, what stands there is known for what it is, or goes with the cut."""
    rng = random.Random(1)
    secret = token(rng, "anthropic")
    for place in (LONGEST - 20, LONGEST + 1, WINDOW - 20, WINDOW - 60, WINDOW - 100):
        shown = display_of(("word " * WINDOW)[:place].encode() + b" " + secret.encode() + b" end " * 9_000)
        assert shown is not None
        assert secret[:20] not in shown
        assert shown.endswith(CUT)
        assert len(shown) <= LONGEST + len(CUT)


def test_a_private_key_that_is_longer_than_the_window_is_not_shown() -> None:
    """Its end is not looked for: it goes up to where the text is cut."""
    body = "MIIabc/" * 8_000
    whole = f"key:\n-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    shown = display_of(whole.encode())
    assert shown == f"key:\n{GONE}{CUT}"


def test_what_is_no_text_has_no_display() -> None:
    """Bytes that are no UTF-8 are not shown; a sign of several bytes at the cut is no reason for that."""
    assert display_of(b"\x80\x81") is None
    assert display_of(b"") == ""
    shown = display_of(("€ " * WINDOW).encode())
    assert shown is not None
    assert shown.endswith(CUT)


def test_signs_that_change_the_screen_are_shown_as_such() -> None:
    """Escapes, NUL and marks of direction do nothing; lines and tabs stay."""
    assert scrub_text("a\x1b[2J\x00b\n\tc\u202ed") == "a\ufffd[2J\ufffdb\n\tc\ufffdd"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.text(max_size=300), st.sampled_from(sorted(FORMATS)), st.integers())
def test_no_text_around_a_token_hides_it(before: str, after: str, kind: str, seed: int) -> None:
    """Whatever stands before and after, as long as it is no part of the word."""
    secret = token(random.Random(seed), kind)
    assert secret not in scrub_text(f"{before} {secret} {after}")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="pasword:=\"\\{}[]'tokn, /@-\n", max_size=400))
def test_scrubbing_again_changes_nothing(text: str) -> None:
    """What was removed is not taken for a secret."""
    once = scrub_text(text)
    assert scrub_text(once) == once


HOSTILE: dict[str, Callable[[int], str]] = {
    "quotes": lambda size: '"password":"' * (size // 12),
    "openings": lambda size: '"token":[' * (size // 9),
    "secret openings": lambda size: '"secret":{' * (size // 10),
    "slashes": lambda size: 'token="' + "\\" * size,
    "colons": lambda size: "://:" * (size // 4),
    "at": lambda size: "://a:" + "b" * size,
    "words": lambda size: "ghp_" * (size // 4),
    "begins": lambda size: "-----BEGIN RSA PRIVATE KEY-----" * (size // 31),
    "dots": lambda size: "eyJaaaaaaaaaaaaa.eyJ" * (size // 20),
    "long word": lambda size: "a" * size,
    "spaces": lambda size: "password" + " " * size,
    "names": lambda size: "token " * (size // 6),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_time_is_linear(kind: str) -> None:
    """Eight times as much hostile text takes about eight times as long, and not sixty-four."""
    small, large = (_seconds(HOSTILE[kind](size)) for size in (25_000, 200_000))
    assert large < 32 * small + 0.05


def _seconds(text: str) -> float:
    best = float("inf")
    for _ in range(3):
        begun = time.process_time()
        scrub_text(text)
        best = min(best, time.process_time() - begun)
    return best


def test_labels_hold_no_secret(store: RunStore) -> None:
    """A name that looks like one is refused without being repeated; what is said to people is scrubbed."""
    secret = token(random.Random(2), "github-pat")
    with pytest.raises(UsageError, match="looks like a secret") as refused:
        store.create(f"import {secret}")
    assert secret not in str(refused.value)
    run = store.create("agent").run.id
    store.start(run)
    question = store.approvals.ask(run, f"may I use {secret}?")
    assert question in store.approvals.of(run)
    with pytest.raises(UsageError, match="looks like a secret"):
        store.decisions.decide(store.decisions.ask(run, "which?"), f"token={secret}", by="ops")


def test_reasons_are_scrubbed_more_strictly() -> None:
    """In a reason no long mixed word stays, whatever it is: nobody needs ids there."""
    assert scrub("failed at 9fceb02d0ae598e95dc970b74767f19372d61af8") == f"failed at {GONE}"


def _shows(sample: Sample) -> bool:
    return sample.secret in scrub_text(sample.text)
