.PHONY: faults

faults: setup-loadtest ##2 Break what the sale needs, and judge what was sold
	@$(RUN) -m loadtest faults $(ARGS)
