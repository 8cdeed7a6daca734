.PHONY: shards

shards: setup-loadtest ## Sell from shards on three masters of a Redis Cluster
	@$(RUN) -m loadtest shards $(ARGS)
