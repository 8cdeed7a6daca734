"""etcd, watched through its JSON gateway and its metrics: by no client that is on trial."""

from __future__ import annotations

import base64
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

from labs.libraries.stores.store import Store
from loadtest.stack.servers import Etcd

TIMEOUT_S = 10.0
ALL = base64.b64encode(b"\0").decode()  # as key and as end: every key


class EtcdStore(Store):
    """One member."""

    def __init__(self, directory: Path) -> None:
        self._server = Etcd(directory)
        super().__init__([self._server])

    def version(self) -> str:
        return f"etcd {json.loads(self._get('version'))['etcdserver']}"

    def keys(self, name: str) -> list[str]:
        found = self._post("kv/range", key=ALL, range_end=ALL, keys_only=True).get("kvs", [])
        keys = (base64.b64decode(each["key"]).decode(errors="replace") for each in found)
        return [key for key in keys if name in key]

    def delete(self, name: str) -> None:
        for key in self.keys(name):
            self._post("kv/deleterange", key=base64.b64encode(key.encode()).decode())

    def requests(self) -> int:
        counted = re.findall(r"^grpc_server_msg_received_total\{.*\} (\S+)$", self._get("metrics"), re.MULTILINE)
        return int(sum(map(float, counted)))

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self._server.endpoint}/{path}", timeout=TIMEOUT_S) as response:
            return str(response.read().decode())

    def _post(self, path: str, **body: Any) -> Any:
        url = f"http://{self._server.endpoint}/v3/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return json.loads(response.read())
