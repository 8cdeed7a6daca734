"""Shop, board and rush with an etcd and a Redis that ask for certificates and passwords."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from app import create_app, services
from app.config.settings import Settings
from loadtest.shop_client.sale import SaleClient
from loadtest.stack.apps import Board, Instance
from tests.support.secured import SHOP_PASSWORD, Certificates, SecuredEtcd, SecuredRedis, tls_in_front
from tests.support.shops import buy, read_settings

pytestmark = pytest.mark.skipif(Certificates.program is None, reason="the openssl command makes the certificates")
Environment = dict[str, str]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """The settings that fit the servers; passwords are in files."""
    directory = tmp_path_factory.mktemp("secured")
    certificates = Certificates(directory)
    certificate, key = certificates.sign("client")
    (directory / "password").write_text(f"{SHOP_PASSWORD}\n", encoding="utf-8")
    with ExitStack() as running:
        etcd = running.enter_context(SecuredEtcd(directory, certificates))
        etcd.require_login("flash-sale/", "sale/")
        redis = running.enter_context(SecuredRedis(directory))
        port = running.enter_context(tls_in_front(redis.port, certificates))
        options = f"ssl_ca_certs={certificates.ca}&ssl_certfile={certificate}&ssl_keyfile={key}"
        yield {
            "FLASHSALE_ETCD_ENDPOINTS": f"https://{etcd.endpoint}",
            "FLASHSALE_ETCD_CA": certificates.ca,
            "FLASHSALE_ETCD_CERT": certificate,
            "FLASHSALE_ETCD_KEY": key,
            "FLASHSALE_ETCD_USER": "shop",
            "FLASHSALE_ETCD_PASSWORD_FILE": str(directory / "password"),
            "FLASHSALE_REDIS_URL": f"rediss://shop@127.0.0.1:{port}/0?{options}",
            "FLASHSALE_REDIS_PASSWORD_FILE": str(directory / "password"),
            "FLASHSALE_STOCK": "10",
            "FLASHSALE_THREADS": "4",
        }


def test_shop_board_and_rush_use_secured_servers(
    tmp_path: Path, secured: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance sells, the board shows it and the rush finds the order; no log has the password."""
    for name, value in secured.items():
        monkeypatch.setenv(name, value)
    with Instance(tmp_path, env=secured) as instance:
        board_env = {**secured, "FLASHSALE_INSTANCES": instance.url}
        for guard in ("etcd", "etcd-batch", "redis-watch"):
            urllib.request.urlopen(f"{instance.url}/stock/reduce?guard={guard}", b"", timeout=20).close()
        with Board(tmp_path, env=board_env) as board, urllib.request.urlopen(f"{board.url}/events", timeout=20) as seen:
            while not re.search(rb'"orders": ?3\b', told := seen.readline()):
                assert told
        with closing(SaleClient.from_environment([instance.url], trusted=[])) as sale:
            orders, left = sale.ledger()
    assert (len(orders), left) == (3, 7)
    assert SHOP_PASSWORD not in instance.log.read_text() + board.log.read_text()


NO_CERTIFICATE = {"ETCD_CERT": "", "ETCD_KEY": ""}


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"ETCD_ENDPOINTS": "{etcd}", "ETCD_CA": "", **NO_CERTIFICATE}, "ETCD_CA"),
        ({"ETCD_CA": "{ca}"}, "ETCD_CA"),
        (NO_CERTIFICATE, "ETCD_CERT"),
        ({"ETCD_CERT": "{certificate}", "ETCD_KEY": "{key}"}, "ETCD_CERT"),
        ({"ETCD_PASSWORD": "another"}, "ETCD_PASSWORD"),
        ({"ETCD_USER": "", "ETCD_PASSWORD_FILE": ""}, "ETCD_USER"),
        ({"REDIS_URL": "redis://shop@{redis}"}, "REDIS_URL"),
        ({"REDIS_URL": "rediss://shop@{redis}"}, "REDIS_URL"),
        ({"REDIS_URL": "rediss://shop@{redis}?ssl_ca_certs={ca}"}, "REDIS_URL"),
        ({"REDIS_PASSWORD": "another"}, "REDIS_PASSWORD"),
        ({"REDIS_PASSWORD_FILE": ""}, "REDIS_PASSWORD"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(
    tmp_path: Path, secured: Environment, changes: Environment, setting: str
) -> None:
    """/readyz names the setting to look at, and a purchase is refused; neither shows the password."""
    others = Certificates(tmp_path)  # of another company
    certificate, key = others.sign("client")
    stranger = {"ca": others.ca, "certificate": certificate, "key": key}
    urls = {"etcd": secured["FLASHSALE_ETCD_ENDPOINTS"], "redis": secured["FLASHSALE_REDIS_URL"]}
    servers = {name: re.findall(r"[\d.]+:\d+", url)[0] for name, url in urls.items()}
    changed = {f"FLASHSALE_{name}": text.format(**stranger, **servers) for name, text in changes.items()}
    settings = read_settings(Settings, {**secured, **changed})
    shop = create_app(settings)
    with closing(services.of(shop)):
        ready = shop.test_client().get("/readyz")
        answer = buy(shop)
    assert ready.status_code == 503
    assert f"FLASHSALE_{setting}" in ready.text
    assert (answer["outcome"], answer["in_doubt"]) == ("unavailable", False)
    assert SHOP_PASSWORD not in f"{ready.text} {answer} {settings}"
