"""How a fit is carried out: one driver, many procedures, one group of processes."""
