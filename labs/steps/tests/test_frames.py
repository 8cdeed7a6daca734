"""Asking where other threads are."""

import subprocess
import sys

ASKED_WHILE_GARBAGE_IS_COLLECTED = """
import gc, threading, time
from labs.steps.frames import current_frames

class Garbage:
    def __del__(self):
        time.sleep(0.001)  # another thread goes on meanwhile

def ask():
    for _ in range(20):
        garbage = Garbage()
        garbage.itself = garbage
        del garbage
        current_frames()
        time.sleep(0.002)

gc.set_threshold(1)
threads = [threading.Thread(target=ask) for _ in range(3)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_that_garbage_is_collected_meanwhile_hangs_nobody() -> None:
    """Threads ask for each other's frames, with garbage about that takes its time, and none waits for ever."""
    subprocess.run([sys.executable, "-c", ASKED_WHILE_GARBAGE_IS_COLLECTED], check=True, timeout=30)
