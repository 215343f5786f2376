"""The profile model of directory stores: engines that keep each run as a folder.

As strict as that of SQL stores. A pattern is a path below the store in which whole parts may be patterns; a
template is a path in which ``{id}`` stands for the run's id. Neither ever goes up.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StringConstraints, model_validator

from afterrun.profiles.registry import EngineLock, NameCode, TimeFormat
from afterrun.profiles.words import Model, Name, Place, Word

MAX_PARTS = 8


def _is_below(text: str) -> str:
    parts = text.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError("a path below the store has no empty part, no '.' and no '..'")
    if len(parts) > MAX_PARTS:
        raise ValueError(f"a path has at most {MAX_PARTS} parts")
    if any("**" in part for part in parts):
        raise ValueError("a '*' stands for the name of one entry, so there is no '**'")
    return text


def _is_fixed(text: str) -> str:
    if any(mark in text for mark in "*?["):
        raise ValueError("this path is no pattern")
    return text


def _is_template(text: str) -> str:
    if text.count("{id}") != 1:
        raise ValueError("write {id} once, where the run's id stands")
    return text


_Path = StringConstraints(min_length=1, max_length=400, pattern=r"^[^\x00-\x1f\x7f]+$")
Pattern = Annotated[str, _Path, AfterValidator(_is_below)]
"""A path below the store; ``*``, ``?`` and ``[...]`` stand for characters of one name."""

Below = Annotated[str, _Path, AfterValidator(_is_below), AfterValidator(_is_fixed)]
"""A path below the store, as it is."""

Template = Annotated[str, _Path, AfterValidator(_is_below), AfterValidator(_is_template)]
"""A path below the store, of a run: ``{id}`` stands for its id."""

FieldPath = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\s.]+(\.[^\s.]+)*$")]
"""Where a value stands in a JSON object: names with dots between them; ``*`` is each item of an array."""


class TimeField(Model):
    """A field that holds a time, and how it spells it."""

    field: FieldPath
    format: TimeFormat


class Mode(Model):
    """A field whose word must be a known one."""

    field: FieldPath
    known: tuple[str, ...] = Field(min_length=1)


class StatusFile(Model):
    """The file in a run's folder that says what became of the run; a JSON object.

    ``id`` holds the run's id, which is also the folder's name. ``end`` is read in this order, the first that
    is there decides; a malformed one makes the age unknown, and so does a malformed ``start`` the whole file.
    ``parent`` are fields of a child that hold its parent's id, ``children`` fields of a parent that hold ids
    of its children. ``nested`` is a field that is true of a run that has a parent somewhere.
    """

    file: Name
    id: FieldPath | None = None
    state: FieldPath
    mode: Mode | None = None
    start: TimeField | None = None
    end: tuple[TimeField, ...] = ()
    terminal: tuple[str, ...] = Field(min_length=1)
    successful: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    group: tuple[FieldPath, ...] = ()
    parent: tuple[FieldPath, ...] = ()
    children: tuple[FieldPath, ...] = ()
    nested: FieldPath | None = None
    missing: Literal["root", "block"] = "block"
    max_depth: StrictInt = Field(default=1_000, ge=1, le=10_000)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if "/" in self.file or self.file in (".", ".."):
            raise ValueError("the status file is a file of the run's own folder")
        both = sorted(set(self.live) & set(self.terminal))
        if both:
            raise ValueError(f"{both[0]!r} is listed as live and as terminal")
        strange = sorted(set(self.successful) - set(self.terminal))
        if strange:
            raise ValueError(f"{strange[0]!r} is successful but not terminal")
        return self


class Marker(Model):
    """A file or folder elsewhere that holds the run it is named for."""

    kind: Literal["marker"]
    reason: Word
    path: Template
    code: NameCode = "plain"


class Inside(Model):
    """A file in the run's folder that holds the run."""

    kind: Literal["inside"]
    reason: Word
    file: Name


class Lacking(Model):
    """A file that must be in the run's folder before the run may go; a pattern."""

    kind: Literal["lacking"]
    reason: Word
    file: Name


class Records(Model):
    """Files, one a reference, each with the id of the run it holds, until it ``expires``."""

    kind: Literal["records"]
    reason: Word
    files: Pattern
    run: FieldPath
    expires: TimeField | None = None


class Manifest(Model):
    """A JSON file, in the run's folder or named by a ``field`` of its status, that lists unfinished work.

    Every item of ``items`` must have one of the words ``done`` at ``state``; there is at least one item.
    """

    kind: Literal["manifest"]
    reason: Word
    file: Name
    field: FieldPath | None = None
    items: FieldPath
    state: FieldPath
    done: tuple[str, ...] = Field(min_length=1)


class Session(Model):
    """A file anywhere, named by fields of the status, with which the run can be resumed."""

    kind: Literal["session"]
    reason: Word
    fields: tuple[FieldPath, ...] = Field(min_length=1)


