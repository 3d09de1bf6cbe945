"""Parts side by side: order, bits, errors, and one level of parallelism."""

import os
import threading

import numpy as np
import pytest

from gnomon.distributions.gaussian import FORMS
from gnomon.numeric import threads
from gnomon.numeric.threads import at_most, controller, in_threads, lanes, n_threads, one_thread_each
from gnomon.training.context import limited


def test_results_come_in_the_order_of_the_parts_and_from_as_many_threads():
    both = threading.Barrier(2, timeout=20)  # passes only where two parts run at once

    def work(part):
        both.wait()
        return part, threading.get_ident()

    with at_most(2):
        found = in_threads(work, [3, 1])
    assert [part for part, _ in found] == [3, 1]
    assert len({thread for _, thread in found}) == 2


def test_little_work_and_one_thread_stay_on_the_calling_thread():
    here = threading.get_ident()
    with at_most(4):
        assert in_threads(lambda part: threading.get_ident(), [0, 1], size=threads.SERIAL - 1) == [here, here]
    with at_most(1):
        assert in_threads(lambda part: threading.get_ident(), [0, 1]) == [here, here]


def test_a_part_does_not_divide_its_work_again():
    def outer(part):
        return {threading.get_ident()} == set(in_threads(lambda inner: threading.get_ident(), range(4)))

    with at_most(2):
        assert in_threads(outer, range(2)) == [True, True]


def test_an_error_of_a_part_reaches_the_caller_after_the_others_have_ended():
    ended = []

    def work(part):
        if part == 0:
            raise ZeroDivisionError
        ended.append(part)

    with at_most(2), pytest.raises(ZeroDivisionError):
        in_threads(work, [0, 1])
    assert ended in ([], [1])  # not begun, or done; never under way
    before = list(ended)
    threading.Event().wait(0.05)
    assert ended == before


def test_long_work_is_told_to_stop_before_it_is_waited_for():
    begun, stop, seen = threading.Event(), threading.Event(), []

    def work(part):
        if part == 0:
            begun.wait(20)
            raise KeyboardInterrupt
        begun.set()
        seen.append(stop.wait(5))

    with at_most(2), pytest.raises(KeyboardInterrupt):
        in_threads(work, [0, 1], stop=stop)
    assert seen == [True]


def test_the_number_of_threads_is_the_contexts_then_the_environments(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert n_threads() == 1
    with limited(3):
        assert n_threads() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert n_threads() == len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else n_threads() >= 1


def test_products_are_held_to_one_thread_and_get_theirs_back():
    def used():
        return [one.num_threads for one in controller().lib_controllers if one.user_api == "blas"]

    with controller().limit(limits=2, user_api="blas"):
        with one_thread_each():
            assert set(used()) == {1}
        assert set(used()) <= {1, 2}
        assert 2 in used() or (os.cpu_count() or 1) < 2


def test_lanes_cover_every_row_once():
    for n in (0, 1, 7):
        with at_most(3):
            parts = lanes(n)
        assert parts == lanes(n, 3)
        np.testing.assert_array_equal(np.concatenate([np.arange(n)[part] for part in parts]), np.arange(n))


@pytest.mark.parametrize("form", FORMS)
def test_sums_over_rows_have_the_same_bits_on_any_number_of_threads(form):
    random = np.random.default_rng(0)
    X, weight = random.normal(size=(9000, 3)), random.random(9000)
    unit = {"full": np.eye(3)[None].repeat(2, 0), "tied": np.eye(3), "diag": np.ones((2, 3)), "spherical": np.ones(2)}
    normals = FORMS[form](X[:2], unit[form])
    with at_most(1):
        alone = normals.expect(X, np.log([0.5, 0.5]), weight)
    with at_most(2):
        together = normals.expect(X, np.log([0.5, 0.5]), weight)
    for name, value in alone.items():
        np.testing.assert_array_equal(together[name], value)
