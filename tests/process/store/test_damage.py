"""Damaged files: a node refuses to start with a damaged log, and rebuilds a damaged store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from registry.domain.log_format.records import Entry
from registry.log.contract import DamagedLog
from registry.log.embedded import check as log_check
from registry.log.embedded.log import EmbeddedLog
from registry.store import check as store_check
from registry.store.open import open_store

MAP = 256 << 20
PAGE = 4096
MARK = b"a value that is easy to find"


def write_log(path: Path, records: int = 3000, padding: bytes = b"") -> None:
    log = EmbeddedLog(path, map_bytes=MAP)
    for first in range(0, records, 500):
        log.append([Entry(b"key%d" % n, b"%d %s" % (n, MARK) + padding) for n in range(first, first + 500)])
    log.close()


def damage_of(path: Path) -> str:
    with pytest.raises(DamagedLog) as caught:
        EmbeddedLog(path, map_bytes=MAP, advice=lambda: "The store still has it.")
    text = str(caught.value)
    assert text.startswith(f"The log in {path} is damaged: ")
    assert "Restore the folder from a backup" in text
    assert text.endswith("The store still has it.")
    return text


def overwrite(path: Path, at: int, data: bytes) -> None:
    with (path / "data.mdb").open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_flipped_bit_in_a_value_is_named_by_its_offset(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    at = (tmp_path / "log" / "data.mdb").read_bytes().index(b"1234 " + MARK)
    overwrite(tmp_path / "log", at + 9, b"A")
    text = damage_of(tmp_path / "log")
    assert "1 records are missing or unreadable, at offsets 1234." in text


def test_the_log_is_left_as_it_was_found(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    overwrite(tmp_path / "log", 5 * PAGE, b"\xff" * PAGE)
    before = (tmp_path / "log" / "data.mdb").read_bytes()
    damage_of(tmp_path / "log")
    damage_of(tmp_path / "log")
    assert (tmp_path / "log" / "data.mdb").read_bytes() == before


def nothing_left(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2 // PAGE * PAGE)


def cut_within_a_page(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2 // PAGE * PAGE + PAGE // 2)


def broken_meta_pages(file: Path) -> None:
    overwrite(file.parent, 0, b"\xab" * 2 * PAGE)


def random_bytes(file: Path) -> None:
    overwrite(file.parent, 2 * PAGE, b"\x5a\xa5" * (file.stat().st_size // 2 - PAGE))


def another_format(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(
        whole.replace(b"registrar-log 1", b"registrar-log 9").replace(b"registrar-store 1", b"x" * 17)
    )


def missing(file: Path) -> None:
    file.unlink()


Breaking = Callable[[Path], None]
BREAKINGS = [nothing_left, cut, cut_within_a_page, broken_meta_pages, random_bytes, another_format, missing]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("breaking", BREAKINGS)
def test_a_log_that_was_cut_or_overwritten_refuses_to_start(
    tmp_path: Path, breaking: Breaking, large: bool
) -> None:
    """Also if the file is too large for the library's verifier, so that LMDB meets the damage itself."""
    write_log(tmp_path / "log", 20_000 if large else 3000, b"x" * 400 if large else b"")
    assert large == ((tmp_path / "log" / "data.mdb").stat().st_size > 8 << 20)
    breaking(tmp_path / "log" / "data.mdb")
    damage_of(tmp_path / "log")


