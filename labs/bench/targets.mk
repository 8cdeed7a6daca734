.PHONY: bench bench-lock bench-free

bench: setup-loadtest ##2 Measure the guards; ARGS="--part rush --rounds 3" is short
	@$(RUN) -m loadtest bench $(ARGS)

bench-lock: setup-loadtest ##2 Measure the locks: ours, Go's, etcd's lock RPC, redis-py's
	@$(RUN) -m loadtest bench-lock $(ARGS)

bench-free: setup-loadtest ## Measure a free lock: ours, two bare transactions, Go's, redis-py's
	@$(RUN) -m loadtest bench-free $(ARGS)
