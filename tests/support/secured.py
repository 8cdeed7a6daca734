"""etcd and Redis servers with authentication: by certificates, by user and password, or by both."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from loadtest.ports import LOOPBACK, free_port
from loadtest.stack import binaries
from loadtest.stack.servers import Etcd, Redis, answers_ok

ROOT_PASSWORD = "root-secret"
SHOP_PASSWORD = "shop-secret"


class Certificates:
    """An authority, and certificates signed by it, made by the openssl command; PEM files in a directory."""

    program = shutil.which("openssl")

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ca = self._file("ca.crt")
        self._key("ca")
        self._openssl(
            *("req", "-x509", "-new", "-key", self._file("ca.key"), "-subj", "/CN=ca", "-out", self.ca),
            *("-addext", "keyUsage=critical,keyCertSign"),  # Python 3.13 asks for it
        )

    def sign(self, name: str) -> tuple[str, str]:
        """Paths of a certificate for this machine's loopback address, good for servers and clients, and of its key."""
        certificate, key, request = self._file(f"{name}.crt"), self._key(name), self._file(f"{name}.csr")
        (self._directory / "extensions").write_text(f"subjectAltName=IP:{LOOPBACK}\nauthorityKeyIdentifier=keyid\n")
        self._openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request)
        self._openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._file("ca.key"), "-CAcreateserial"),
            *("-extfile", self._file("extensions"), "-days", "2", "-out", certificate),
        )
        return certificate, key

    def _key(self, name: str) -> str:
        self._openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self._file(f"{name}.key"))
        return self._file(f"{name}.key")

    def _file(self, name: str) -> str:
        return str(self._directory / name)

    def _openssl(self, *arguments: str) -> None:
        assert self.program
        subprocess.run([self.program, *arguments], check=True, capture_output=True, timeout=20)


class LoginEtcd(Etcd):
    """An etcd with users: `shop` may use keys below ``shop/``, and an unused token lives for a second."""

    def command(self) -> list[str]:
        return [*super().command(), "--auth-token=simple", "--auth-token-ttl=1", "--bcrypt-cost=4"]  # the cheapest

    def require_login(self, *prefixes: str) -> None:
        """Make the users, of whom `shop` may use the keys below these prefixes, and turn authentication on."""
        for command in (
            f"user add root:{ROOT_PASSWORD}",
            "user grant-role root root",
            f"user add shop:{SHOP_PASSWORD}",
            "role add shop",
            *(f"role grant-permission --prefix shop readwrite {prefix}" for prefix in prefixes or ["shop/"]),
            "user grant-role shop shop",
            "auth enable",
        ):
            self.etcdctl(*command.split())

    def etcdctl(self, *arguments: str) -> str:
        command = [str(binaries.etcdctl()), f"--endpoints={self.endpoint}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


class SecuredEtcd(LoginEtcd):
    """An etcd that speaks TLS only, and asks for a client certificate as well as for a password."""

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        super().__init__(directory)
        (server, server_key), (client, client_key) = map(certificates.sign, ("server", "etcdctl"))
        self._options = f"--cacert={certificates.ca}", f"--cert={client}", f"--key={client_key}"
        self._metrics = f"http://{LOOPBACK}:{free_port()}"
        self._flags = {"cert-file": server, "key-file": server_key, "listen-metrics-urls": self._metrics}
        self._flags |= {"client-cert-auth": "true", "trusted-ca-file": certificates.ca}

    def command(self) -> list[str]:
        plain, secure = f"http://{self.endpoint}", f"https://{self.endpoint}"
        words = [word.replace(plain, secure) for word in super().command()]
        return [*words, *(f"--{flag}={value}" for flag, value in self._flags.items())]

    def is_ready(self) -> bool:
        return answers_ok(f"{self._metrics}/health")

    def etcdctl(self, *arguments: str) -> str:
        return super().etcdctl(*self._options, *arguments)


class SecuredRedis(Redis):
    """A Redis that knows only the user `shop`; with TLS in front of it, which the server of the wheel does not have."""

    def flags(self) -> dict[str, str]:
        (acl := self.directory / "users.acl").write_text(
            f"user default off\nuser shop on >{SHOP_PASSWORD} ~sale:* +@all\n", encoding="utf-8"
        )
        return {**super().flags(), "aclfile": str(acl)}

    def is_ready(self) -> bool:
        url = f"redis://shop:{SHOP_PASSWORD}@{LOOPBACK}:{self.port}"
        with suppress(redis.RedisError), redis.Redis.from_url(url, socket_timeout=1.0) as client:
            return bool(client.ping())
        return False


@contextmanager
def tls_in_front(port: int, certificates: Certificates) -> Iterator[int]:
    """The port at which TLS, with a client's certificate, leads to a plain one of this machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates.sign("redis"))
    context.load_verify_locations(certificates.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    started, end = Future[int](), threading.Event()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside_reader, inside_writer = await asyncio.open_connection(LOOPBACK, port)
        await asyncio.gather(copy(reader, inside_writer), copy(inside_reader, writer))

    async def serve() -> None:
        server = await asyncio.start_server(handle, LOOPBACK, 0, ssl=context)
        started.set_result(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(end.wait)
        server.close()

    with ThreadPoolExecutor(1) as threads:
        served = threads.submit(asyncio.run, serve())  # at the end it cancels what is still open
        try:
            yield started.result(10)
        finally:
            end.set()
            served.result(10)
