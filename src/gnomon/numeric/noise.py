"""Random numbers by address: the same numbers for any number of processes, nothing to save.

An address is (seed, purpose path, update, draw, position, element). The key of Philox4x32-10 (Salmon et al. 2011) is
the 8-byte BLAKE2b digest of ``gnomon-noise-1``, the seed and the path, joined by NUL bytes, read as two little-endian
words; its counter is (element // 4, position, draw, update). What is drawn depends on the address alone, not on what
was drawn before, so a fit that is resumed or spread over processes draws the same numbers.
"""

from __future__ import annotations

import hashlib
import operator
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.numeric import philox
from gnomon.numeric._addresses import NoSuchAddress, form_of, index_of
from gnomon.numeric.tensors import is_tensor

__all__ = ["AddressReused", "Noise", "NoSuchAddress", "recording", "seed_of"]

Address = tuple[int, int, int, int, int]

_WORD = 1 << 32
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_UNIFORM = {_FLOAT32: philox.uniform32, _FLOAT64: philox.uniform64}
_NORMAL = {_FLOAT32: philox.normal32, _FLOAT64: philox.normal64}
_BERNOULLI = {_FLOAT32: philox.bernoulli32, _FLOAT64: philox.bernoulli64}
_BERNOULLI_LOGITS = {_FLOAT32: philox.bernoulli_logits32, _FLOAT64: philox.bernoulli_logits64}
_recorded: set[Address] | None = None
_places = np.arange(1024, dtype=np.uint32)


class AddressReused(RuntimeError):
    """Two draws used one address within `recording`: their numbers are equal, not independent."""


