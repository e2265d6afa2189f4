"""A collector of traces as a real process: OTLP as protobuf over HTTP, written down span by span."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Received

from deploy.local.process import Process, free_port, listens
from tests.support.running import ROOT, until

KIND = "application/x-protobuf"


class Span(NamedTuple):
    """A span as it arrived; ids are hexadecimal."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str  # empty: none
    began: int  # ns since the epoch
    ended: int
    failed: bool
    attributes: dict[str, Any]
    process: dict[str, Any]  # the resource that sent it


class TraceCollector(Process):
    """Receives traces at ``url``, the value of OTEL_EXPORTER_OTLP_ENDPOINT."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment_of_senders = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50",
        }  # fmt: skip
        self._file = folder / "spans.jsonl"
        self._file.touch()
        super().__init__(
            f"the collector on {self.port}",
            [sys.executable, "-m", "tests.support.trace_collector", str(self._file), str(self.port)],
            folder / "output.txt",
        )
        self.environment = {"PYTHONPATH": str(ROOT)}

    def ready(self) -> bool:
        return listens(self.port)

    def spans(self, trace: str = "") -> list[Span]:
        """Return the spans of a trace, or all, in the order in which they began."""
        lines = self._file.read_text().splitlines(keepends=True)
        found = [Span(**json.loads(line)) for line in lines if line.endswith("\n")]
        return sorted((each for each in found if trace in ("", each.trace)), key=lambda each: each.began)

    def named(self, trace: str, names: Sequence[str]) -> dict[str, list[Span]]:
        """Return the spans of a trace by name, as soon as all of ``names`` have arrived."""

        def arrived() -> list[Span] | None:
            found = self.spans(trace)
            left = [each.name for each in found]
            for name in names:
                if name not in left:
                    return None
                left.remove(name)
            return found

        try:
            spans = until(arrived, 30, f"the spans {names} of {trace}")
        except AssertionError as error:
            raise AssertionError(f"{error}; there are {self.spans(trace)}") from None
        return {name: [each for each in spans if each.name == name] for name in {each.name for each in spans}}

    def __enter__(self) -> Self:
        return self.start().wait()


class _Handler(BaseHTTPRequestHandler):
    file: Path

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", KIND)
        spans = _spans(ExportTraceServiceRequest.FromString(body))
        lines = [json.dumps(each._asdict()) + "\n" for each in spans]
        with self.file.open("a") as file:
            file.write("".join(lines))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", KIND)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def _spans(request: ExportTraceServiceRequest) -> list[Span]:
    return [
        Span(
            each.name,
            Received.SpanKind.Name(each.kind).removeprefix("SPAN_KIND_"),
            each.trace_id.hex(),
            each.span_id.hex(),
            each.parent_span_id.hex(),
            each.start_time_unix_nano,
            each.end_time_unix_nano,
            each.status.code == 2,
            _plain(each.attributes),
            _plain(sent.resource.attributes),
        )
        for sent in request.resource_spans
        for scope in sent.scope_spans
        for each in scope.spans
    ]


def _plain(attributes: Sequence[KeyValue]) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def main() -> None:
    """Serve until it is ended."""
    _Handler.file = Path(sys.argv[1])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), _Handler).serve_forever()


if __name__ == "__main__":
    main()
