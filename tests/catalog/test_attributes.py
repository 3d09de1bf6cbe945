"""Nothing is passed between the hooks of a System but by their arguments and by fitted attributes."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest

from gnomon import catalog
from gnomon.system.base import System


def assigned(cls: type) -> set[str]:
    """Names that the methods of a class give a value on ``self``."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    targets = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return {node.attr for node in targets if isinstance(node.value, ast.Name) and node.value.id == "self"}


def own_classes(cls: type) -> list[type]:
    return [one for one in cls.__mro__ if issubclass(one, System) and one.__module__.startswith("gnomon.systems.")]


@pytest.mark.parametrize("name", [entry.name for entry in catalog.entries()])
def test_a_system_sets_fitted_attributes_alone(name: str) -> None:
    """They end in an underscore; hyper-parameters are set by the constructor and by ``set_params``."""
    system = catalog.make(name)
    for cls in own_classes(type(system)):
        hidden = {one for one in assigned(cls) if not one.endswith("_")} - set(system.get_params(deep=False))
        assert not hidden, f"{cls.__name__} sets {', '.join(sorted(hidden))}"


def test_the_check_sees_a_hidden_attribute() -> None:
    class Hiding(System):
        def arguments(self, examples: object) -> dict[str, object]:
            self._seen, self.seen_ = examples, examples
            return {}

    assert assigned(Hiding) == {"_seen", "seen_"}
