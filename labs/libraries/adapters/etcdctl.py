"""`etcdctl lock NAME COMMAND`: the command prints its token and lives until the lock is released. No timeout.

https://github.com/etcd-io/etcd/blob/v3.6.14/etcdctl/README.md#lock-options-lockname-command-arg1-arg2-
"""

import os
import subprocess

from harness import LockAdapter, NotOffered

from loadtest.stack import binaries


class Adapter(LockAdapter):
    def __init__(self, address):
        self.command = [str(binaries.etcdctl()), "--endpoints", address, "lock"]

    def acquire(self, name, ttl, timeout):
        if timeout is not None:
            raise NotOffered
        end, start = os.pipe()  # etcdctl keeps its standard input from the command
        body = ["sh", "-c", f"echo $ETCD_LOCK_REV; exec cat < /dev/fd/{end}"]
        command = [*self.command, name, "--ttl", str(ttl), "--", *body]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[end])
        os.close(end)
        process.end = start
        process.token = process.stdout.readline().strip()
        if not process.token:
            raise RuntimeError(process.stderr.read().decode().strip() or "etcdctl ended")
        return process

    def release(self, process):
        os.close(process.end)
        _, errors = process.communicate()
        if process.returncode:
            raise RuntimeError(errors.decode().strip())

    def held(self, process):
        return process.poll() is None

    def token(self, process):
        return int(process.token)
