"""The pages of the documentation site that are made from the source; ``tools/write_system_pages.py`` gathers them."""
