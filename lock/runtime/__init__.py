"""Clock, timers, callbacks and interrupts: what has nothing to do with locks."""
