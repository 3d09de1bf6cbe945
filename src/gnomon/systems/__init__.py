"""Systems: one file each."""
