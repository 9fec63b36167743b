"""The folder of recordings: one file per session, for its owner's eyes only, bounded in size, number and age."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from duplex.config import ConfigError, RecordingSettings
from duplex.telemetry.recording.layout import SUFFIX
from duplex.units import ns_from_seconds

_DAY_S: Final = 86_400
_OTHERS: Final = 0o077
_BLOCK_BYTES: Final = 64
"""What a flush and the end of a gzip stream take, generously."""


class RecordingFile:
    """One recording while it is written. Every method raises OSError when the disk does.

    Args:
        path: does not exist yet.
        bytes_max: bound on the file, compressed.
        reserve: bytes of it that only `last` may take.
    """

    def __init__(self, path: Path, bytes_max: int, reserve: int) -> None:
        self.path = path
        self._bytes_max = bytes_max - reserve
        self._raw = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._gzip = gzip.GzipFile(filename="", fileobj=self._raw, mode="wb", compresslevel=6, mtime=0)
        self._unflushed = 0

    def write(self, line: bytes) -> bool:
        """Add a line; False: it might not fit, and nothing was written."""
        if not self._fits(line):
            self.flush()
            if not self._fits(line):
                return False
        self._gzip.write(line)
        self._unflushed += len(line)
        return True

    def _fits(self, line: bytes) -> bool:
        # Text that does not compress takes a little more than itself.
        worst = self._unflushed + len(line)
        return self._raw.tell() + worst + worst // 1000 + _BLOCK_BYTES <= self._bytes_max

    def flush(self) -> None:
        """Hand what was written to the operating system: from here on it outlives the process."""
        if self._unflushed:
            self._gzip.flush(zlib.Z_SYNC_FLUSH)
            self._raw.flush()
            self._unflushed = 0

    def last(self, line: bytes) -> None:
        """Add the last line, and close."""
        self._gzip.write(line)
        self.close()

    def close(self) -> None:
        """Close the file, whatever it holds."""
        try:
            self._gzip.close()
        finally:
            self._raw.close()


class Folder:
    """Where the recordings are.

    Args:
        settings: bounds; `directory` is set.
    Raises:
        ConfigError: others may look into it, or it cannot be made.
    """

    def __init__(self, settings: RecordingSettings) -> None:
        assert settings.directory is not None
        self._settings = settings
        self.path = settings.directory
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = self.path.stat().st_mode
        except OSError as error:
            raise ConfigError(f"recording.directory: {error}") from error
        if mode & _OTHERS:
            raise ConfigError(f"recording.directory: others may look into {self.path}; chmod 700 it")

    def make_room(self, live: Collection[Path], now_unix_ns: int) -> bool:
        """Delete the oldest ended recordings until one more fits; False: those that are being written leave no room.

        Each live one counts as long as it may become.
        """
        settings = self._settings
        self.expire(live, now_unix_ns)
        ended = self._ended(live)
        count = len(live) + len(ended)
        size = len(live) * settings.session_bytes_max + sum(size for _, size, _ in ended)
        for _, length, file in ended:
            if count < settings.files_max and size + settings.session_bytes_max <= settings.total_bytes_max:
                return True
            file.unlink(missing_ok=True)
            count, size = count - 1, size - length
        return count < settings.files_max and size + settings.session_bytes_max <= settings.total_bytes_max

    def expire(self, live: Collection[Path], now_unix_ns: int) -> None:
        """Delete the ended recordings that have been kept long enough."""
        oldest = now_unix_ns - ns_from_seconds(self._settings.keep_days * _DAY_S)
        for changed, _, file in self._ended(live):
            if changed < oldest:
                file.unlink(missing_ok=True)

    def _ended(self, live: Collection[Path]) -> list[tuple[int, int, Path]]:
        """Return (last change, bytes, path) of the recordings that nobody writes, oldest first."""
        found = []
        for file in self.path.glob(f"*{SUFFIX}"):
            if file not in live:
                status = file.stat()
                found.append((status.st_mtime_ns, status.st_size, file))
        return sorted(found)
