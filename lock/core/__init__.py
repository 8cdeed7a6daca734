"""The session's state machine: no thread, no socket and no clock; `lock.session` and `lock.aio` drive it."""
