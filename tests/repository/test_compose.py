"""The Compose files, checked without Docker: `make docker-test` runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(ROOT.glob("docker-compose*.yml"))
STACK = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")


def seconds(pattern: str, text: str) -> float:
    found = re.search(pattern, text, re.MULTILINE)
    assert found is not None, pattern
    return float(found[1])


def test_health_checks_need_no_shell_where_there_is_none() -> None:
    """etcd's image has neither a shell nor curl: etcdctl is called directly (pitfall 30)."""
    texts = [file.read_text(encoding="utf-8") for file in FILES]
    for text in (text for text in texts if "/etcd:v" in text):
        assert text.count("/etcd:v") == text.count("test: [CMD, etcdctl, endpoint, health]") == 1


def test_a_stop_is_long_enough_to_drain() -> None:
    """gunicorn finishes its purchases and gives the lease back before Compose kills it (pitfall 31)."""
    drains = seconds(r"^graceful_timeout = (\d+)", (ROOT / "app" / "gunicorn.conf.py").read_text(encoding="utf-8"))
    assert drains + 2 <= seconds(r"^ *stop_grace_period: (\d+)s", STACK)


@pytest.mark.parametrize("file", [*FILES, ROOT / "Dockerfile"], ids=lambda file: file.name)
def test_images_are_pinned(file: Path) -> None:
    """Every image that is not built here has a version, never `latest` (pitfall 32)."""
    text = file.read_text(encoding="utf-8")
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE))
    for image in re.findall(r"^(?: *image:|FROM) (\S+)", text, re.MULTILINE):
        ours = image in stages or image.startswith("stock-flash-sale")
        assert ours or re.search(r":v?\d+\.\d+[\w.-]*$", image), image


def test_port_5000_is_left_to_macos() -> None:
    """AirPlay listens there (pitfall 32); and no port is open to the network."""
    published = re.findall(r'ports: \["([^"]+)"\]', STACK)
    assert published
    for port in published:
        assert port.startswith("127.0.0.1:")
        assert "5000" not in port


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_service_waits_until_what_it_needs_is_healthy(file: Path) -> None:
    """No start-up race that works the second time (pitfall 32)."""
    text = file.read_text(encoding="utf-8")
    waits = re.findall(r"^( *)depends_on:\n((?:\1 +.*\n)+)", text, re.MULTILINE)
    assert len(waits) == text.count("depends_on:")
    for _, needed in waits:
        assert set(re.findall(r": *(.*)", needed)) == {"{condition: service_healthy}"}


def test_shop_and_board_know_their_names() -> None:
    """Each name of an instance or the board in a URL is among FLASHSALE_NAMES."""
    (names,) = re.findall(r"^ *FLASHSALE_NAMES: (\S+)$", STACK, re.MULTILINE)
    asked = {host for host in re.findall(r"http://([a-z][a-z0-9-]*):\d+", STACK) if host not in ("etcd", "locust")}
    assert asked
    assert asked <= set(names.split(","))
