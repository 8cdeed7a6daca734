.PHONY: room

room: setup-loadtest ##2 Let the phones of the audience buy (ARGS=--room-pin)
	@$(RUN) -m loadtest up --room $(ARGS)
