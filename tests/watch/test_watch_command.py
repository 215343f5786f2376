"""`afterrun watch`: approvals, intervals, answers and files of metrics."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from afterrun.core.errors import Exit
from afterrun.telemetry.logs import LOGGER
from cli.kit import Answer, count, make_store, run_cli, unchanged
from watch.watch_kit import ends, once, records, settings, watching


def run(config: Path, *words: str) -> Answer:
    """Run `afterrun watch --once` in this process."""
    return run_cli("watch", "--once", "--config", config, *words)


def samples(path: Path) -> dict[tuple[str, str], float]:
    """Return the samples of a file that have a store, by name and store; the outcomes that count."""
    families = text_string_to_metric_families(path.read_text(encoding="utf-8"))
    return {
        (sample.name, sample.labels["store"]): sample.value
        for family in families
        for sample in family.samples
        if sample.labels.get("outcome", "removed") == "removed" and "ended" not in sample.labels
    }


# -------------------------------------------------------------------------------- approvals


def test_a_store_that_asks_is_approved_by_its_fingerprint(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """Promise 10: the log and the answer show the fingerprint, which admits that store's sweep alone."""
    config = settings(tmp_path, *stores, approve="false")
    code, process = once(config)
    assert code == Exit.REFUSED
    asked = process.found("approval-wanted", store="orders")[0]
    assert asked["units"] == 11
    answer = run(config, "--approve", f"orders={asked['fingerprint']}", "--json")
    assert answer.code == Exit.REFUSED
    told = answer.json["stores"]
    assert (told["orders"]["ended"], told["orders"]["removed"]) == ("completed", 11)
    assert (told["mail"]["ended"], told["mail"]["code"]) == ("guard", Exit.REFUSED)
    assert [count(store) for store in stores] == [30, 41]
    shown = run(config).out
    assert f"asks: 11 units would go, fingerprint {told['mail']['fingerprint']}" in shown
    assert "not due" in shown


