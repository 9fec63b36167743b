"""Server-sent events: bytes in any chunking in, the data of whole events out. Pure.

Source: WHATWG HTML, "Server-sent events", parsing an event stream. Lines end in LF or CRLF (a lone CR, which no server of
this kind writes, does not end one); event names, ids and retry times are left out, because nobody here needs them.
"""

from __future__ import annotations

from duplex.engines import EngineError

_BYTES_MAX = 1024 * 1024


class SseReader:
    """Reads one stream.

    Args:
        bytes_max: bound on one line and on the data of one event.
    """

    def __init__(self, bytes_max: int = _BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[str]:
        """Take the next bytes and return the data of the events that they complete, oldest first.

        Raises:
            EngineError: a line or an event is longer than the bound.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        events: list[str] = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line:
                self._take(line)
            elif self._data:
                events.append(b"\n".join(self._data).decode("utf-8", "replace"))
                self._data, self._size = [], 0
        if len(self._rest) > self._bytes_max:
            raise EngineError(f"a line of the event stream is longer than {self._bytes_max} bytes")
        return events

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name != b"data":  # a comment (empty name), or a field that is not needed
            return
        value = value.removeprefix(b" ")
        self._size += len(value)
        if self._size > self._bytes_max:
            raise EngineError(f"an event of the stream is longer than {self._bytes_max} bytes")
        self._data.append(value)
