"""Files to read."""

import pytest


@pytest.fixture
def write(tmp_path):
    """A function that writes a file and gives its path."""

    def put(content, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return put
