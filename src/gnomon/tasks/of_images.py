"""What tasks have in common whose answers are of an image as a whole, and no label of it."""

from __future__ import annotations

from typing import Any, ClassVar

from gnomon.data.dataset import Dataset
from gnomon.errors import UserError
from gnomon.tasks.base import Task

__all__ = ["OfImages"]


class OfImages(Task):
    """Base of tasks on images with something on each; a subclass says what, in `marks`."""

    splits: ClassVar[tuple[str, ...]] = ("random",)
    answers_rows: ClassVar[bool] = False

    def marks(self, data: Dataset) -> Any:
        """What is known of each image.

        Raises
        ------
        UserError
            Data without it.
        """
        raise NotImplementedError

    def view(self, domain: Any) -> str:
        """Images."""
        return "images"

    def examples(self, data: Dataset, system: Any, *, answers: bool = True) -> tuple[Any, Any]:
        """Images, and what is known of them."""
        return data.view("images"), self.marks(data) if answers else None

    def classes(self, data: Dataset) -> Any:
        """None: what is known of an image is no class of it."""
        return None

    def obstacle(self, data: Dataset, domain: Any, result: Any) -> str | None:
        """Nothing is known of the images."""
        try:
            self.marks(data)
        except UserError as error:
            return error.what
        return super().obstacle(data, domain, domain)
