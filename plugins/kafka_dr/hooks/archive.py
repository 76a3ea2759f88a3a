"""Reads and writes the flight recorder's archive: Parquet files by kind of rows and hour, through fsspec.

The kind of a file's rows is the name of a folder, for example `samples`. In this folder each hour has a folder.

Invariants
1. A file exists as a whole or not at all: on a file system it is renamed from a temporary name, on an object store it
   is put in one request.
2. No file is changed in place. A merged file names the files that it was made from, so that a crash between writing it
   and deleting these files neither loses nor doubles a row.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_dr.errors import ArchiveUnavailable
from kafka_dr.hooks.private_files import private_file, private_folder

_T = TypeVar("_T")
_MADE_FROM = b"switchback.made_from"
_TEMPORARY_PREFIX = ".writing-"
_HOUR = "%Y-%m-%d/%H"
#: Attempts of a read, as files may be merged or deleted between listing and reading them.
_READ_ATTEMPTS = 3


class Archive:
    """The archive of one flow. Hours are in UTC; a row's column `at` has its time in milliseconds since 1970."""

    def __init__(self, uri: str, flow: str, options: Mapping[str, Any] | None = None) -> None:
        """Open a flow's folder; no file is read or written yet.

        Args:
            uri: a folder or bucket, such as `file:///var/lib/switchback/archive` or `s3://bucket/prefix`.
            flow: the flow's name; the folder below `uri` with this name holds the flow's files.
            options: fsspec's options for the file system, such as credentials; never shown.
        """
        with self._border("opening", uri):
            self._fs, root = fsspec.core.url_to_fs(uri, **(options or {}))
        self._root = f"{root.rstrip('/')}/{flow}"
        self._is_local = "file" in _protocols(self._fs)

    def write(self, kind: str, rows: pa.Table, at: datetime, mark: str | None = None) -> str:
        """Store rows of one kind as a new file in the hour of `at`; return the file's path within the flow's folder.

        Args:
            mark: end of the file's name, by which a second write after an unknown result writes the same file again;
                None for a random one.
        """
        at = at.astimezone(UTC)
        time_of_day = f"{at:%H%M%S.%f}"
        name = f"{kind}/{at:{_HOUR}}/{time_of_day}-{mark or uuid.uuid4().hex[:8]}.parquet"
        self._put(name, rows, time_of_day)
        return name

    def read(
        self, kind: str, since: datetime | None = None, until: datetime | None = None, columns: list[str] | None = None
    ) -> pa.Table | None:
        """Return all rows of one kind, from the hour of `since` to the hour of `until`, both hours included.

        Args:
            since: a time in the first hour; None for the archive's first hour.
            until: a time in the last hour; None for the archive's last hour.
            columns: names of the columns to read; None for all columns.

        Returns:
            The rows of all files; None if these hours have no files.
        """
        return _repeat_if_gone(lambda: self._read(kind, since, until, columns))

    def back(self, kind: str, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of each hour, newest hour first; an older hour is read only when the caller asks for it.

        Args:
            kind: the kind of rows.
            columns: names of the columns to read; None for all columns.
        """
        for hour in self.hours(kind):
            at = datetime.strptime(hour, _HOUR).replace(tzinfo=UTC)
            rows = self.read(kind, at, at, columns)
            if rows is not None:
                yield rows

    def hours(self, kind: str) -> Iterator[str]:
        """Yield the hours that have a folder of one kind, such as `2026-11-25/09`, newest first."""
        with self._border("listing", kind):
            days = sorted(self._names(f"{self._root}/{kind}"), reverse=True)
        for day in days:
            with self._border("listing", f"{kind}/{day}"):
                hours = sorted(self._names(f"{self._root}/{kind}/{day}"), reverse=True)
            yield from (hour for name in hours if _is_hour(hour := f"{day}/{name}"))

    def newest(self, kind: str) -> datetime | None:
        """Return the time in the name of the newest file of one kind; None without files.

        Of an hour with merged files only, its last second is returned.
        """
        newest = self._newest_file(kind)
        if newest is None:
            return None
        hour, name = newest.removeprefix(f"{kind}/").rpartition("/")[::2]
        text = f"{hour[:10]}T{name.partition('-')[0]}" if name[0].isdigit() else f"{hour.replace('/', 'T')}5959.0"
        return datetime.strptime(text, "%Y-%m-%dT%H%M%S.%f").replace(tzinfo=UTC)

    def newest_rows(self, kind: str, columns: list[str]) -> pa.Table | None:
        """Return the rows of the newest file of one kind; None without files."""

        def read() -> pa.Table | None:
            newest = self._newest_file(kind)
            return None if newest is None else self._get(newest, columns)

        return _repeat_if_gone(read)

    def _newest_file(self, kind: str) -> str | None:
        """Return the path of the newest file within the flow's folder: of an hour, a single sample if there is one."""
        for hour in self.hours(kind):
            names = self.names(kind, hour)
            single = [name for name in names if name.rpartition("/")[2][0].isdigit()]
            if names:
                return max(single or names)
        return None

    def files(self, kind: str, hour: str) -> dict[str, pa.Table | None]:
        """Return the rows of each file of an hour, with the file's metadata, by path within the flow's folder.

        None stands for a file that is no Parquet file.
        """
        return _repeat_if_gone(lambda: {name: self._parsed(name) for name in self.names(kind, hour)})

    def replace(self, names: Iterable[str], rows: pa.Table) -> None:
        """Write rows as one merged file beside the files `names` of one hour, then delete these files."""
        hour, merged = next(iter(names)).rpartition("/")[0], f"merged-{uuid.uuid4().hex[:8]}"
        source_files = json.dumps(sorted(name.rsplit("/", 1)[-1] for name in names))
        metadata = {**(rows.schema.metadata or {}), _MADE_FROM: source_files}
        self._put(f"{hour}/{merged}.parquet", rows.replace_schema_metadata(metadata), merged)
        self.delete(names)

    def merge(self, before: datetime) -> int:
        """Merge the files of each kind and hour into one file; return how many files were merged.

        Args:
            before: only hours that had ended by this time are merged.
        """
        merged = 0
        for kind in self.kinds():
            for _, names in self._hours(kind, None, before.astimezone(UTC) - timedelta(hours=1)):
                merged += self._merge_hour(kind, names)
        return merged

    def expire(self, before: datetime) -> int:
        """Delete all files of old hours, temporary files too; return how many files were deleted.

        Args:
            before: only hours that had ended by this time are deleted.
        """
        expired = [
            n
            for kind in self.kinds()
            for _, names in self._hours(kind, None, before.astimezone(UTC) - timedelta(hours=1), unfinished=True)
            for n in names
        ]
        self.delete(expired)
        return len(expired)

    def kinds(self) -> list[str]:
        """Return the kinds of rows that have files, sorted."""
        with self._border("listing", self._root):
            return sorted(self._names(self._root))

    # -- hours and files ---------------------------------------------------------------------------------------------

    def _hours(
        self, kind: str, since: datetime | None, until: datetime | None, unfinished: bool = False
    ) -> Iterator[tuple[str, list[str]]]:
        """Yield each hour (`YYYY-MM-DD/HH`) of one kind with the names of its files, oldest hour first.

        Args:
            kind: the kind of rows.
            since: a time in the first hour; None for the archive's first hour.
            until: a time in the last hour; None for the archive's last hour.
            unfinished: whether the names of temporary files, which a killed writer leaves, are among the names.
        """
        first = since.astimezone(UTC).strftime(_HOUR) if since else ""
        last = until.astimezone(UTC).strftime(_HOUR) if until else "9"
        with self._border("listing", kind):
            days = sorted(self._names(f"{self._root}/{kind}"))
            hours = [
                f"{day}/{hour}"
                for day in days
                if first[:10] <= day <= last[:10]
                for hour in sorted(self._names(f"{self._root}/{kind}/{day}"))
            ]
        for hour in hours:
            if first <= hour <= last:
                yield hour, self.names(kind, hour, unfinished)

    def names(self, kind: str, hour: str, unfinished: bool = False) -> list[str]:
        """Return the paths of an hour's files within the flow's folder, sorted.

        Args:
            hour: such as `2026-11-25/09`.
            unfinished: whether temporary files, which a killed writer leaves, are among them.
        """
        with self._border("listing", f"{kind}/{hour}"):
            files = sorted(self._names(f"{self._root}/{kind}/{hour}"))
        return [
            f"{kind}/{hour}/{name}"
            for name in files
            if name.endswith(".parquet") and (unfinished or not name.startswith(_TEMPORARY_PREFIX))
        ]

    def _names(self, path: str) -> list[str]:
        """Return the names in a folder, [] if the folder does not exist; fsspec's cache is not used."""
        self._fs.invalidate_cache(path)
        try:
            return [path.rsplit("/", 1)[-1] for path in self._fs.ls(path, detail=False)]
        except FileNotFoundError:
            return []

    def _read(
        self, kind: str, since: datetime | None, until: datetime | None, columns: list[str] | None
    ) -> pa.Table | None:
        files = [name for hour, names in self._hours(kind, since, until) for name in self._valid(names)]
        tables = [self._get(name, columns) for name in files]
        return (
            pa.concat_tables([t.replace_schema_metadata(None) for t in tables], promote_options="default")
            if tables
            else None
        )

    def _valid(self, names: list[str]) -> list[str]:
        """Return an hour's file names, leaving out files whose rows are in a merged file."""
        replaced = {name for merged in names if "/merged-" in merged for name in self._source_files(merged)}
        return [name for name in names if name.rsplit("/", 1)[-1] not in replaced]

    def _merge_hour(self, kind: str, names: list[str]) -> int:
        valid = self._valid(names)
        if len(valid) > 1:
            rows = pa.concat_tables(
                [self._get(name).replace_schema_metadata(None) for name in valid], promote_options="default"
            )
            self.replace(names, rows)
            return len(valid)
        # An interrupted merge left files behind: the merged file has their rows, so they are deleted.
        self.delete([name for name in names if name not in valid])
        return 0

    def _source_files(self, name: str) -> list[str]:
        with self._border("reading", name), self._fs.open(f"{self._root}/{name}", "rb") as file:
            source_files: list[str] = json.loads((pq.read_schema(file).metadata or {}).get(_MADE_FROM, b"[]"))
            return source_files

    # -- one file ------------------------------------------------------------------------------------------------------

    def _put(self, name: str, rows: pa.Table, label: str) -> None:
        """Write rows as one Parquet file, which exists as a whole or not at all.

        Args:
            name: the file's path within the flow's folder.
            rows: the rows to write.
            label: part of the temporary file's name on a file system. A second write with the same label in the same
                folder overwrites the temporary file of the first write.
        """
        path, sink = f"{self._root}/{name}", io.BytesIO()
        pq.write_table(rows, sink, compression="zstd")
        folder = path.rpartition("/")[0]
        temporary_path = f"{folder}/{_TEMPORARY_PREFIX}{label}.parquet"
        with self._border("writing", name):
            if not self._is_local:
                self._fs.pipe_file(path, sink.getvalue())
                return
            private_folder(Path(folder))
            self._fs.pipe_file(str(private_file(Path(temporary_path))), sink.getvalue())
            self._fs.mv(temporary_path, path)

    def _get(self, name: str, columns: list[str] | None = None) -> pa.Table:
        with self._border("reading", name):
            return pq.read_table(io.BytesIO(self._fs.cat_file(f"{self._root}/{name}")), columns=columns)

    def _parsed(self, name: str) -> pa.Table | None:
        with self._border("reading", name):
            content = io.BytesIO(self._fs.cat_file(f"{self._root}/{name}"))
        try:
            return pq.read_table(content)
        except (pa.ArrowException, OSError):
            return None

    def delete(self, names: Iterable[str]) -> None:
        """Delete files, by their paths within the flow's folder."""
        with self._border("deleting", self._root):
            for name in names:
                self._fs.rm_file(f"{self._root}/{name}")

    @contextmanager
    def _border(self, what: str, where: str) -> Iterator[None]:
        """Inside this context, turn every error into ArchiveUnavailable, whose text never shows the options."""
        try:
            yield
        except Exception as error:
            raise ArchiveUnavailable(
                f"{what} in the archive failed",
                f"{where}: {type(error).__name__}",
                "Make sure that the machine where this task or the recorder ran reaches the file system or bucket under"
                " `recorder` in the topology, that this file system or bucket has room, and that it accepts the"
                " credentials of its Airflow connection.",
            ) from error


def local_folder(uri: str) -> Path | None:
    """Return the folder in which an archive on a file system is; None for an object store."""
    is_local = fsspec.utils.get_protocol(uri) in ("file", "local")
    return Path(fsspec.core.strip_protocol(uri)) if is_local else None


def _repeat_if_gone(read: Callable[[], _T]) -> _T:
    """Call `read`; again if a listed file was gone: its rows are now in a merged file, or have expired."""
    for _ in range(_READ_ATTEMPTS - 1):
        try:
            return read()
        except ArchiveUnavailable as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
    return read()


def _is_hour(folder: str) -> bool:
    try:
        return datetime.strptime(folder, _HOUR).replace(tzinfo=UTC).strftime(_HOUR) == folder
    except ValueError:
        return False


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
