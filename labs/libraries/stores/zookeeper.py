"""ZooKeeper as Debian has it, asked by its four-letter words; a key is deleted by its command line."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from labs.libraries.program import NotTried
from labs.libraries.stores.store import Store
from loadtest.stack.process import ManagedProcess

JAR = Path("/usr/share/java/zookeeper.jar")
JAVA = ["java", "-Xmx256m", "-cp", f"/etc/zookeeper/conf:{JAR}"]
TIMEOUT_S = 10.0
# With ticks of a second a session may end after two.
CONFIGURATION = """
tickTime=1000
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
"""


class ZooKeeperServer(ManagedProcess):
    """One server; raises NotTried."""

    def __init__(self, directory: Path) -> None:
        super().__init__("zookeeper", directory, port=0)
        if shutil.which("java") is None or not JAR.exists():
            raise NotTried("ZooKeeper is not on this machine (apt install zookeeper)")

    def command(self) -> list[str]:
        data = self.directory / self.name
        data.mkdir(parents=True, exist_ok=True)
        file = data / "zoo.cfg"
        file.write_text(CONFIGURATION.format(data=data, port=self.port))
        return [*JAVA, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(file)]

    def is_ready(self) -> bool:
        with suppress(OSError):
            return "Received: " in self.ask("srvr")  # it serves requests
        return False

    def ask(self, word: str) -> str:
        """The answer to a four-letter word; raises OSError."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


class ZooKeeperStore(Store):
    """One server."""

    def __init__(self, directory: Path) -> None:
        self._server = ZooKeeperServer(directory)
        super().__init__([self._server])

    def version(self) -> str:
        found = re.search(r"version: ([\d.]+)", self._server.ask("srvr"))
        return f"ZooKeeper {found[1]}" if found else "ZooKeeper"

    def keys(self, name: str) -> list[str]:
        return [path for path in re.findall(r"^\t(/\S+)$", self._server.ask("dump"), re.MULTILINE) if name in path]

    def delete(self, name: str) -> None:
        for path in self.keys(name):
            client = [*JAVA, "org.apache.zookeeper.ZooKeeperMain", "-server", self.address, "delete", path]
            subprocess.run(client, check=True, timeout=60, capture_output=True)

    def requests(self) -> int:
        found = re.search(r"^Received: (\d+)$", self._server.ask("srvr"), re.MULTILINE)
        return int(found[1]) if found else 0