def test_the_sweep_command_with_the_same_file_approves_as_well(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    """A store's policy is the same for both, and so is the fingerprint."""
    config = settings(tmp_path, *stores, approve="false", policy='{ keep_for = "35d" }')
    asked = run(config, "--json").json["stores"]["orders"]
    words = ("sweep", stores[0], "--policy", config, "--approve", asked["fingerprint"])
    assert run_cli(*words).code == Exit.DONE
    assert count(stores[0]) == 35
    assert run(config, "--json").json["stores"]["orders"] is None


def test_an_approval_waits_for_no_interval(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """Who approves wants it now: also of a store that was swept an hour ago, by an older policy."""
    config = settings(tmp_path, stores[0], approve="false")
    first = run(config, "--json").json["stores"]["orders"]["fingerprint"]
    assert run(config, "--approve", f"orders={first}").code == Exit.DONE
    assert run(config, "--json").json["stores"]["orders"] is None
    again = run(config, "--approve", f"orders={first}", "--json").json["stores"]["orders"]
    assert (again["ended"], again["removed"]) == ("completed", 0)


def test_a_watch_that_asks_goes_on_and_ends_well(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """Asking is no failure: it shows in log and record, and the exit code is 0."""
    with watching(settings(tmp_path, stores[0], approve="false")) as process:
        process.until("approval-wanted", store="orders")
        assert process.end()[0] == Exit.DONE
    assert ends(stores[0]) == ["guard"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--approve", "ordrs=abc"), "name no store 'ordrs' (did you mean 'orders'?)"),
        (("--approve", "orders"), "NAME=FINGERPRINT"),
        (("--approve", "=abc"), "NAME=FINGERPRINT"),
        (("--parallel", "0"), "--parallel"),
        (("--cnfig", "x"), "did you mean '--config'?"),
    ],
)
def test_words_that_make_no_sense_end_with_2(
    stores: tuple[Path, Path], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """Before any store is opened."""
    config = settings(tmp_path, *stores)
    with unchanged(stores[0]):
        answer = run(config, *words)
    assert answer.code == Exit.USAGE
    assert said in answer.err
    assert not (tmp_path / "state").exists()


def test_settings_that_are_wrong_end_with_2(tmp_path: Path) -> None:
    """Faults are said at once; a file without stores has nothing to watch."""
    config = settings(tmp_path)
    assert "names no store" in run(config).err
    config.write_text("x = 1\ny = 2")
    answer = run(config)
    assert (answer.code, answer.err.count("unknown key")) == (Exit.USAGE, 2)
    assert run(tmp_path / "no.toml").code == Exit.USAGE


# --------------------------------------------------------------------------------- intervals


def test_a_completed_sweep_is_remembered_across_starts(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """Within the interval nothing is swept, by `--once` nor by a process that starts anew."""
    config = settings(tmp_path, *stores)
    assert run(config).code == Exit.DONE
    make_store(stores[0], runs=60)
    answer = run(config, "--json")
    assert (answer.code, answer.json["stores"]) == (Exit.DONE, {"orders": None, "mail": None})
    with watching(config) as process:
        process.until("watch-began")
        assert process.end()[0] == Exit.DONE
    assert process.found("sweep-began") == []
    assert ends(stores[0]) == ["completed"]


def test_each_store_has_its_own_interval(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """One is due again at once, one is never due, as its own key says."""
    config = settings(tmp_path, *stores)
    text = config.read_text(encoding="utf-8").replace(
        'store = "mail.sqlite"', 'store = "mail.sqlite"\ninterval = "0s"'
    )
    config.write_text(text.replace('store = "orders.sqlite"', 'store = "orders.sqlite"\ninterval = "1s"'))
    assert run(config).code == Exit.DONE
    assert [count(store) for store in stores] == [30, 41]
    with watching(config) as process:
        process.until("sweep-ended", times=2, store="orders")
        assert process.end()[0] == Exit.DONE
    assert process.found("sweep-began", store="mail") == []


def test_a_sweep_is_bounded_in_seconds(tmp_path: Path) -> None:
    """`max_seconds` ends it with a budget, which is no failure; it stays due and goes on."""
    store = make_store(tmp_path / "long.sqlite", 3_000, live=0)
    config = settings(tmp_path, store, max_seconds="0.001")
    for _ in range(2):
        answer = run(config, "--json")
        assert (answer.code, answer.json["stores"]["long"]["ended"]) == (Exit.DONE, "budget")
    assert ends(store) == ["budget", "budget"]


# ----------------------------------------------------------------------------------- answers


def test_the_worst_exit_code_counts(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """For cron: an error before a refusal, and that before what is done."""
    config = settings(tmp_path, *stores)
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("approve = true", "approve = false", 1))
    assert run(config).code == Exit.REFUSED
    config.write_text(
        f'{text.replace("approve = true", "approve = false", 1)}\n[stores.no]\nstore = "no.db"\n'
    )
    assert run(config).code == Exit.ERROR


def test_what_is_logged_names_no_path_and_no_run(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """Promise 12: by default; with -v, messages of errors may name the store."""
    (tmp_path / "broken.sqlite").write_bytes(b"junk" * 500)
    config = settings(tmp_path, *stores, tmp_path / "broken.sqlite")
    with watching(config, "--once", verbose=False) as process:
        process.end(None)
    assert process.found("not-swept", store="broken")
    assert not any(word in process.text for word in ("/", ".sqlite", "run-", "flow"))
    _, process = once(config)
    assert "broken.sqlite" in process.found("not-swept", store="broken")[0]["message"]


def test_log_lines_are_text_unless_json_is_asked_for(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """`log_format` and `log_level` decide; standard output holds the answer alone."""
    config = settings(tmp_path, *stores, more='[telemetry]\nlog_level = "warning"')
    quiet = run(config)
    assert (quiet.code, quiet.err) == (Exit.DONE, "")
    assert quiet.out.count("completed") == 2
    config = settings(tmp_path, *stores, interval='"1s"', more='[telemetry]\nlog_format = "json"')
    told = [json.loads(line)["event"] for line in run(config, "--json").err.splitlines()]
    assert (told[0], told[-1]) == ("watch-began", "watch-ended")
    lines = run(settings(tmp_path, *stores)).err.splitlines()
    assert lines[0].endswith(" info watch-began stores=2 parallel=1")
    assert (LOGGER.level, LOGGER.handlers[1:]) == (logging.NOTSET, [])


# ----------------------------------------------------------------------------------- metrics


def test_files_of_metrics_are_written_after_each_sweep(stores: tuple[Path, Path], tmp_path: Path) -> None:
    """One for all stores, one for a store of its own; readable by all, without a path or an id."""
    config = settings(
        tmp_path, *stores, metrics_file="'PLACE'", more='[telemetry]\nprometheus_file = "all.prom"'
    )
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("PLACE", "orders.prom", 1).replace("PLACE", "mail.prom", 1))
    assert run(config).code == Exit.DONE
    found = samples(tmp_path / "all.prom")
    for store in ("orders", "mail"):
        assert found["afterrun_units", store] == 11
        assert found["afterrun_units_removed_total", store] == 11
        at = records(tmp_path / f"{store}.sqlite")[-1].at
        assert found["afterrun_last_success_timestamp_seconds", store] == pytest.approx(at / 10**6, abs=1e-5)
        own = samples(tmp_path / f"{store}.prom")
        assert {name for name, _ in own} == {name for name, _ in found if not name.endswith("_total")}
        assert {where for _, where in own} == {store}
    assert stat.S_IMODE((tmp_path / "all.prom").stat().st_mode) == 0o644
    assert not any(word in (tmp_path / "all.prom").read_text() for word in ("/", "run-", ".sqlite"))


def test_a_process_that_starts_anew_shows_what_is_on_record(
    stores: tuple[Path, Path], tmp_path: Path
) -> None:
    """A store that is not due keeps its time of success, so that no alarm goes off by a restart."""
    config = settings(tmp_path, *stores, more='[telemetry]\nprometheus_file = "all.prom"')
    assert run(config).code == Exit.DONE
    before = samples(tmp_path / "all.prom")
    (tmp_path / "all.prom").unlink()
    assert run(config).code == Exit.DONE
    after = samples(tmp_path / "all.prom")
    for name in ("afterrun_last_run_timestamp_seconds", "afterrun_last_success_timestamp_seconds"):
        for store in ("orders", "mail"):
            assert after[name, store] == pytest.approx(before[name, store], abs=1e-5)


@pytest.mark.parametrize("place", ["no/such/all.prom", "orders.sqlite"])
def test_a_place_that_is_wrong_is_refused_before_any_sweep(
    stores: tuple[Path, Path], tmp_path: Path, place: str
) -> None:
    """The key is named, and nothing is opened or replaced."""
    config = settings(tmp_path, *stores, more=f'[telemetry]\nprometheus_file = "{place}"')
    with unchanged(stores[0]):
        answer = run(config)
    assert (answer.code, "telemetry.prometheus_file" in answer.err) == (Exit.USAGE, True)
    assert count(stores[1]) == 41


TRACING = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
def line(span):
    return json.dumps({"event": "span", "name": span.name, **span.attributes}) + "\\n"
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr, formatter=line)))
trace.set_tracer_provider(provider)
"""


@pytest.mark.parametrize("wanted", ["true", "false"])
def test_an_sdk_that_is_set_up_gets_a_span_for_each_sweep(
    stores: tuple[Path, Path], tmp_path: Path, wanted: str
) -> None:
    """With the store's name; `opentelemetry = false` turns it off."""
    config = settings(tmp_path, *stores, more=f"[telemetry]\nopentelemetry = {wanted}")
    code, process = once(config, before=TRACING)
    assert code == Exit.DONE
    spans = {line["afterrun.store"]: line["afterrun.removed"] for line in process.found("span")}
    assert spans == ({"orders": 11, "mail": 11} if wanted == "true" else {})
