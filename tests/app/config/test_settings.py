"""FLASHSALE_* becomes settings, or messages that say what to do; docs/settings.md says the same."""

from __future__ import annotations

import re
import socket
import subprocess
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.board.settings import BoardSettings
from app.config.settings import Settings, SettingsError
from loadtest.ports import BOARD_PORT, LOOPBACK
from tests.support.secured import Certificates
from tests.support.shops import read_settings
from tests.support.waiting import assert_raises

read, read_board = partial(read_settings, Settings), partial(read_settings, BoardSettings)


def test_an_instance_on_all_addresses_has_the_name_of_its_machine() -> None:
    """In containers, where all listen alike, no two have one name; a long one keeps its end; empty is not set."""
    for host in ("0.0.0.0", "::"):
        named = read({"FLASHSALE_HOST": host, "FLASHSALE_PORT": "8090"})
        assert named.instance == f"{socket.gethostname()}:8090"[-64:]
    assert read({"FLASHSALE_HOST": "192.0.2.1"}).instance == "192.0.2.1:8080"
    assert read({"FLASHSALE_HOST": "", "FLASHSALE_INSTANCE": " "}).instance == "127.0.0.1:8080"


def test_a_secret_may_be_in_a_file(tmp_path: Path) -> None:
    """As it is handed over: blanks around it do not count, the variable wins, and what fails has advice.

    The password of Redis goes into the URL with the signs that a URL has no place for; a second one there is a mistake.
    """
    file = tmp_path / "secret"
    given = {"FLASHSALE_ADMIN_TOKEN_FILE": str(file)}
    assert_raises(SettingsError, read, given, match="FLASHSALE_ADMIN_TOKEN_FILE: give a text file that can be read")
    for text, advice in ((" \n", "give a file that is not empty"), ("s3cret\nother\n", "several lines")):
        file.write_text(text, encoding="utf-8")
        assert_raises(SettingsError, read, given, match=advice)
    file.write_text("p@ss/1\n", encoding="utf-8")
    assert read(given).admin_token == SecretStr("p@ss/1")
    assert read({**given, "FLASHSALE_ADMIN_TOKEN": "other"}).admin_token == SecretStr("other")
    given = {"FLASHSALE_REDIS_PASSWORD_FILE": str(file)}
    for url in ("redis://{}@cache/1", "rediss://shop{}@cache"):
        asked, expected = url.format("").replace("//@", "//"), url.format(":p%40ss%2F1")
        assert read({**given, "FLASHSALE_REDIS_URL": asked}).redis_url == expected
    twice, why = {**given, "FLASHSALE_REDIS_URL": "redis://:hunter2@cache"}, "REDIS_URL: has a password, and FLASHSALE_"
    assert_raises(SettingsError, read, twice, match=f"{why}REDIS_PASSWORD gives another")


BAD = {
    "greater than or equal to 0": ["CPU=-1"],
    "valid integer": ["PORT=abc", "THREADS=1e3", "CPU=all", "CPU=0.5"],
    "less than or equal to 3600": ["LOCK_TIMEOUT=nan"],
    "without scheme": ["HOST=http://0.0.0.0"],
    "printable": ["INSTANCE=two\nlines"],
    "at most 64": ["INSTANCE=" + "x" * 65, "SALE=" + "x" * 65],
    "without scheme and port": ["NAMES=shop:8080"],
    "letters, digits": ["SALE=a/b", "SALE={x}"],
    "HOST:PORT": [f"ETCD_ENDPOINTS={value}" for value in ("localhost", "a,b:1", "a:1,b:65536", "a:0", "a:")],
    "PEM file with the authority's": ["ETCD_CA=/nowhere", f"ETCD_CA={__file__}"],
    "the PEM file of the authority": ["ETCD_ENDPOINTS=a:1,https://b:2379"],
    "redis://": [
        f"REDIS_URL={value}"
        for value in ("http://cache", "redis://a:99999/0", "redis://cache/zero", "redis:", "redis://a:1,b:2")
    ],
    "leave out 'retry_on_timeout='": ["REDIS_URL=redis://cache?retry_on_timeout=1"],
    "leave out 'socket_timeout='": ["REDIS_URL=redis://cache?socket_timeout="],
    "leave out 'ssl_": ["REDIS_URL=redis://cache?ssl_ciphers=x", "REDIS_URL=rediss://cache?ssl_nonsense=1"],
    "for ssl_ca_certs=.*PEM": ["REDIS_URL=rediss://cache?ssl_ca_certs=/nowhere"],
    "ssl_certfile=.*PEM": ["REDIS_URL=rediss://cache?ssl_certfile=/nowhere"],
    # Only instances may be those of a service, and only over plain HTTP: a certificate has no addresses.
    "give a URL such as": [
        "INSTANCES=dns+https://shop:1",
        "INSTANCES=http://a:1,http://b:99999",
        "LOCUST=dns+http://s:1",
    ],
}


