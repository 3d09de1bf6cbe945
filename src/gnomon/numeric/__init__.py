"""Numbers underneath everything else: noise by address, the log domain, fast elementary functions."""
