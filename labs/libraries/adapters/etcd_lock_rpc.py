"""The lock RPC of the etcd server by its stubs: the caller brings a lease, and keeps it alive."""

# mypy: ignore-errors
# ruff: noqa: D101

import threading
import time

import grpc
from harness import LockAdapter, serve

lock_messages, lock_stubs = grpc.protos_and_services("v3lock.proto")
lease_messages, lease_stubs = grpc.protos_and_services("v3lease.proto")


class EtcdLockRpc(LockAdapter):
    distribution = "grpcio"

    def __init__(self, address):
        channel = grpc.insecure_channel(address)
        self.locks, self.stub, self.leases = lock_stubs.LockStub(channel), lease_stubs.LeaseStub(channel), {}
        threading.Thread(target=self.renew, daemon=True).start()

    def renew(self):
        while True:
            for lease, ttl in list(self.leases.items()):
                request = lease_messages.LeaseKeepAliveRequest(ID=lease)
                try:
                    (response,) = self.stub.LeaseKeepAlive(iter([request]), timeout=ttl)
                except grpc.RpcError:
                    continue
                if response.TTL == 0:
                    self.leases.pop(lease, None)
            time.sleep(0.5)

    def acquire(self, name, ttl, timeout):
        lease = self.stub.LeaseGrant(lease_messages.LeaseGrantRequest(TTL=ttl)).ID
        self.leases[lease] = ttl
        try:
            response = self.locks.Lock(lock_messages.LockRequest(name=name.encode(), lease=lease), timeout=timeout)
        except grpc.RpcError as error:
            self.leases.pop(lease)
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return None
            raise
        return response, lease

    def release(self, hold):
        response, lease = hold
        self.locks.Unlock(lock_messages.UnlockRequest(key=response.key))
        self.leases.pop(lease, None)

    def held(self, hold):
        return hold[1] in self.leases

    def token(self, hold):
        return hold[0].header.revision


serve(EtcdLockRpc)
