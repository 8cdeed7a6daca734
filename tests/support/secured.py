"""etcd servers with authentication: by certificates, or by user and password."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from loadtest.ports import LOOPBACK, free_port
from loadtest.stack import binaries
from loadtest.stack.servers import Etcd, answers_ok

ROOT_PASSWORD = "root-secret"
SHOP_PASSWORD = "shop-secret"


class Certificates:
    """An authority, and certificates signed by it, made by the openssl command; PEM files in a directory."""

    program = shutil.which("openssl")

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ca = self._file("ca.crt")
        self._key("ca")
        self._openssl("req", "-x509", "-new", "-key", self._file("ca.key"), "-subj", "/CN=ca", "-out", self.ca)

    def sign(self, name: str) -> tuple[str, str]:
        """Paths of a certificate for this machine's loopback address, good for servers and clients, and of its key."""
        certificate, key, request = self._file(f"{name}.crt"), self._key(name), self._file(f"{name}.csr")
        (self._directory / "extensions").write_text(f"subjectAltName=IP:{LOOPBACK}\n")
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


class TlsEtcd(Etcd):
    """An etcd that speaks TLS only, and asks for a client certificate if told so."""

    def __init__(self, directory: Path, certificates: Certificates, *, mutual: bool) -> None:
        super().__init__(directory)
        certificate, key = certificates.sign("server")
        self._metrics = f"http://{LOOPBACK}:{free_port()}"
        self._flags = {"cert-file": certificate, "key-file": key, "listen-metrics-urls": self._metrics}
        if mutual:
            self._flags |= {"client-cert-auth": "true", "trusted-ca-file": certificates.ca}

    def command(self) -> list[str]:
        plain, secure = f"http://{self.endpoint}", f"https://{self.endpoint}"
        words = [word.replace(plain, secure) for word in super().command()]
        return [*words, *(f"--{flag}={value}" for flag, value in self._flags.items())]

    def is_ready(self) -> bool:
        return answers_ok(f"{self._metrics}/health")


class LoginEtcd(Etcd):
    """An etcd with users: `shop` may use keys below ``shop/``, and an unused token lives for a second."""

    def command(self) -> list[str]:
        return [*super().command(), "--auth-token=simple", "--auth-token-ttl=1"]

    def require_login(self) -> None:
        """Make the users and turn authentication on."""
        for command in (
            f"user add root:{ROOT_PASSWORD}",
            "user grant-role root root",
            f"user add shop:{SHOP_PASSWORD}",
            "role add shop",
            "role grant-permission --prefix shop readwrite shop/",
            "user grant-role shop shop",
            "auth enable",
        ):
            self.etcdctl(*command.split())

    def etcdctl(self, *arguments: str) -> str:
        command = [str(binaries.etcdctl()), f"--endpoints={self.endpoint}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout
