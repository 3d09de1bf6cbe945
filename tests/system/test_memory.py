"""What no memory holds is a line that names the hyper-parameter, and leaves nothing behind."""

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.data import load
from gnomon.errors import UserValueError
from gnomon.system.memory import within_memory


@pytest.mark.parametrize(
    ("parameters", "making", "error", "words"),
    [
        ({"hidden": (4, 10**10)}, False, MemoryError("Unable to allocate 80 GB"), "10000000000 is too large"),
        ({"n_hidden": 10**12}, True, OverflowError("overflowed"), "1000000000000 is too large"),
        ({"epochs": 3}, False, RuntimeError("DefaultCPUAllocator: can't allocate memory"), "has not the memory: can't"),
        ({"epochs": 3}, False, RuntimeError("CUDA out of memory"), "smaller batches"),
    ],
)
def test_an_allocation_that_fails_names_the_size(parameters, making, error, words):
    with pytest.raises(UserValueError, match=words), within_memory(parameters, making=making):
        raise error


@pytest.mark.parametrize("error", [RuntimeError("a fault"), UserValueError("a mistake"), KeyError("k")])
def test_other_errors_pass(error):
    with pytest.raises(type(error), match=r"a fault|a mistake|k"), within_memory({"hidden": 10**10}):
        raise error


def test_a_network_that_no_memory_holds_leaves_no_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(40)))
    monkeypatch.chdir(tmp_path)
    assert run(["fit", "mlp", "t.csv", "--target", "y", "--hidden", str(10**15)]) == 2
    assert "1000000000000000 is too large for this machine" in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["t.csv"]
    with pytest.raises(UserValueError, match="too large for this machine"):
        gnomon.MLP(hidden=(10**15,)).fit(np.eye(4), [0, 1, 0, 1])


def test_a_column_is_named_once(tmp_path):
    """By its name and by its number: neither a traceback nor the same column twice."""
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,3\n4,5,6\n")
    np.save(tmp_path / "t.npy", np.ones((4, 3)))
    for file, columns in (("t.csv", ["0", "a"]), ("t.npy", ["0", "column_1"])):
        with pytest.raises(UserValueError, match="must be named once, got twice"):
            load(str(tmp_path / file), columns=columns)
