"""A rush foreseen: buyers, instances, the lock and Redis as a simulation, from costs that `make bench` has measured."""
