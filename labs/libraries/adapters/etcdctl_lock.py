"""`etcdctl lock NAME COMMAND`: the command prints its token and lives until the lock is released. No timeout."""

# mypy: ignore-errors
# ruff: noqa: D101

import os
import signal
import subprocess

from harness import LockAdapter, NotOffered, serve

ETCDCTL = os.environ["ETCDCTL"]


class Etcdctl(LockAdapter):
    def __init__(self, address):
        self.command = [ETCDCTL, "--endpoints", address, "lock"]

    def acquire(self, name, ttl, timeout):
        if timeout is not None:
            raise NotOffered
        body = ["sh", "-c", "echo $ETCD_LOCK_REV; read line"]
        command = [*self.command, name, "--ttl", str(ttl), "--", *body]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.token = process.stdout.readline().strip()
        if not process.token:
            raise RuntimeError(process.stderr.read().decode().strip() or "etcdctl ended")
        return process

    def release(self, process):
        if process.poll() is None:
            process.stdin.write(b"\n")
        _, errors = process.communicate()
        if process.returncode:
            raise RuntimeError(errors.decode().strip())

    def held(self, process):
        return process.poll() is None

    def token(self, process):
        return int(process.token)


os.environ["ETCDCTL_API"] = "3"
signal.signal(signal.SIGINT, signal.SIG_IGN)
serve(Etcdctl)