class Noise:
    """A stream of random numbers, found by address.

    Immutable: `child`, `at` and `rows` give new streams. Draws take NumPy arrays or torch tensors and answer in kind:
    CPU tensors go through the compiled kernels on shared memory, other devices through `philox_torch`, bit for bit the
    same numbers.

    Parameters
    ----------
    seed : int
        Any whole number.
    purpose : str
        Path of what the numbers are for, such as ``"fit/negative"``; streams of different paths are independent.

    Notes
    -----
    Axis 0 of what is drawn is the position, the flattened rest is the element. Without `rows` the position is the
    index on axis 0 (shared noise: initial weights, subsets); with it, row i lies at ``positions[i]``, so that a row
    depends on its place in the global batch and not on which process draws it. A shorter row is the beginning of a
    longer one. Updates and positions are below 2**32, draws below 2**31, elements below 2**34; more raises
    NoSuchAddress, a UserValueError and OverflowError.

    References
    ----------
    Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3.

    Examples
    --------
    >>> noise = Noise(7, "fit").child("negative").at(3)
    >>> noise.uniform((2, 3)).shape
    (2, 3)
    >>> whole, part = noise.rows(np.arange(10)).uniform((10, 5)), noise.rows(np.arange(4, 10)).uniform((6, 5))
    >>> bool((whole[4:] == part).all())
    True
    """

    __slots__ = ("_k0", "_k1", "_positions", "_purpose", "_seed", "_update")

    _seed: int
    _purpose: str
    _k0: int
    _k1: int
    _update: int
    _positions: NDArray[np.uint32] | None

    def __init__(self, seed: int, purpose: str) -> None:
        self._seed, self._purpose = index_of(seed, "seed"), purpose
        self._k0, self._k1 = _key(self._seed, purpose)
        self._update, self._positions = 0, None

    @property
    def seed(self) -> int:
        """The seed."""
        return self._seed

    @property
    def purpose(self) -> str:
        """The purpose path."""
        return self._purpose

    @property
    def update(self) -> int:
        """The update, sweep, temperature or epoch; 0 unless `at` set it."""
        return self._update

    def __repr__(self) -> str:
        rows = "" if self._positions is None else f".rows(<{self._positions.size} positions>)"
        return f"Noise({self._seed}, {self._purpose!r}).at({self._update}){rows}"

    def child(self, purpose: str) -> Noise:
        """The stream ``path/purpose``, at the same update and rows."""
        path = f"{self._purpose}/{purpose}"
        if not purpose or not isinstance(purpose, str):
            raise UserValueError.must("purpose", "be text that is not empty", purpose, "Noise.child")
        new = self._copy()
        new._purpose = path
        new._k0, new._k1 = _key(self._seed, path)
        return new

    def at(self, update: int) -> Noise:
        """The same stream at another update (sweep, temperature, epoch), 0 <= update < 2**32."""
        update = index_of(update, "update")
        if not 0 <= update < _WORD:
            raise NoSuchAddress.must("update", "be in [0, 2**32)", update, remedy="count from 0")
        new = self._copy()
        new._update = update
        return new

    def rows(self, positions: Any) -> Noise:
        """Per-example noise: row i of what is drawn belongs to place positions[i] of the global batch or chain set.

        Parameters
        ----------
        positions : array of integers, shape (n,)
            Each in [0, 2**32). Copied.
        """
        places = np.asarray(positions.cpu() if is_tensor(positions) else positions)
        if places.ndim != 1 or places.dtype.kind not in "iu":
            what = f"positions must be whole numbers on one axis, got {places.dtype} of shape {places.shape}"
            raise UserTypeError(what, "positions")
        found, bad = philox.positions32(np.array(places, dtype=np.int64))
        if bad >= 0:
            what = f"positions must be in [0, 2**32), got {places[bad]} at index {bad}"
            raise NoSuchAddress(what, "positions", "count rows from 0")
        new = self._copy()
        new._positions = found
        return new

    def take(self, indices: Any) -> Noise:
        """The numbers of some rows of what this stream would draw, be its rows placed by `rows` or not.

        `rows` gives places in the global batch and forgets those that were given before; this picks among them.

        Parameters
        ----------
        indices : array of integers, shape (n,)

        Examples
        --------
        >>> noise = Noise(0, "a").rows(np.array([7, 3, 9]))
        >>> bool((noise.take([2, 0]).uniform((2, 4)) == noise.uniform((3, 4))[[2, 0]]).all())
        True
        """
        wanted = np.asarray(indices)
        if wanted.dtype.kind not in "iu" and wanted.size:
            raise UserTypeError(f"indices must be whole numbers, got {wanted.dtype}", "indices")
        if self._positions is None:
            return self.rows(wanted)
        outside = np.flatnonzero((wanted < 0) | (wanted >= len(self._positions)))
        if outside.size:
            what = f"indices must be in [0, {len(self._positions)}), the rows of this stream, got {wanted[outside[0]]}"
            raise UserValueError(what, "indices")
        return self.rows(self._positions[wanted])

    def part(self, begin: int, stop: int) -> Noise:
        """The numbers of rows begin, ..., stop - 1 of what this stream would draw.

        Examples
        --------
        >>> whole = Noise(0, "a").uniform((5, 2))
        >>> bool((Noise(0, "a").part(2, 5).uniform((3, 2)) == whole[2:]).all())
        True
        """
        return self.take(np.arange(begin, stop))

    def address(
        self, n: int | None = None, *, draw: int = 0, draws: int = 1, updates: int = 1
    ) -> tuple[int, int, int, NDArray[Any]]:
        """What a compiled kernel needs to draw by itself: k0, k1, update and positions (uint32).

        Parameters
        ----------
        n : int, optional
            Rows of shared noise; needed unless `rows` was called.
        draw, draws : int
            First draw that the kernel will use, and how many; only `recording` looks at them.
        updates : int
            How many updates the kernel draws for, from this one on.
        """
        if n is None and self._positions is None:
            what = "n is required for shared noise, which has no positions"
            raise UserValueError(what, "n", "give n, or call rows(positions)")
        places = self._places(len(self._positions) if n is None else n)  # type: ignore[arg-type]
        for update in range(updates) if _recorded is not None else {0, updates - 1}:
            stream = self.at(self._update + update) if update else self
            for number in range(draw, draw + draws) if _recorded is not None else (draw, draw + draws - 1):
                stream._claim(places, 0, number)
        return self._k0, self._k1, self._update, places

    def words(self, shape: Sequence[int] | int, draw: int = 0) -> NDArray[np.uint32]:
        """Uniform 32-bit words, uint32."""
        shape, n, width = form_of(shape)
        arguments = self._arguments(n, width, draw)
        out = np.empty((n, width), np.uint32)
        philox.words(out, *arguments)
        return out.reshape(shape)

    def uniform(
        self, shape: Sequence[int] | int, draw: int = 0, *, dtype: DTypeLike | None = None, like: Any = None
    ) -> Any:
        """Uniform numbers in the open interval (0, 1).

        Parameters
        ----------
        shape : int or sequence of int
            The first is the number of rows.
        draw : int
            Number of this call within the step, 0 <= draw < 2**31.
        dtype : dtype, optional
            float32 or float64; by default that of `like`, else float32. Both draw the same number, to 2**-24.
        like : array or tensor, optional
            The kind, device and dtype of the answer.

        Returns
        -------
        ndarray or Tensor
            float32: (w + 1/2) 2**-23 with 23 random bits w; float64: (w + 1/2) 2**-52 with 52.
        """
        return self._fill(_UNIFORM, shape, draw, dtype, like)

    def normal(
        self, shape: Sequence[int] | int, draw: int = 0, *, dtype: DTypeLike | None = None, like: Any = None
    ) -> Any:
        """Standard normal numbers by Box and Muller (1958) on pairs of words; parameters as in `uniform`.

        Elements 2j and 2j + 1 are r sin(a), r cos(a) with r = sqrt(-2 log u), u from word 2j and a from word 2j + 1.
        Magnitudes reach 6.66 in float32 and 8.57 in float64; both dtypes draw the same number to 1e-5 while
        abs(z) < 4, beyond that float64 has the finer tail.
        """
        return self._fill(_NORMAL, shape, draw, dtype, like)

    def bernoulli(self, p: Any, draw: int = 0) -> Any:
        """1 where u < p, else 0, in the kind, shape and dtype of `p`; where p is NaN, 0.

        Parameters
        ----------
        p : array or tensor of float32 or float64
            Probabilities; axis 0 is the row.
        draw : int
            Number of this call within the step.
        """
        return self._compare(_BERNOULLI, p, draw)

    def bernoulli_logits(self, logits: Any, draw: int = 0) -> Any:
        """1 where u < sigmoid(logit), in one pass: the bits of ``bernoulli(numeric.fast.sigmoid(logits), draw)``."""
        return self._compare(_BERNOULLI_LOGITS, logits, draw)

    def integers(self, high: int, shape: Sequence[int] | int, draw: int = 0, *, like: Any = None) -> Any:
        """Whole numbers in [0, high), int64, by multiply-high of 64-bit words.

        Parameters
        ----------
        high : int
            1 <= high <= 2**63 - 1. A value's probability is off by less than 2**-64, relatively high * 2**-64.
        shape, draw, like
            As in `uniform`; `like` gives the kind and device only.
        """
        high = index_of(high, "high")
        if not 0 < high < 1 << 63:
            raise UserValueError.must("high", "be in [1, 2**63 - 1]", high)
        shape, n, width = form_of(shape)
        arguments = self._arguments(n, width, draw)
        if not is_tensor(like):
            out = np.empty((n, width), np.int64)
            philox.integers(high, out, *arguments)
            return out.reshape(shape)
        backend, places = _backend(arguments[0], like)
        return backend.integers(high, places, width, *arguments[1:]).reshape(shape)

    def order(self, n: int) -> NDArray[np.int64]:
        """A random permutation of range(n): rows sorted by their 64-bit words at this update (the epoch).

        Cost: one block per row for each half and a sort; about 2 ms for n = 60,000.

        Examples
        --------
        >>> sorted(Noise(0, "order").at(2).order(5).tolist())
        [0, 1, 2, 3, 4]
        """
        if self._positions is not None:
            raise UserValueError(
                "order needs shared noise, without rows", "Noise.order", "call it before rows(positions)"
            )
        arguments = self._arguments(n, 1, 0)
        keys = np.empty((n, 1), np.uint64)
        philox.words64(keys, *arguments)
        flat = keys[:, 0]
        order = np.argsort(flat)  # vectorized, five times as fast as a stable sort; equal words are a 2**-30 event
        ordered = flat[order]
        return np.argsort(flat, kind="stable") if (ordered[1:] == ordered[:-1]).any() else order

    def _copy(self) -> Noise:
        new = object.__new__(Noise)
        new._seed, new._purpose, new._k0, new._k1 = self._seed, self._purpose, self._k0, self._k1
        new._update, new._positions = self._update, self._positions
        return new

    def _places(self, n: int) -> NDArray[np.uint32]:
        places = self._positions
        if places is None:
            return _arange(n)
        if len(places) != n:
            what = f"shape must have {len(places)} rows, one for each position, got {n}"
            raise UserValueError(what, "shape")
        return places

    def _claim(self, places: NDArray[np.uint32], width: int, draw: int) -> None:
        """Refuse what has no address; within `recording`, refuse an address used before."""
        if not 0 <= draw < 1 << 31:
            raise NoSuchAddress.must("draw", "be in [0, 2**31)", draw, remedy="count draws of a step from 0")
        if not 0 <= width <= 1 << 34:
            what = f"a row must have 0 to 2**34 elements, got {width}"
            raise NoSuchAddress(what, "shape", "use more rows, or fewer elements")
        if _recorded is None:
            return
        for place in places.tolist():
            address = (self._k0, self._k1, self._update, draw, place)
            if address in _recorded:
                raise AddressReused(f"{self!r} drew twice at draw {draw}, position {place}")
            _recorded.add(address)

    def _arguments(self, n: int, width: int, draw: int) -> tuple[NDArray[np.uint32], int, int, int, int]:
        if n.__class__ is not int or width.__class__ is not int or draw.__class__ is not int:
            n, width, draw = index_of(n, "shape"), index_of(width, "shape"), index_of(draw, "draw")
        places = self._places(n)
        self._claim(places, width, draw)
        return places, draw, self._update, self._k0, self._k1

    def _fill(self, kernels: dict[Any, Any], shape: Any, draw: int, dtype: Any, like: Any) -> Any:
        shape, n, width = form_of(shape)
        arguments = self._arguments(n, width, draw)
        if not is_tensor(like):
            dtype = _dtype(dtype or getattr(like, "dtype", _FLOAT32))
            out = np.empty((n, width), dtype)
            _kernel(kernels, dtype)(out, *arguments)
            return out.reshape(shape)
        import torch

        kind = _torch_dtype(like.dtype if dtype is None else dtype)
        if like.device.type == "cpu":
            result = torch.empty((n, width), dtype=kind)
            view = result.numpy()
            _kernel(kernels, view.dtype)(view, *arguments)
            return result.reshape(shape)
        backend, places = _backend(arguments[0], like)
        fill = backend.uniform if kernels is _UNIFORM else backend.normal
        return fill(places, width, kind, *arguments[1:]).reshape(shape)

    def _compare(self, kernels: dict[Any, Any], p: Any, draw: int) -> Any:
        try:
            shape, n, width = form_of(p.shape)
        except AttributeError:
            raise UserTypeError.must("p", "be an array or a tensor", p) from None
        arguments = self._arguments(n, width, draw)
        if not is_tensor(p):
            p = np.ascontiguousarray(p).reshape(n, width)
            out = np.empty_like(p)
            # A read-only input would be another type, hence another compilation.
            _kernel(kernels, p.dtype)(p if p.flags.writeable else p.copy(), out, *arguments)
            return out.reshape(shape)
        import torch

        p, kind = p.detach(), _torch_dtype(p.dtype)
        if p.device.type == "cpu":
            result = torch.empty((n, width), dtype=kind)
            source, view = p.contiguous().numpy().reshape(n, width), result.numpy()
            _kernel(kernels, view.dtype)(source, view, *arguments)
            return result.reshape(shape)
        backend, places = _backend(arguments[0], p)
        compare = backend.bernoulli if kernels is _BERNOULLI else backend.bernoulli_logits
        return compare(p.reshape(n, width), places, *arguments[1:]).reshape(shape)