@pytest.mark.parametrize(("advice", "variable"), [(advice, each) for advice, bad in BAD.items() for each in bad])
def test_a_bad_value_is_named_with_advice(variable: str, advice: str) -> None:
    """A value that cannot be used is answered by what to give instead."""
    name, _, value = variable.partition("=")
    with pytest.raises(SettingsError, match=f"^FLASHSALE_(?:{name}|ETCD_CA): .*{advice}"):
        read_board({f"FLASHSALE_{name}": value})


@pytest.mark.skipif(Certificates.program is None, reason="the openssl command makes the certificates")
def test_a_certificate_and_its_key_belong_together(tmp_path: Path) -> None:
    """The key of another certificate, one with a passphrase, and half of a pair stop the start."""
    certificates = Certificates(tmp_path)
    (certificate, key), (_, another) = certificates.sign("a"), certificates.sign("b")
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:x", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True, timeout=20)
    given = {"FLASHSALE_ETCD_CA": certificates.ca, "FLASHSALE_ETCD_CERT": certificate}
    assert read({**given, "FLASHSALE_ETCD_KEY": key}).etcd_key == key
    pair = "FLASHSALE_ETCD_CERT and FLASHSALE_ETCD_KEY: "
    for bad in (another, str(locked)):
        assert_raises(SettingsError, read, {**given, "FLASHSALE_ETCD_KEY": bad}, match=f"{pair}give PEM files")
    assert_raises(SettingsError, read, given, match=f"{pair}only one is set")
    for half in ("USER", "PASSWORD"):
        assert_raises(SettingsError, read, {f"FLASHSALE_ETCD_{half}": "x"}, match="PASSWORD: only one is set")


def test_instances_may_be_those_of_a_service() -> None:
    """They are separated by commas."""
    urls = "dns+http://tasks.shop:8080", "http://127.0.0.1:8090"
    assert read_board({"FLASHSALE_INSTANCES": ", ".join(urls)}).instances == urls


SECRETS = "ADMIN_TOKEN", "ETCD_PASSWORD", "REDIS_PASSWORD"


def test_all_bad_values_are_told_at_once_and_no_secrets() -> None:
    """One error lists all mistakes; neither it nor the settings' repr shows a password or token."""
    with pytest.raises(SettingsError) as caught:
        read({"FLASHSALE_PORT": "x", "FLASHSALE_REDIS_URL": "http://user:hunter2@cache"})
    assert len(str(caught.value).splitlines()) == 2
    assert "hunter2" not in str(caught.value)
    secrets = read({**{f"FLASHSALE_{name}": "hunter2" for name in SECRETS}, "FLASHSALE_ETCD_USER": "shop"})
    assert "hunter2" not in repr(secrets)
    assert secrets.authorization == {"Authorization": "Bearer hunter2"}
    assert "hunter2" in secrets.redis_url


ROOT = Path(__file__).resolve().parents[3]
ROWS = re.findall(
    r"^\| `(FLASHSALE_\w+)` \| (.*?) \| (.*?) \|", (ROOT / "docs/settings.md").read_text(encoding="utf-8"), re.MULTILINE
)
DEFAULTS = [(name, default.strip("`")) for name, default, _ in ROWS if default.startswith("`")]


def test_every_variable_is_described_once() -> None:
    """The tables have all that shop, board and Locust read, and nothing else."""
    shop = {f"FLASHSALE_{name.upper()}" for name in Settings.model_fields}
    fields = [(name, field) for name, field in BoardSettings.model_fields.items() if name != "shop"]
    board = {field.validation_alias or f"FLASHSALE_BOARD_{name.upper()}" for name, field in fields}
    sources = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("loadtest/**/*.py"))
    assert sorted(name for name, *_ in ROWS) == sorted({*shop, *board, *re.findall(r"FLASHSALE_[A-Z_]*[A-Z]", sources)})


@pytest.mark.parametrize(("name", "default"), DEFAULTS)
def test_a_default_is_what_holds_without_it(name: str, default: str) -> None:
    """To set a variable to the default that is described changes nothing."""
    if name == "FLASHSALE_BOARD_URL":
        assert default == f"http://{LOOPBACK}:{BOARD_PORT}"
    else:
        assert read_board({name: default}) == read_board({})
