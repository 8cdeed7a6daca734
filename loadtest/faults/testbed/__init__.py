"""Where scenarios are played: etcd, Redis and two shops, as local processes or in containers, all of which can fail."""

from loadtest.faults.testbed.compose import ComposeTestbed
from loadtest.faults.testbed.local import LocalTestbed

__all__ = ["ComposeTestbed", "LocalTestbed", "Testbed"]

Testbed = LocalTestbed | ComposeTestbed
