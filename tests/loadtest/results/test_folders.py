"""Where reports are kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from loadtest.results.folders import RESULTS, ReportsError, new_report, point_latest, report_under_way


def test_latest_leads_to_the_newest(tmp_path: Path) -> None:
    """Each report has its own directory, also within a second; `latest` is a relative link, so that they can move."""
    for _ in range(3):
        directory = new_report(tmp_path)
        point_latest(directory)
        assert (tmp_path / "latest").resolve() == directory.resolve()
    assert (tmp_path / "latest").readlink() == Path(directory.name)
    assert len(list(tmp_path.iterdir())) == 4


def test_latest_is_a_file_where_links_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no symbolic links: then `latest` says the name."""
    monkeypatch.setattr(Path, "symlink_to", Mock(side_effect=OSError("no links here")))
    directory = new_report(tmp_path)
    point_latest(directory)
    assert (tmp_path / "latest").read_text() == directory.name + "\n"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda reports: reports.write_text("mine"), "it is not a directory"),
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
def test_a_report_without_a_result_stays_if_it_says_why(tmp_path: Path, result: str) -> None:
    """An interrupted one is removed unless it has a comparison, a benchmark or records; one that failed, if empty."""
    assert ended_by(KeyboardInterrupt(), tmp_path, "locust.log", result).exists()
    assert not ended_by(KeyboardInterrupt(), tmp_path, "locust.log").exists()
    assert ended_by(ValueError(), tmp_path, "locust.log").exists()
    assert not ended_by(ValueError(), tmp_path).exists()
