"""The folder of a run: its files, their format, their versions. Knows no System."""
