"""`up --room`: its options, and the address that phones open."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from labs.room.tests.network import ADDRESS, own_network
from labs.room.up import own_address
from loadtest.cli.main import cli


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--address", "192.0.2.10"], "belong to --room"),
        (["--room-pin"], "belong to --room"),
        (["--room", "--address", "0.0.0.0"], "give the one address"),
        (["--room", "--address", "my-laptop"], "give an IP address"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(words: list[str], said: str) -> None:
    """Before anything is started, with what to give instead."""
    done = CliRunner().invoke(cli, ["up", "--free-ports", *words])
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_the_address_is_found_or_asked_for() -> None:
    """The network's address is taken and never that of loopback."""
    with own_network() as network:
        assert network.run(own_address) == ADDRESS
