.PHONY: site

site: setup-dev ##2 Pages that play recordings, and the documents: site/index.html
	@$(RUN) -m loadtest site $(ARGS)
