.PHONY: grade

grade: setup-loadtest ##2 Grade a guard in a file (ARGS=PATH; docs/assignment.md)
	@$(RUN) -m loadtest grade $(ARGS)
