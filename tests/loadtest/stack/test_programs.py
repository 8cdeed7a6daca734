"""Which programs serve as etcd and Redis."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from loadtest.stack import programs


def fake_etcd(directory: Path, version: str) -> Path:
    """A program that only knows its version."""
    program = directory / "etcd"
    program.write_text(f"#!/bin/sh\necho 'etcd Version: {version}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.parametrize(
    ("version", "has_wheel", "is_taken"), [("99.0.0", True, True), ("3.4.23", True, False), ("3.4.23", False, True)]
)
def test_newer_etcd_on_path_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, has_wheel: bool, is_taken: bool
) -> None:
    """An etcd on PATH serves if it is newer than the wheel's, or if there is no wheel."""
    program = fake_etcd(tmp_path, version)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if not has_wheel:
        monkeypatch.setattr(programs, "_in_wheel", lambda *_: None)
    assert (programs.etcd.__wrapped__() == program) is is_taken


@pytest.mark.parametrize(
    ("version", "is_told"), [("3.4.23", False), ("3.5.1", True), ("3.5.2", True), ("3.5.3", False), ("3.6.14", False)]
)
def test_an_etcd_that_may_damage_its_data_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_told: bool
) -> None:
    """The versions from 3.5.0 to 3.5.2 lose consistency when they are killed: one line says which one is used."""
    program = fake_etcd(tmp_path, version)
    monkeypatch.setattr(programs, "etcd", lambda: program)
    assert programs.etcd_warning().startswith(f"etcd {version} may damage its data") is is_told


@pytest.mark.parametrize("program", [programs.etcd, programs.redis])
def test_missing_program_tells_what_to_install(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With neither a wheel nor a program on PATH, one line names the package and the Docker way."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_in_wheel", lambda *_: None)
    with pytest.raises(programs.ProgramMissing, match=r"^.* apt install \S+, or brew .* docker compose up$"):
        program.__wrapped__()
