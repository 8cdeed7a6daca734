.PHONY: payment

payment: setup-loadtest ##2 Sell and be paid: a lock, a reservation, a checked one
	@$(RUN) -m loadtest payment $(ARGS)