@pytest.mark.parametrize("page_of_ten", range(10))
def test_any_page_that_is_lost_is_seen(tmp_path: Path, page_of_ten: int) -> None:
    write_log(tmp_path / "log", records=500)
    pages = (tmp_path / "log" / "data.mdb").stat().st_size // PAGE
    log = EmbeddedLog(tmp_path / "log", map_bytes=MAP)
    before = log.read(0, 1 << 20, 1 << 30).records
    log.close()
    overwrite(tmp_path / "log", (2 + page_of_ten * (pages - 2) // 10) * PAGE, b"\0" * PAGE)
    try:
        log = EmbeddedLog(tmp_path / "log", map_bytes=MAP)
    except DamagedLog:
        return
    assert log.read(0, 1 << 20, 1 << 30).records == before, "a page that nothing refers to"
    log.close()


def test_records_that_are_gone_are_named(tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    log = EmbeddedLog(tmp_path / "log", map_bytes=MAP)
    with log._env.begin(log._tables.records, write=True) as txn:
        for offset in (7, 8, 9, 2000, 2999):
            txn.delete(offset.to_bytes(8, "big"))
    log.close()
    text = damage_of(tmp_path / "log")
    assert "it should have 3000 records, but has 2995" in text
    assert "the last record should have offset 2999, but has 2998" in text
    assert "at offsets 7–9, 2000" in text


def test_a_missing_log_of_a_known_store_is_damage_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(DamagedLog, match=r"data\.mdb is missing"):
        EmbeddedLog(tmp_path / "log", must_exist=True)
    assert not (tmp_path / "log").exists()


def test_a_large_log_is_sampled_at_the_start_and_read_wholly_later(tmp_path: Path) -> None:
    records = log_check.FULL_RECORDS_MAX + 50_000
    write_log(tmp_path / "log", records)
    at = (tmp_path / "log" / "data.mdb").read_bytes().index(b"31234 " + MARK)
    overwrite(tmp_path / "log", at + 9, b"A")
    log = EmbeddedLog(tmp_path / "log", map_bytes=MAP)
    with pytest.raises(DamagedLog, match="the record at offset 31234 is unreadable"):
        any(log.verify_step(10_000) for _ in range(100))
    with pytest.raises(DamagedLog, match="the record at offset 31234 is unreadable"):
        log.read(31_000, 1000, 1 << 30)
    log.close()
    at = (tmp_path / "log" / "data.mdb").read_bytes().index(b"%d " % (records - 5) + MARK)
    overwrite(tmp_path / "log", at + 9, b"A")
    assert f"at offsets {records - 5}." in damage_of(tmp_path / "log")


# The store


def write_store(path: Path, rows: int = 2000, padding: bytes = b"") -> None:
    store, _ = open_store(path, "log", 9, map_bytes=MAP, fold=1)
    store.commit([(b"V%06d" % n, b"%d %s" % (n, MARK) + padding) for n in range(rows)], 5)
    store.close()


def assert_made_again(path: Path) -> None:
    store, messages = open_store(path, "log", 9, map_bytes=MAP, fold=1)
    assert len(messages) == 1
    assert messages[0].startswith(f"The store {path / 'store-1'} is damaged: ")
    assert (store.applied, store.path.name) == (0, "store-2")
    store.commit([(b"V", b"again")], 5)
    store.close()
    store, messages = open_store(path, "log", 9, map_bytes=MAP, fold=1)
    assert (store.applied, messages) == (5, [])
    store.close()


def test_a_flipped_bit_in_a_row_is_found_by_the_digest(tmp_path: Path) -> None:
    write_store(tmp_path / "store")
    file = tmp_path / "store" / "store-1" / "data.mdb"
    overwrite(file.parent, file.read_bytes().index(b"1234 " + MARK) + 9, b"A")
    assert_made_again(tmp_path / "store")


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("breaking", BREAKINGS)
def test_a_store_that_was_cut_or_overwritten_is_made_again(
    tmp_path: Path, breaking: Breaking, large: bool
) -> None:
    write_store(tmp_path / "store", 20_000 if large else 2000, b"x" * 400 if large else b"")
    file = tmp_path / "store" / "store-1" / "data.mdb"
    assert large == (file.stat().st_size > 8 << 20)
    breaking(file)
    assert_made_again(tmp_path / "store")


def test_a_large_store_that_was_cut_is_made_again(tmp_path: Path) -> None:
    """Too large for its digest to be computed at the start, so the missing pages have to be read."""
    write_store(tmp_path / "store", rows=store_check.FULL_ROWS_MAX + 20_000)
    cut(tmp_path / "store" / "store-1" / "data.mdb")
    assert_made_again(tmp_path / "store")


def test_a_large_store_that_is_whole_is_kept(tmp_path: Path) -> None:
    write_store(tmp_path / "store", rows=store_check.FULL_ROWS_MAX + 20_000)
    store, messages = open_store(tmp_path / "store", "log", 9, map_bytes=MAP, fold=1)
    assert (store.applied, messages) == (5, [])
    store.close()


def test_a_missing_folder_is_made_again(tmp_path: Path) -> None:
    write_store(tmp_path / "store")
    (tmp_path / "store" / "store-1").rename(tmp_path / "elsewhere")
    store, messages = open_store(tmp_path / "store", "log", 9, map_bytes=MAP, fold=1)
    assert "data.mdb is missing" in messages[0]
    assert store.applied == 0
    store.close()


@pytest.mark.parametrize("content", [None, b"", b"\xff\x00", b"store-1"])
def test_a_store_that_is_named_by_nothing_is_made_again_aloud(tmp_path: Path, content: bytes | None) -> None:
    write_store(tmp_path / "store")
    current = tmp_path / "store" / "current"
    current.unlink() if content is None else current.write_bytes(content)
    store, messages = open_store(tmp_path / "store", "log", 9, map_bytes=MAP, fold=1)
    assert len(messages) == 1
    assert "does not name the current store" in messages[0]
    assert messages[0].endswith("The rows are rebuilt from the log.")
    assert store.applied == 0
    store.close()
