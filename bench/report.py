"""Run the benchmarks and write their output into RESULTS.md and GROWTH.md, with machine, date and commit.

    python bench/report.py [--only load,cluster] [--revision REV] [--brief] [--folder bench]

Each benchmark replaces the section of its page between ``<!-- report: NAME -->`` and ``<!-- end -->`` as soon
as it has ended, so an interrupted run keeps what it measured. A benchmark that fails, or takes longer than
``SECTION_S``, leaves its section unchanged, and the exit code is 1; one that ends with a verdict, that
something became dearer or grows too fast, has not failed. Each section starts from a clean state: an empty
temporary folder, no process of another section, nothing left to write to disk.

``--revision`` is what the section "revisions" compares with (bench/ab.py). ``--brief`` runs each with the
smallest numbers, to try the command out: give it another ``--folder`` with copies of the pages, because such
figures mean nothing. At the end it names the figures of the README that are to be replaced.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.process_costs import Processes  # noqa: E402

README = ROOT / "README.md"
PAGES = ("RESULTS.md", "GROWTH.md")
# A section that takes longer hangs.
SECTION_S = 900.0
_PR_SET_CHILD_SUBREAPER = 36


class Section(NamedTuple):
    """A section of a page: the benchmarks that fill it, as scripts with arguments."""

    runs: tuple[str, ...]
    # The same with the smallest numbers.
    brief: tuple[str, ...]
    # What a benchmark prints that gives a verdict: its exit code then says no more than that.
    verdict: str = ""
    # True if the page has only the verdict, because the rest is drawn.
    drawn: bool = False


# Sizes and rounds are such that all of them take about 25 minutes on two cores. What two benchmarks measure
# is left to one of them: builds by Spark to "builds", the start over a long topic to "start".
SECTIONS = {
    "load": Section(("load.py --seconds 3",), ("load.py --schemas 500 --seconds 1 --rounds 1",)),
    "revisions": Section(
        ("ab.py --revision={revision} --rounds 3",),
        ("ab.py --revision={revision} --rounds 1 --seconds 1 --schemas 50 --only=by",),
        verdict=r"^(no count has risen|dearer: )",
    ),
    "readers": Section(
        ("readers.py --seconds 2 --rounds 2",), ("readers.py --schemas 100 --seconds 1 --rounds 1",)
    ),
    "askers": Section(("askers.py --seconds 40",), ("askers.py --schemas 100 --seconds 1",)),
    "security": Section(("security.py",), ("security.py --seconds 1 --rounds 1",)),
    "cluster": Section(
        ("cluster.py --seconds 3 --records 0",), ("cluster.py --seconds 1 --rounds 1 --records 0",)
    ),
    "start": Section(
        ("start.py --sizes 10000,100000,400000,1300000",),
        ("start.py --sizes 1000,2000 --embedded --chart {folder}/start.svg",),
    ),
    "builds": Section(("build_costs.py",), ("build_costs.py --sizes 1000,4000",)),
    "deltas": Section(("deltas.py",), ("deltas.py --schemas 2000 --records 100",)),
    "fold": Section(
        (
            "fold.py --records 400000 --cores 1",
            "fold.py --records 400000",
            "fold.py --records 400000 --kafka",
        ),
        ("fold.py --records 2000 --cores 1",),
    ),
    "formats": Section(("formats.py --seconds 2 --cluster",), ("formats.py --seconds 1 --readers 1",)),
    "growth": Section(
        ("growth.py --schemas 100000,1000000 --subjects 1000,100000 --versions= --seconds 20",),
        ("growth.py --schemas 200 --subjects 1 --versions 1 --requests 2 --seconds 1 --charts {folder}",),
        verdict=r"^(Grows|Nothing grows) faster than its work",
        drawn=True,
    ),
    "lists": Section(("lists.py --sizes 300000",), ("lists.py --sizes 30000",)),
    "past": Section(("past.py",), ("past.py --records 2000",)),
    "versions": Section(
        ("versions.py --versions 1 1000 5000 --requests 20",), ("versions.py --versions 1 20 --requests 2",)
    ),
    "lone-write": Section(
        ("write_profile.py", "lone_write.py"),
        ("write_profile.py --seconds 1 --chart {folder}/write-profile.svg", "lone_write.py --writes 10"),
    ),
    "large-writes": Section(
        ("large_writes.py --large 60", "large_writes.py --large 60 --kafka"),
        ("large_writes.py --large 2 --bytes 100000",),
    ),
    "hostile": Section(("hostile.py",), ("hostile.py --seconds 1 --only trailer",)),
}


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--brief", action="store_true", help="try the command out")
    parser.add_argument("--folder", type=Path, default=ROOT / "bench", help="of the pages and pictures")
    parser.add_argument("--revision", default="", help="what this one is compared with")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := [name for name in names if name not in SECTIONS]:
        parser.error(f"unknown sections: {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # The benchmark that runs is ended too.
    began, failed = time.monotonic(), []
    for number, name in enumerate(names, 1):
        print(f"\n[{number}/{len(names)}] {name}, after {_minutes(began)}", flush=True)
        section_began = time.monotonic()
        if not _fill(name, given):
            failed.append(name)
        print(f"{name}: {_minutes(section_began)}{' and failed' * (name in failed)}", flush=True)
    print(f"all: {_minutes(began)}")
    if failed:
        print(f"failed, and left as before: {', '.join(failed)}")
    measured = (given.folder / PAGES[0]).read_text(encoding="utf-8")
    if outdated := outdated_figures(README.read_text(encoding="utf-8"), measured):
        print(f"README.md has figures that {PAGES[0]} no longer has: {'; '.join(outdated)}")
    return 1 if failed else 0


def _minutes(began: float) -> str:
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    return f"{minutes}:{seconds:02} min"


def readme_figures(readme: str) -> set[str]:
    """Return the rates and times of the README's table of measurements."""
    rows = [line for line in readme.splitlines() if re.match(r"\| (schemas|new|start)", line)]
    return {each for row in rows for each in re.findall(r"[\d,.]+(?= s|/s)", row)}