@contextmanager
def recording() -> Iterator[set[Address]]:
    """Within the context, using one address twice raises AddressReused. For tests.

    An address is (k0, k1, update, draw, position): two draws of one row share their first elements.

    Examples
    --------
    >>> with recording():
    ...     first, second = Noise(0, "a").uniform(3), Noise(0, "a").uniform(3, draw=1)
    """
    global _recorded
    before, _recorded = _recorded, set()
    try:
        yield _recorded
    finally:
        _recorded = before


def seed_of(random_state: Any) -> int:
    """The seed that a `random_state` stands for.

    Parameters
    ----------
    random_state : int, None, numpy.random.Generator or numpy.random.RandomState
        An int is itself; None draws fresh entropy from the operating system; a generator gives one 64-bit number.

    Examples
    --------
    >>> seed_of(3)
    3
    """
    if random_state is None:
        return secrets.randbits(63)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(0, 1 << 64, dtype=np.uint64))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, 1 << 64, dtype=np.uint64))
    try:
        if isinstance(random_state, bool | np.bool_):
            raise TypeError  # 0 and 1 in disguise: somebody's flag in the place of a seed
        return operator.index(random_state)
    except TypeError:
        raise UserTypeError.must("random_state", "be an int, None or a NumPy generator", random_state) from None


