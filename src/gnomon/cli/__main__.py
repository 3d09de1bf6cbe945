"""``python -m gnomon.cli`` is the command ``gnomon``."""

from gnomon.cli.main import main

main()