class Recovery(Model):
    """A JSON file in the run's folder with what a resumption needs: it names the run, and sessions."""

    kind: Literal["recovery"]
    reason: Word
    file: Name
    run: FieldPath
    fields: tuple[FieldPath, ...] = ()


class Owner(Model):
    """A field with the id of the process that has the run; it holds the run while that very process lives."""

    kind: Literal["owner"]
    reason: Word
    pid: FieldPath


class Equals(Model):
    """A field of the status with one of these words."""

    kind: Literal["equals"]
    reason: Word
    field: FieldPath
    words: tuple[str, ...] = Field(min_length=1)


Reference = Annotated[
    Marker | Inside | Lacking | Records | Manifest | Session | Recovery | Owner | Equals,
    Field(discriminator="kind"),
]


class Index(Model):
    """Files by which the engine finds runs, and that mean nothing without them.

    ``name`` is that of such a file: ``{id}`` stands for the run's id, ``?`` for any one character.
    """

    files: Pattern
    name: Annotated[Name, AfterValidator(_is_template)]


class Directories(Model):
    """Runs that are folders.

    ``runs`` are patterns of these folders. ``marks`` are patterns of files of which a run has at least one,
    so that no other folder is taken for a run. Without ``status``, ``ended = "by-age"`` says that a run has
    ended when nothing in its folder was written for as long as the policy keeps it, and nobody has it open;
    else nothing is removed. ``indexes`` are cleared of entries whose run has gone.
    """

    runs: tuple[Pattern, ...] = Field(min_length=1)
    marks: tuple[Name, ...] = ()
    status: StatusFile | None = None
    ended: Literal["by-state", "by-age"] = "by-state"
    protect: tuple[Reference, ...] = ()
    indexes: tuple[Index, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.status is not None and self.ended == "by-age":
            raise ValueError('ended = "by-age" is for folders without a status file')
        if self.status is None:
            needing = [part for part in self.protect if part.kind in ("session", "owner", "equals")]
            if needing:
                raise ValueError(f"a reference of the kind {needing[0].kind!r} reads the status file")
        if any(not set("*?[") & set(pattern.split("/")[-1]) for pattern in self.runs):
            raise ValueError("the last part of runs is a pattern: a folder for each run")
        return self


class Area(Model):
    """Result files of one kind. ``after`` is a file whose presence keeps the result of the same run.

    ``stem``: where the content has no id, the file's name without its ending is the id. ``any_state``: it
    needs no word on how its run ended.
    """

    name: Word
    files: Pattern
    stem: StrictBool = False
    any_state: StrictBool = False
    after: Template | None = None
    code: NameCode = "plain"


class Tombstones(Model):
    """The engine's own records of run folders that it is removing: one JSON file a run."""

    path: Template
    code: NameCode = "plain"
    run: FieldPath
    tombstone: FieldPath


class Results(Model):
    """Files with what a run came to, which outlive the run's folder; JSON objects.

    ``run`` are fields that hold the run's id, the first that is there decides. ``times`` are all read, and
    the newest counts. ``outcome`` is a field that is true or false once the run has ended, ``state`` one with
    a word of the status file's terminal ones. ``parent`` and ``handoff`` are as in the status file.
    """

    areas: tuple[Area, ...] = Field(min_length=1)
    run: tuple[FieldPath, ...] = ()
    times: tuple[TimeField, ...] = ()
    outcome: FieldPath | None = None
    state: FieldPath | None = None
    parent: tuple[FieldPath, ...] = ()
    sessions: tuple[FieldPath, ...] = ()
    handoff: FieldPath | None = None
    tombstones: Tombstones | None = None

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [area.name for area in self.areas]
        if len(set(names)) < len(names):
            raise ValueError("two areas have the same name")
        return self


class DirectoryUnits(Model):
    """The kinds of units of a directory store."""

    directory: Directories
    result: Results | None = None


class DirectoryDetect(Model):
    """How to tell this engine's store: what is in it. ``entries`` are patterns that must all be there.

    ``places`` are folders that the engine makes its store unless it is told otherwise.
    """

    entries: tuple[Pattern, ...] = Field(min_length=1)
    places: tuple[Place, ...] = ()


class DirectoryProfile(Model):
    """The description of one engine's directory store; ``layout`` is the version it was read from."""

    name: Word
    engine: str = Field(max_length=80)
    layout: str = Field(default="", max_length=40)
    own_retention: str = Field(default="", max_length=400)
    notes: tuple[Annotated[str, StringConstraints(max_length=400)], ...] = ()
    lock: EngineLock | None = None
    detect: DirectoryDetect
    units: DirectoryUnits

    @model_validator(mode="after")
    def _knows_states(self) -> Self:
        result = self.units.result
        if result is not None and result.state is not None and self.units.directory.status is None:
            raise ValueError("the state of a result is a word of the status file, and there is none")
        return self
