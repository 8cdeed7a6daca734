"""Where reports are kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from loadtest.results.folders import RESULTS, ReportsError, new_report, point_latest, report_under_way


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


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda reports: reports.write_text("mine"), "it is no directory"),
        (lambda reports: reports.symlink_to("nowhere/reports"), "it is a link that leads nowhere"),
        (lambda reports: (reports.parent.rmdir(), reports.parent.write_text("mine")), "Not a directory"),
    ],
)
def test_reports_that_cannot_be_kept_are_one_line(tmp_path: Path, make: Callable[[Path], object], reason: str) -> None:
    """Whatever is in the way: the error names the directory and the reason."""
    reports = tmp_path / "kept" / "reports"
    reports.parent.mkdir()
    make(reports)
    with pytest.raises(ReportsError) as refused:
        new_report(reports)
    assert str(refused.value) == f"no report can be kept in {reports}: {reason}"


def ended_by(error: BaseException, reports: Path, *names: str) -> Path:
    """A report with files of these names, which ended with this error."""
    with suppress(type(error)), report_under_way(reports) as report:
        for name in names:
            (report / name).write_text("")
        raise error
    return report


@pytest.mark.parametrize("result", RESULTS)
def test_an_interrupted_report_stays_if_it_has_a_result(tmp_path: Path, result: str) -> None:
    """A comparison, a benchmark or records are worth keeping; a log alone is not."""
    assert ended_by(KeyboardInterrupt(), tmp_path, "locust.log", result).exists()
    assert not ended_by(KeyboardInterrupt(), tmp_path, "locust.log").exists()


def test_a_report_that_fails_stays_unless_it_is_empty(tmp_path: Path) -> None:
    """A log may say why; an empty directory says nothing."""
    assert ended_by(ValueError(), tmp_path, "locust.log").exists()
    assert not ended_by(ValueError(), tmp_path).exists()
