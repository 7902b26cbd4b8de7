"""Server-sent events: lines of a stream to events."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EventReader", "ServerEvent"]


@dataclass(frozen=True)
class ServerEvent:
    """An event.

    Attributes:
        id: Its id, by which a stream continues; empty if it has none.
        name: Its name: `job`, `consortium`.
        data: Its data: JSON.
    """

    id: str
    name: str
    data: str


class EventReader:
    """Assembles events from lines (WHATWG HTML, section 9.2.6). Comments and unknown fields are skipped."""

    def __init__(self) -> None:
        self._id = ""
        self._name = ""
        self._data: list[str] = []

    def feed(self, line: str) -> ServerEvent | None:
        """Takes a line without its end; returns the event that an empty line completes."""
        if not line:
            data, name = self._data, self._name
            self._data, self._name = [], ""
            return ServerEvent(self._id, name or "message", "\n".join(data)) if data else None
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self._id = value
        return None
