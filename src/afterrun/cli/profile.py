"""`afterrun profile`: the profiles, and whether one fits a real store."""

from __future__ import annotations

from pathlib import Path

import click

from afterrun.cli.options import json_option, profile_option, store_argument
from afterrun.cli.render import notes, table
from afterrun.cli.session import Session
from afterrun.cli.suggest import SuggestingGroup
from afterrun.cli.text import visible
from afterrun.core.errors import Exit, ProfileError
from afterrun.profiles import built_in_names, load_built_in
from afterrun.profiles.directory_loader import directory_names, directory_text, load_directory
from afterrun.profiles.loader import built_in_text
from afterrun.service import open_retention
from afterrun.stores.profiles import read_any_profile

profile = SuggestingGroup(
    "profile",
    help="Say which engines are known, and whether a profile fits a store.",
    no_args_is_help=False,
)


@profile.command("list")
@json_option
@click.pass_obj
def listing(session: Session, *, as_json: bool) -> int:
    """List the profiles of this package."""
    known = sorted([*map(_of_database, built_in_names()), *map(_of_directory, directory_names())])
    if as_json:
        entries = [
            {"name": name, "engine": engine, "read": read, "own_retention": own_retention}
            for name, engine, read, own_retention in known
        ]
        session.screen.json({"profiles": entries})
        return Exit.DONE
    rows = [(name, engine, ", ".join(read), own) for name, engine, read, own in known]
    session.screen.show(table("name", "engine", "schemas read", "what the engine removes itself", rows=rows))
    return Exit.DONE


def _of_database(name: str) -> tuple[str, str, list[str], str]:
    one = load_built_in(name)
    return one.name, one.engine, list(one.detect.read), one.own_retention


def _of_directory(name: str) -> tuple[str, str, list[str], str]:
    one = load_directory(name)
    return one.name, one.engine, [one.layout], one.own_retention


@profile.command("show")
@click.argument("name", metavar="NAME")
@json_option
@click.pass_obj
def show(session: Session, *, name: str, as_json: bool) -> int:
    """Print one profile: by name, or a file of your own after it was checked."""
    checked = read_any_profile(name)
    if as_json:
        words = checked.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        session.screen.json({"name": checked.name, "profile": words})
        return Exit.DONE
    text = _text(name)
    session.screen.write("".join(f"{visible(line)}\n" for line in text.splitlines()))
    return Exit.DONE


def _text(name: str) -> str:
    if name in built_in_names():
        return built_in_text(name)
    return directory_text(name) if name in directory_names() else Path(name).read_text(encoding="utf-8")


@profile.command("check")
@store_argument
@profile_option
@json_option
@click.pass_obj
def check(session: Session, *, store: str, profile: str | None, as_json: bool) -> int:
    """Say whether a profile fits a store, and print the digest of the store's shape.

    A profile's author writes the digest beside the schema version under [detect.read], once what that
    version means was read from the engine.
    """
    answer: dict[str, object] = {"profile": profile, "fits": False, "schema": None, "digest": None}
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    named = (
        None if profile is None else read_any_profile(profile)
    )  # a malformed profile is a mistake, no answer
    try:
        with open_retention(store, profile=profile, writable=False) as retention:
            schema = retention.store.schema()
            answer["profile"], answer["fits"] = retention.store.profile_name, True
            answer["schema"] = {"version": schema.version, "read": schema.read}
            answer["digest"] = retention.store.digest
            problems, notices = (*schema.problems, *retention.row_faults()), schema.notices
    except ProfileError as error:
        if named is None:  # there is no profile of which the answer could speak
            raise
        answer["profile"], problems = named.name, error.problems
    answer |= {"notices": list(notices), "problems": list(problems)}
    if as_json:
        session.screen.json(answer)
    else:
        _show_check(session, answer)
    return Exit.DONE if answer["fits"] else Exit.ERROR


def _show_check(session: Session, answer: dict[str, object]) -> None:
    schema, notices, problems = answer["schema"], answer["notices"], answer["problems"]
    rows = [("profile", answer["profile"]), ("fits", "yes" if answer["fits"] else "no")]
    if isinstance(schema, dict):
        known = "read" if schema["read"] else "never read"
        rows += [("schema", f"{schema['version']} ({known})"), ("digest", answer["digest"])]
    session.screen.show(
        table("", "", rows=rows),
        *notes("Problems:", problems if isinstance(problems, list) else []),
        *notes("Notes:", notices if isinstance(notices, list) else []),
    )
