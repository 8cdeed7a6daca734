"""Where reports are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.reports import new_report, point_latest


def test_every_report_has_a_directory_of_its_own(tmp_path: Path) -> None:
    """Reports of the same second do not overwrite each other."""
    directories = {new_report(tmp_path / "reports") for _ in range(5)}
    assert len(directories) == 5
    assert all(directory.is_dir() for directory in directories)


def test_latest_leads_to_the_newest(tmp_path: Path) -> None:
    """`latest` is a relative link, so that the reports can be moved; it is replaced by the next one."""
    for _ in range(2):
        directory = new_report(tmp_path)
        point_latest(directory)
        assert (tmp_path / "latest").resolve() == directory.resolve()
    assert (tmp_path / "latest").readlink() == Path(directory.name)
    assert len(list(tmp_path.iterdir())) == 3


def test_latest_is_a_file_where_links_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no symbolic links: then `latest` says the name."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    directory = new_report(tmp_path)
    point_latest(directory)
    assert (tmp_path / "latest").read_text() == directory.name + "\n"
