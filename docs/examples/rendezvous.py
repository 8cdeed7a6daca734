"""Locust users who wait for each other, round after round: locust -f rendezvous.py --host http://SITE --users 100.

When all users have arrived, the master opens the round on every worker. A round that is not full after `patience_s`
seconds begins with the users who came.
"""

import logging

import gevent
from gevent.event import Event
from locust import HttpUser, events, task
from locust.runners import MasterRunner, WorkerRunner


class Rendezvous:
    """A barrier for all users, also over several workers."""

    def __init__(self, patience_s=30):
        self.patience_s, self.round, self.arrived, self.gate = patience_s, 0, 0, Event()
        events.init.add_listener(self.on_init)

    def on_init(self, runner, **_):
        self.runner = runner  # a runner without workers is its own master
        if not isinstance(runner, MasterRunner):
            runner.register_message("open", self.on_open)
        if not isinstance(runner, WorkerRunner):
            runner.register_message("arrived", self.on_arrived)
            events.test_start.add_listener(lambda **_: self.open())  # ends the round that the last test left

    def wait(self):
        gate = self.gate  # first, because the message may open it
        self.runner.send_message("arrived", {"round": self.round})
        gate.wait()

    def on_arrived(self, msg, **_):
        if msg.data["round"] == self.round:  # no other round waits for users
            self.arrived += 1
            if self.arrived == 1:
                gevent.spawn_later(self.patience_s, self.begin_late, self.round)
            if self.arrived >= self.runner.target_user_count:
                self.open()

    def begin_late(self, round):
        if round == self.round:
            logging.warning("Round %d begins with %d of %d users", round, self.arrived, self.runner.target_user_count)
            self.open()

    def open(self):
        self.round, self.arrived = self.round + 1, 0
        self.runner.send_message("open", {"next": self.round})

    def on_open(self, msg, **_):
        gate, self.gate, self.round = self.gate, Event(), msg.data["next"]
        gate.set()


rendezvous = Rendezvous()


class Visitor(HttpUser):
    """Logs in, waits for the others, and clicks at the same moment as they do."""

    @task
    def click(self):
        self.client.get("/login")  # whatever comes before the click
        rendezvous.wait()
        self.client.post("/buy")