def outdated_figures(readme: str, page: str) -> list[str]:
    """Return the figures of the README that the page of measurements does not have."""
    page = page.replace(",", "")
    return [each for each in sorted(readme_figures(readme)) if each.replace(",", "") not in page]


def _fill(name: str, given: argparse.Namespace) -> bool:
    section = SECTIONS[name]
    provenance = _provenance()
    output = []
    for run in section.brief if given.brief else section.runs:
        command = run.format(folder=given.folder.resolve(), revision=given.revision)
        print(command, flush=True)
        with _clean_state() as environment:
            status, said = _run(command, environment)
        verdict = section.verdict and re.search(section.verdict, said, re.MULTILINE)
        if status and not verdict:
            return False
        output.append(as_markdown(said[verdict.start() :] if section.drawn and verdict else said))
    page = page_of(name, given.folder)
    page.write_text(
        replace_section(page.read_text(encoding="utf-8"), name, "\n\n".join([provenance, *output])),
        encoding="utf-8",
    )
    return True


def page_of(section: str, folder: Path) -> Path:
    """Return the page in ``folder`` that has a section. Raises ``StopIteration`` if none has."""
    pages = (folder / name for name in PAGES)
    return next(page for page in pages if f"<!-- report: {section} -->" in page.read_text(encoding="utf-8"))


@contextmanager
def _clean_state() -> Iterator[dict[str, str]]:
    """Yield the environment of a benchmark; afterwards end the processes and remove the files it left."""
    os.sync()
    with tempfile.TemporaryDirectory(prefix="report-", ignore_cleanup_errors=True) as folder:
        try:
            yield {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": folder}
        finally:
            _end_descendants()


def _run(command: str, environment: dict[str, str]) -> tuple[int, str]:
    """Run a benchmark and print its output as it comes; return its exit code and output."""
    script, *arguments = command.split()
    words = [sys.executable, "-u", str(ROOT / "bench" / script), *arguments]
    lines = []
    with subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        late = threading.Timer(SECTION_S, _kill_descendants)
        late.start()
        try:
            for line in running.stdout:
                print(line, end="", flush=True)
                lines.append(line)
        except BaseException:
            running.kill()
            raise
        finally:
            late.cancel()
    return running.returncode, "".join(lines)


def _kill_descendants() -> int:
    """Kill all that run below this process, also where their own parent has ended; return their number."""
    pids = Processes(os.getpid()).pids[1:]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def _end_descendants() -> None:
    while _kill_descendants():
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def as_markdown(output: str) -> str:
    """Return what a benchmark printed: tables as they are, everything else as text in fences."""
    blocks: list[tuple[bool, list[str]]] = []
    for line in output.strip().splitlines():
        is_table = line.startswith("|")
        if not blocks or blocks[-1][0] != is_table:
            blocks.append((is_table, []))
        blocks[-1][1].append(line.rstrip())
    texts = ((is_table, "\n".join(lines).strip("\n")) for is_table, lines in blocks)
    return "\n\n".join(text if is_table else f"```\n{text}\n```" for is_table, text in texts if text)


def replace_section(page: str, name: str, content: str) -> str:
    """Return the page with a section's content replaced. Raises ``ValueError`` if it is missing."""
    found = re.search(rf"(<!-- report: {re.escape(name)} -->\n).*?(?=<!-- end -->)", page, re.DOTALL)
    if found is None:
        raise ValueError(f"the page has no section {name}")
    return f"{page[: found.start()]}{found[1]}{content}\n{page[found.end() :]}"


def _provenance() -> str:
    """Return a line about when and where a run takes place."""
    what = ("--", ".", ":!bench/*.md", ":!bench/*.svg")  # Not what this command writes.
    changed = " with local changes" if _git("status", "--porcelain", *what) else ""
    commit = _git("rev-parse", "--short", "HEAD") + changed
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return (
        f"{dt.datetime.now(dt.UTC).date()}, commit {commit}: {len(os.sched_getaffinity(0))} cores of "
        f"{cpu[1] if cpu else platform.machine()}, {platform.system()}, "
        f"{platform.python_implementation()} {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f} before."
    )


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", ROOT, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
