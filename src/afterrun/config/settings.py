"""A settings file with the environment over it, as frozen values; or every fault of both."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from afterrun.config.environment import Overrides, Place, overrides
from afterrun.config.rows_text import faults_of, merged_tables, rules_of
from afterrun.config.text import PolicyText, RowsText, ServerText, SettingsText, StoreText, TelemetryText
from afterrun.core.errors import AfterrunError, ProfileError, UsageError, did_you_mean
from afterrun.core.policy import Policy
from afterrun.core.times import parse_duration
from afterrun.profiles import load_built_in, load_file
from afterrun.profiles.defaults import DefaultPolicy
from afterrun.reading import read_small_file
from afterrun.stores.open import parse_url
from afterrun.stores.place import place_of

MAX_SETTINGS_BYTES: Final = 1_048_576
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """One store to look after. An ``interval`` of zero turns its sweeps off; ``pause`` is a multiple.

    ``trash``, of a directory, is how long what goes can be put back.
    """

    name: str
    location: str = field(repr=False)  # it may hold a password
    datasources: Sequence[str] = field(repr=False)
    policy: PolicyText
    tables: Mapping[str, RowsText]
    profile: str | None
    approve: bool
    interval: timedelta
    pause: float
    max_seconds: float | None
    trash: timedelta | None
    metrics_file: Path | None

    @property
    def rules(self) -> Policy:
        """Return what to keep."""
        return self.policy.or_default(default_of(self.profile), tables=rules_of(self.tables))


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """What a stand-alone process tells, and how."""

    log_format: Literal["text", "json"]
    log_level: str
    prometheus_file: Path | None
    opentelemetry: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a workflow server runs. ``backups`` is the folder for those that are asked for over HTTP."""

    app: str | None = None
    listen: str = "127.0.0.1:0"
    hosts: Sequence[str] = ()
    token_file: Path | None = None
    backups: Path | None = None
    sealing: Literal["keys", "off"] = "keys"
    runners: int = 2
    slots: int = 16
    lease: timedelta = timedelta(seconds=15)
    grace: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a settings file says. ``approve`` admits every automatic sweep without asking."""

    policy: PolicyText
    tables: Mapping[str, RowsText]
    approve: bool
    stores: Sequence[StoreSettings]
    telemetry: TelemetrySettings
    server: ServerSettings
    ignored: Sequence[str]
    """Variables that begin like ours and mean nothing here."""

    def policy_of(self, location: str) -> tuple[PolicyText, bool]:
        """Return the policy for a store, and whether its sweeps are approved: its own, if the file has it."""
        own = self._own(location)
        return (self.policy, self.approve) if own is None else (own.policy, own.approve)

    def tables_of(self, location: str) -> Mapping[str, RowsText]:
        """Return the rules for row tables of a store."""
        own = self._own(location)
        return self.tables if own is None else own.tables

    def _own(self, location: str) -> StoreSettings | None:
        place = place_of(location)
        return next((store for store in self.stores if place_of(store.location) == place), None)


def default_of(profile: str | None) -> DefaultPolicy | None:
    """Return the policy that a profile has where nobody says a rule, if the settings name the profile."""
    if profile is None:
        return None
    try:
        return (load_file(Path(profile)) if is_file(profile) else load_built_in(profile)).policy
    except ProfileError:  # said when the store is opened
        return None


def is_file(profile: str) -> bool:
    """Say whether a profile is given by its file."""
    return profile.endswith(".toml") or "/" in profile


def load_settings(path: Path, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Read a settings file and the environment. Raises `UsageError` with every fault and its place."""
    environ = os.environ if environ is None else environ
    data = _parsed(path)
    over = overrides(data, environ)
    merged = over.applied(data)
    faults = [*over.faults]
    text = None
    try:
        text = SettingsText.model_validate(merged)
    except ValidationError as error:
        faults += [_problem(fault, over) for fault in error.errors(include_url=False, include_input=False)]
    stores = _Stores(merged, over, folder=path.absolute().parent, environ=environ)
    found = list(stores.read())
    faults += [*stores.faults, *_shared_files(found, merged, path.absolute().parent)]
    faults += [] if text is None else faults_of(text.tables, place="tables")
    if text is None or faults:
        lines = "".join(f"\n  - {line}" for line in faults)
        raise UsageError(f"the settings file {path} is not valid{lines}")
    return Settings(
        policy=text.policy,
        tables=text.tables,
        approve=text.approve,
        stores=tuple(found),
        telemetry=_telemetry(text.telemetry, path.absolute().parent),
        server=_server(text.server, path.absolute().parent),
        ignored=tuple(over.ignored),
    )