@lru_cache(maxsize=4096)
def _key(seed: int, purpose: str) -> tuple[int, int]:
    if not isinstance(purpose, str) or not purpose or "\0" in purpose:
        raise UserValueError(f"purpose must be text without NUL, got {shown(purpose)}", "purpose")
    text = b"\0".join((b"gnomon-noise-1", str(seed).encode(), purpose.encode()))
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def _arange(n: int) -> NDArray[np.uint32]:
    """Positions 0 .. n - 1; one array serves every call up to a million rows."""
    global _places
    if 0 <= n <= _places.size:
        return _places[:n]
    if n < 0:
        raise UserValueError.must("shape", "have at least 0 rows", n)
    if n > _WORD:
        raise NoSuchAddress(f"shape must have at most 2**32 rows, got {n}", "shape", "draw them in parts")
    places = np.arange(n, dtype=np.uint32)
    if n <= 1 << 20:
        _places = places
    return places


def _dtype(kind: Any) -> Any:
    try:
        return np.dtype(kind)
    except TypeError:
        raise UserTypeError.must("dtype", "be float32 or float64", kind) from None


def _kernel(kernels: dict[Any, Any], dtype: Any) -> Any:
    try:
        return kernels[dtype]
    except KeyError:
        raise UserTypeError(f"dtype must be float32 or float64, got {dtype}", "dtype") from None


def _torch_dtype(dtype: Any) -> Any:
    """The torch name of float32 or float64, given by torch's or NumPy's."""
    import torch

    name = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else np.dtype(dtype).name
    if name not in ("float32", "float64"):
        raise UserTypeError.must("dtype", "be float32 or float64", dtype)
    return getattr(torch, name)


def _backend(places: NDArray[np.uint32], like: Any) -> tuple[Any, Any]:
    """The torch functions, and the positions on the device of `like`."""
    import torch

    from gnomon.numeric import philox_torch

    return philox_torch, torch.from_numpy(places.astype(np.int64)).to(like.device)
