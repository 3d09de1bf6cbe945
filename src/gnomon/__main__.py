"""``python -m gnomon`` is the command ``gnomon``."""

from gnomon.cli.main import main

main()
