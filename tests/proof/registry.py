"""A registry in one thread, written for the tests of the checker: it makes histories that are legal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

READ_ONLY = "READONLY"
Line = dict[str, Any]


class Registry:
    """Executes operations at once, and returns each with its answer as a line of a history, without times."""

    def __init__(self) -> None:
        # Of every record: its subject, its event, and the rows of the subject after it.
        self.log: list[tuple[str, Line, Line]] = []
        self.ids: dict[str, int] = {}

    def rows(self, subject: str, end: int | None = None) -> Line:
        """Return versions, config and mode of a subject, after the records before ``end``."""
        found = [rows for name, _, rows in self.log[:end] if name == subject]
        return found[-1] if found else {"versions": {}, "live": set(), "config": None, "mode": None}

    def write(self, op: str, subject: str, argument: str = "") -> Line:
        line = {"op": op, "subject": subject}
        rows = self.rows(subject)
        match op:
            case "register":
                line |= {"schema": argument, "outcome": "ok"}
                return self._register(line, rows)
            case "set-config" | "set-mode":
                line["value"] = argument
        name = op.rpartition("-")[2]
        # What is not there is missed before the mode is looked at.
        is_there = {"delete": bool(rows["live"]), "delete-config": rows["config"] is not None}.get(op, True)
        if rows["mode"] == READ_ONLY and name != "mode" and is_there:
            return line | {"outcome": "refused", "code": 42205}
        match op:
            case "delete":
                live = sorted(rows["live"])
                if not live:
                    return line | {"outcome": "refused", "code": 40404 if rows["versions"] else 40401}
                event = {"kind": "subject_soft_deleted", "version": max(rows["versions"])}
                self._append(subject, event, rows | {"live": set()})
                line["versions"] = live
            case "set-config" | "set-mode":
                self._append(subject, {"kind": f"{name}_set", "value": argument}, rows | {name: argument})
            case _ if rows[name] is None:
                return line | {"outcome": "refused", "code": 40401}
            case _:
                line["value"] = rows[name]
                self._append(subject, {"kind": f"{name}_deleted"}, rows | {name: None})
        return line | {"outcome": "ok", "offset": len(self.log)}

    def _register(self, line: Line, rows: Line) -> Line:
        subject, schema = line["subject"], line["schema"]
        same = [number for number in rows["live"] if rows["versions"][number] == schema]
        if not same and rows["mode"] == READ_ONLY:
            return line | {"outcome": "refused", "code": 42205}
        schema_id = self.ids.setdefault(schema, len(self.ids) + 1)
        version = same[0] if same else max(rows["versions"], default=0) + 1
        if not same:
            event = {"kind": "version_registered", "version": version, "id": schema_id}
            versions = rows["versions"] | {version: schema}
            self._append(subject, event, rows | {"versions": versions, "live": rows["live"] | {version}})
        return line | {"id": schema_id, "version": version, "offset": len(self.log)}

    def _append(self, subject: str, event: Line, rows: Line) -> None:
        self.log.append((subject, {"offset": len(self.log), **event}, rows))

    def read(self, op: str, subject: str, at: int | None = None) -> Line:
        rows = self.rows(subject, None if at is None else at + 1)
        line = {"op": op, "subject": subject, "outcome": "ok"}
        line |= {"offset": len(self.log)} if at is None else {"at": at}
        match op:
            case "list" if rows["live"]:
                return line | {"versions": sorted(rows["live"])}
            case "latest" if rows["live"]:
                version = max(rows["live"])
                schema = rows["versions"][version]
                return line | {"version": version, "schema": schema, "id": self.ids[schema]}
            case "config" | "mode" if rows[op] is not None:
                return line | {"value": rows[op]}
        return line | {"outcome": "missing"}

    def by_id(self, subject: str, schema: str) -> Line:
        line = {"op": "by-id", "subject": subject, "id": self.ids[schema]}
        return line | {"outcome": "ok", "schema": schema}

    def feed(self, subject: str, after: int) -> Line:
        events = [event for name, event, _ in self.log[after + 1 :] if name == subject]
        line = {"op": "feed", "subject": subject, "outcome": "ok", "after": after, "events": events}
        return line | {"next": len(self.log) - 1}


def sequential(lines: Iterable[Line]) -> list[Line]:
    """Return the operations, one after another."""
    return [line | {"began": 10 * number, "ended": 10 * number + 5} for number, line in enumerate(lines)]
