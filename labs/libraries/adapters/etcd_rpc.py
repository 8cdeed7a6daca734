"""The lock service of the etcd server, by its JSON gateway: the caller brings a lease, and keeps it alive.

https://etcd.io/docs/v3.6/dev-guide/api_concurrency_reference_v3/ (Lock, Unlock, and the key in transactions),
https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/ (the gateway, transactions)
"""

import base64
import json
import urllib.request

from harness import LockAdapter


class Adapter(LockAdapter):
    def __init__(self, address):
        self.url = f"http://{address}/v3/"

    def post(self, path, timeout=None, **body):
        with urllib.request.urlopen(self.url + path, json.dumps(body).encode(), timeout=timeout) as response:
            return json.load(response)

    def acquire(self, name, ttl, timeout):
        lease = self.post("lease/grant", TTL=ttl)["ID"]
        try:
            name = base64.b64encode(name.encode()).decode()
            response = self.post("lock/lock", timeout, name=name, lease=lease)
        except TimeoutError:
            return None
        return response["key"], lease, int(response["header"]["revision"])

    def release(self, hold):
        self.post("lock/unlock", key=hold[0])

    def held(self, hold):
        owned = {"key": hold[0], "target": "CREATE", "result": "GREATER", "create_revision": "0"}
        return self.post("kv/txn", compare=[owned]).get("succeeded", False)

    def renew(self, hold):
        return int(self.post("lease/keepalive", ID=hold[1])["result"].get("TTL", 0)) > 0

    def token(self, hold):
        return hold[2]
