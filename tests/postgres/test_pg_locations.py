"""How a store on PostgreSQL is named, and what is said where it cannot be opened: never a password."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from afterrun.stores import open_store
from afterrun.stores.place import place_of
from cli.kit import Answer, run_cli
from pg_server import Database, Server, free_port
from random_stores import SCHEMAS
from sites import SCHEMA, empty_store

POLICY: Final = ("--keep-for", "30d")
SECRET: Final = "Open5esame"  # noqa: S105 - opens nothing


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the person's own settings, state and terminal out of the tests."""
    monkeypatch.setenv("AFTERRUN_STATE_DIR", str(tmp_path / "state"))
    for name in ("AFTERRUN_STORE", "AFTERRUN_DEBUG", "COLUMNS", "FORCE_COLOR", "PGSERVICEFILE", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def shop(postgres: Server) -> Database:
    """Give an empty store that no test changes; it goes with the server."""
    return postgres.create_database(template=empty_store(postgres, 125))


def asked(url: str) -> Answer:
    """Ask for a plan, for people and as JSON; neither answer may hold a secret."""
    answer = run_cli("plan", url, *POLICY)
    as_json = run_cli("plan", url, *POLICY, "--json")
    assert answer.code == as_json.code
    for text in (answer.out, answer.err, as_json.out, as_json.err):
        assert SECRET not in text
        assert "this is a bug" not in text
    return answer


def changed(url: str, **parts: object) -> str:
    """Change parts of a URL."""
    return sa.make_url(url).set(**parts).render_as_string(hide_password=False)  # type: ignore[arg-type]


WRONG: dict[str, tuple[Callable[[str], str], str]] = {
    "password": (lambda url: changed(url, password=SECRET), "password authentication failed"),
    "role": (lambda url: changed(url, username="nobody", password=SECRET), "password authentication failed"),
    "database": (lambda url: changed(url, database="nowhere"), "does not exist"),
    "port": (lambda url: changed(url, port=free_port(), password=SECRET), "Connection refused"),
    "host": (lambda url: changed(url, host="nowhere.invalid", password=SECRET), "nowhere.invalid"),
    "port number": (lambda url: changed(url, port=99_999, password=SECRET), "invalid port number"),
    "socket": (lambda _url: f"postgresql://app:{SECRET}@/x?host=/nowhere", "No such file"),
    "password in a parameter": (
        lambda url: f"postgresql://app@{hostport(url)}/postgres?password={SECRET}",
        "password authentication failed",
    ),
    "option": (lambda url: changed(url, query={"no_such_option": SECRET}), "no_such_option"),
    "setting": (lambda url: changed(url, query={"options": "-c nowhere=1"}), "nowhere"),
    "certificate": (
        lambda url: changed(url, query={"sslmode": "require", "sslpassword": SECRET}),
        "does not support SSL",
    ),
}


def hostport(url: str) -> str:
    """Return the address in a URL."""
    made = sa.make_url(url)
    return f"{made.host}:{made.port}"


@pytest.mark.parametrize("schema", ["", SCHEMA])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_opened_says_why_and_no_secret(shop: Database, wrong: str, schema: str) -> None:
    """Exit 1, one sentence with the masked URL and the server's own reason; with and without a schema."""
    change, reason = WRONG[wrong]
    url = change(shop.url())
    if schema:
        url = changed(url, query={**sa.make_url(url).query, "schema": schema})
    answer = asked(url)
    assert answer.code == 1
    assert "cannot be opened" in answer.err
    assert reason in answer.err
    assert "postgresql://" in answer.err


def test_a_url_with_a_nul_character_goes_nowhere(shop: Database) -> None:
    """A driver would cut it there, and connect to some other server."""
    answer = asked(shop.url().replace("/app", "/app%00"))
    assert answer.code == 2
    assert "NUL" in answer.err


def test_passwords_may_stand_where_libpq_looks_for_them(
    shop: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password file, and a service file with all of it, open the store; a wrong one tells nothing."""
    url = sa.make_url(shop.url())
    passwords, services = tmp_path / "passwords", tmp_path / "services"
    passwords.touch(mode=0o600)
    services.touch(mode=0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    escaped = str(url.password).replace("\\", "\\\\").replace(":", "\\:")
    words = f"host={url.host}\nport={url.port}\ndbname={url.database}\nuser={url.username}\n"
    bare = f"postgresql://{url.username}@{hostport(shop.url())}/{url.database}"
    for secret, code in ((escaped, 0), (SECRET, 1)):
        passwords.write_text(f"*:*:*:*:{secret}\n", encoding="utf-8")
        services.write_text(f"[shop]\n{words}", encoding="utf-8")
        assert asked(bare).code == code
        assert asked("postgresql://?service=shop").code == code
    services.write_text(f"[shop]\n{words}password={SECRET}\n", encoding="utf-8")
    assert asked("postgresql://?service=shop").code == 1
    assert asked("postgresql://?service=nowhere").code == 1


def test_a_place_names_the_server_however_it_is_given_and_no_secret() -> None:
    """What is remembered of a store that cannot be opened is kept apart from that of any other."""
    wheres = ["h:1/d", "h:2/d", "/d?host=/a", "/d?host=/b", "?service=a", "?service=b", "h:1/d?schema=s"]
    places = [place_of(f"postgresql://u:{SECRET}@{where}") for where in wheres]
    assert len(set(places)) == len(wheres)
    secret = place_of(f"postgresql://h:1/d?password={SECRET}&sslpassword={SECRET}&options={SECRET}")
    assert secret == places[0]
    assert SECRET not in "".join(places)


def test_options_of_the_connection_reach_the_server(shop: Database) -> None:
    """Words with spaces in them, too, and whether or not the schema is looked for."""
    options = quote("-c work_mem=5MB -c app.note=a\\ b")
    for schema in ("", f"&schema={SCHEMA}"):
        with_options = f"{shop.url()}?options={options}{schema}"
        store = open_store(with_options)
        assert store.dialect.driver.execute("SHOW work_mem").fetchone() == ("5MB",)  # type: ignore[attr-defined]
        assert store.dialect.driver.execute("SHOW app.note").fetchone() == ("a b",)  # type: ignore[attr-defined]
        store.close()


def test_the_store_may_stand_in_the_environment(shop: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """So no password stands in a command line; what is shown of it is masked."""
    monkeypatch.setenv("AFTERRUN_STORE", shop.url())
    answer = run_cli("plan", *POLICY, "--json")
    assert answer.code == 0
    assert answer.json["store"].startswith("postgresql://app:***@127.0.0.1:")
    assert answer.json["store"].endswith(f"/{shop.name}?schema={SCHEMA}")


@pytest.mark.parametrize("prefix", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2"])
def test_a_url_may_begin_as_people_write_it(shop: Database, prefix: str) -> None:
    """The driver is ours, whatever the engine uses."""
    assert asked(f"{prefix}://{shop.url().partition('://')[2]}").code == 0


def test_a_schema_that_is_not_there_is_told_with_one_that_is_like_it(shop: Database) -> None:
    """Nothing is guessed: a wrong name is no reason to look elsewhere."""
    answer = asked(shop.url(schema="dbo"))
    assert answer.code == 1
    assert "has no schema 'dbo' with a table in it (did you mean 'dbos'?)" in answer.err


def test_a_database_without_an_engines_tables_is_told(database: Database) -> None:
    """With and without a profile; and a schema with other tables is no store."""
    for words in ((), ("--profile", "dbos")):
        answer = run_cli("plan", database.url(), *POLICY, *words)
        assert answer.code == 1
        assert "has no schema 'dbos' with a table in it" in answer.err
    database.run("CREATE TABLE public.other (id int)")
    assert "no profile fits" in run_cli("plan", database.url(schema="public"), *POLICY).err


def test_a_store_is_found_in_whatever_schema_it_is_and_two_are_told(database: Database) -> None:
    """The engine lets people choose the schema: the only one is found, of two one must be named."""
    script = (SCHEMAS / "dbos-125.postgresql.sql").read_text(encoding="utf-8")
    for name in ("first", "second"):
        database.run(
            script.replace("CREATE SCHEMA dbos", f"CREATE SCHEMA {name}").replace("dbos.", f"{name}.")
        )
        answer = run_cli("plan", database.url(), *POLICY, "--json")
        if name == "first":
            assert answer.json["store"].endswith("?schema=first")
    assert answer.code == 2
    assert "first, second; say which, with ?schema=NAME" in answer.err
    chosen = run_cli("plan", database.url(schema="second"), *POLICY, "--json")
    assert chosen.json["store"].endswith("?schema=second")
    assert asked(f"{database.url(schema='first')}&schema=second").code == 2


def test_without_the_driver_the_extra_is_named() -> None:
    """The base install lacks it: PostgreSQL alone asks for it, and says what to install."""
    script = "import sys; sys.modules['psycopg'] = None; from afterrun.cli import main; sys.exit(main())"
    url = f"postgresql://app:{SECRET}@127.0.0.1:{free_port()}/x"
    done = subprocess.run(
        [sys.executable, "-c", script, "plan", url, *POLICY], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'afterrun[postgres]'" in done.stderr
    assert SECRET not in done.stderr