def _parsed(path: Path) -> dict[str, Any]:
    try:
        raw = read_small_file(path, limit=MAX_SETTINGS_BYTES)
    except OSError as error:
        raise UsageError(f"the settings file {path} cannot be read: {error.strerror}") from None
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the settings file {path} is not valid TOML: {error}") from None


def _telemetry(text: TelemetryText, folder: Path) -> TelemetrySettings:
    file = text.prometheus_file
    return TelemetrySettings(
        log_format=text.log_format,
        log_level=text.log_level,
        prometheus_file=None if file is None else folder / file,
        opentelemetry=text.opentelemetry,
    )


def _server(text: ServerText, folder: Path) -> ServerSettings:
    app = text.app
    if app is not None and ".py:" in app:
        app = str(folder / app)
    return ServerSettings(
        app=app,
        listen=text.listen,
        hosts=tuple(text.hosts),
        token_file=None if text.token_file is None else folder / text.token_file,
        backups=None if text.backups is None else folder / text.backups,
        sealing=text.sealing,
        runners=text.runners,
        slots=text.slots,
        lease=parse_duration(text.lease),
        grace=parse_duration(text.grace),
    )


def _shared_files(stores: Sequence[StoreSettings], data: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Yield a fault for each file of metrics that another one would replace."""
    telemetry = _checked(TelemetryText, data.get("telemetry", {}))
    seen: dict[str, str] = {}
    if telemetry is not None and telemetry.prometheus_file is not None:
        seen[os.path.realpath(folder / telemetry.prometheus_file)] = "telemetry.prometheus_file"
    for store in stores:
        if store.metrics_file is not None:
            place = f"stores.{store.name}.metrics_file"
            other = seen.setdefault(os.path.realpath(store.metrics_file), place)
            if other != place:
                yield f"{place}: it is the same file as {other}"


class _Stores:
    """Reads the stores one by one, so that a fault of one hides none of another.

    What the models found wrong is not said again: such a store is passed over here.
    """

    def __init__(
        self, data: Mapping[str, Any], over: Overrides, *, folder: Path, environ: Mapping[str, str]
    ) -> None:
        self._over = over
        self._folder = folder
        self._environ = environ
        self._default = _checked(PolicyText, data.get("policy", {}))
        self._tables = _checked(SettingsText, {"tables": data.get("tables", {})})
        general = {name: data[name] for name in ("approve", "interval") if name in data}
        self._general = _checked(SettingsText, general) or SettingsText()
        stores = data.get("stores", {})
        self._stores = stores if isinstance(stores, dict) else {}
        self.faults: list[str] = []

    def read(self) -> Iterator[StoreSettings]:
        """Yield the stores without a fault; ``faults`` has the others'."""
        seen: dict[str, str] = {}
        for name, raw in self._stores.items():
            text = _checked(StoreText, raw)
            if text is None:
                continue
            tables = self._tables_of(name, text)
            location, policy = self._location(name, text), self._policy(name, text, tables)
            others = [self._place(f"stores.{name}.datasources", other) for other in text.datasources]
            if text.trash is not None and location is not None and "://" in location:
                self.faults.append(f"stores.{name}.trash: only a directory has a trash, and this is a URL")
                continue
            if location is None or policy is None or None in others:
                continue
            twin = seen.setdefault(place_of(location), name)
            if twin != name:
                self.faults.append(f"stores.{name}: it is the same store as stores.{twin}")
                continue
            yield self._settings(name, text, location, policy, tables)

    def _settings(
        self, name: str, text: StoreText, location: str, policy: PolicyText, tables: Mapping[str, RowsText]
    ) -> StoreSettings:
        general, file = self._general, text.metrics_file
        profile = self._profile(text)
        return StoreSettings(
            name=name,
            location=location,
            datasources=tuple(_anchored(other, self._folder) for other in text.datasources),
            policy=policy,
            tables=tables,
            profile=profile,
            approve=general.approve if text.approve is None else text.approve,
            interval=parse_duration(general.interval if text.interval is None else text.interval),
            pause=1.0 if text.pause is None else text.pause,
            max_seconds=text.max_seconds,
            trash=None if text.trash is None else parse_duration(text.trash),
            metrics_file=None if file is None else self._folder / file,
        )

    def _profile(self, text: StoreText) -> str | None:
        given = text.profile
        return given if given is None or not is_file(given) else str(self._folder / given)

    def _location(self, name: str, text: StoreText) -> str | None:
        """Return where the store is; its own variable comes before both keys of the file."""
        place: Place = ("stores", name, "store")
        location = text.store
        if text.store_env is not None and place not in self._over.values:
            if location is not None:
                self.faults.append(f"stores.{name}: it has both store and store_env; leave one out")
                return None
            location = self._environ.get(text.store_env)
            if not location:
                self.faults.append(f"stores.{name}.store_env: the variable {text.store_env} is not set")
                return None
        if location is None:
            self.faults.append(f"stores.{name}: it says no store; give store or store_env")
            return None
        return self._place(f"stores.{name}.store", location)

    def _place(self, key: str, location: str) -> str | None:
        """Return a location that does not depend on where a process was started."""
        try:
            anchored = _anchored(location, self._folder)
            place_of(anchored)  # so that whatever can be no location is said here
        except AfterrunError as error:
            self.faults.append(f"{key}: {error}")
            return None
        return anchored

    def _tables_of(self, name: str, text: StoreText) -> Mapping[str, RowsText]:
        """Return the rules for row tables of a store; those of its own table that make no sense are said."""
        general = self._tables.tables if self._tables is not None and text.inherit else {}
        tables = merged_tables(general, text.tables)
        own = {table: rules for table, rules in tables.items() if table in text.tables}
        faults = list(faults_of(own, place=f"stores.{name}.tables"))
        self.faults += faults
        return {} if faults else tables

    def _policy(self, name: str, text: StoreText, tables: Mapping[str, RowsText]) -> PolicyText | None:
        if self._default is None:
            return None
        policy = self._default.merged(text.policy) if text.inherit else text.policy
        try:
            policy.or_default(default_of(self._profile(text)), tables=rules_of(tables))
        except AfterrunError as error:
            self.faults.append(f"stores.{name}.policy: {error}")
            return None
        return policy


def _checked(model: type[Model], raw: object) -> Model | None:
    try:
        return model.model_validate(raw)
    except ValidationError:
        return None


def _anchored(location: str, folder: Path) -> str:
    """Return a location that does not depend on where a process was started. Raises `UsageError`."""
    if "://" not in location:
        return str(folder / location)
    url = parse_url(location)
    if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
        url = url.set(database=str(folder / url.database))
        return url.render_as_string(hide_password=False)
    return location


def _problem(fault: Any, over: Overrides) -> str:  # noqa: ANN401 - pydantic's ErrorDetails, a plain mapping
    parts = [str(part) for part in fault["loc"]]
    if parts[-1] == "[key]":
        return f"{parts[0]}.{parts[1]}: a name is of a-z, 0-9, '_' and '-', begins with a letter, at most 40"
    variable = over.variables.get(tuple(parts))
    place = ".".join(parts) if variable is None else f"the variable {variable}"
    if fault["type"] == "extra_forbidden":
        return f"{place}: unknown key{did_you_mean(parts[-1], _keys_at(parts[:-1]))}"
    return f"{place}: {fault['msg'].removeprefix('Value error, ')}"


def _keys_at(parts: Sequence[str]) -> Sequence[str]:
    """Return the keys that a table of the file may have."""
    model: type[BaseModel] = SettingsText
    for part in parts:
        if part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return tuple(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - typing has no type for annotations
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
