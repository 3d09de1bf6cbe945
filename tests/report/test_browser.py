"""Pages in a browser: nothing is wider than the screen, nothing is asked for, all can be read and reached by key.

A headless Chromium of the machine; skipped where there is none.
"""

import json

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run as command
from gnomon.report.verb import report
from oracles.browser import Browser, found

pytestmark = [pytest.mark.slow, pytest.mark.skipif(found() is None, reason="no Chromium on this machine")]

LONG = "no_blank_in_it" * 800
FITS = {
    "classes": ["logistic-regression", "breast-cancer"],
    "line": ["linear-regression", "diabetes"],
    "trees": ["random-forest", "iris", "--n-trees", "5"],
    "vae": ["vae", "digits", "--epochs", "2", "--n-latent", "3"],
    "machine": ["rbm", "digits", "--epochs", "1", "--n-hidden", "30"],
    "latents": ["ppca", "wine", "--n-components", "2"],
    "clusters": ["kmeans", "digits", "--n-clusters", "30"],
    "english": ["ngram", "python-reference"],
    "dates": ["seq2seq", "dates", "--epochs", "1", "--n-hidden", "8"],
}
LEAST_CONTRAST = 4.5
"""Of text on its ground: level AA of WCAG 2.1."""

CONTRAST = """(() => {
  const part = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const color = text => text.match(/[\\d.]+/g).map(Number);
  const ground = node => {
    for (; node; node = node.parentElement) {
      const c = color(getComputedStyle(node).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
  };
  let least = [99, ''];
  for (const node of document.querySelectorAll('h1,h2,h3,p,a,th,td,dt,dd,summary,figcaption,b,bdi')) {
    if (node.className === 'skip' || node.closest('.skip')) continue;
    const [a, b] = [light(color(getComputedStyle(node).color)), light(ground(node))];
    const found = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (found < least[0]) least = [found, node.outerHTML.slice(0, 80)];
  }
  return least;
})()"""
WIDE = """[...document.querySelectorAll('main *, header *, nav *')].filter(one =>
  !one.closest('.wide, svg') && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
).map(one => one.outerHTML.slice(0, 80))"""
UNNAMED = """[...document.querySelectorAll('svg, img')].filter(one =>
  !(one.getAttribute('aria-label') || one.getAttribute('alt') || '').trim() || (one.tagName === 'svg' &&
  one.getAttribute('role') !== 'img')).map(one => one.outerHTML.slice(0, 80))"""
CUT = """[...document.querySelectorAll('figure svg')].flatMap(svg => {
  const room = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(one => {
    const box = one.getBoundingClientRect();
    return box.width && (box.left < room.left - 2 || box.right > room.right + 2 || box.top < room.top - 2 ||
      box.bottom > room.bottom + 2);
  }).map(one => one.textContent);
})"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    files = {}
    for name, words in FITS.items():
        assert command(["fit", *words, "--out", str(folder / name), "--random-state", "0", "--json"]) == 0
        files[name] = report(folder / name)
    gnomon.sample_chain(
        lambda x: -0.5 * (x * x).sum(-1), start=3, draws=200, burn_in=100, random_state=0, run=folder / "chains"
    )
    files["chains"] = report(folder / "chains")
    files["several"] = report([folder / "classes", folder / "trees", folder / "chains"], folder / "several.html")
    files["wide"] = wide_and_hostile(folder)
    return files


def wide_and_hostile(folder):
    """A table of 200 columns and 100 classes with names that no page would like."""
    random = np.random.default_rng(1)
    kind = np.arange(600) % 100
    X = random.normal(size=(600, 200)) + kind[:, None] * 0.02
    head = ",".join([LONG, '"<img src=x>"', "\u202eeman", *(f"column_{i}" for i in range(197)), "kind"])
    rows = [",".join([*(f"{v:.3f}" for v in row), f"class {k} {LONG[:300]}"]) for row, k in zip(X, kind, strict=True)]
    (folder / "wide.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    words = ["fit", "gaussian-classifier", str(folder / "wide.csv"), "--target", "kind", "--out", str(folder / "wide")]
    assert command([*words, "--json"]) == 0
    return report(folder / "wide")


@pytest.fixture(scope="module")
def browser():
    one = Browser()
    yield one
    one.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("name", [*FITS, "chains", "several", "wide"])
def test_a_page_fits_the_screen_asks_for_nothing_and_can_be_read(pages, browser, name, width, dark):
    file = pages[name]
    browser.open(file, width=width, dark=dark)
    across, room = browser.run("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert across <= room == width, browser.run(WIDE)
    assert browser.requests() == [file.resolve().as_uri()]
    assert browser.complaints() == []
    least, where = browser.run(CONTRAST)
    assert least >= LEAST_CONTRAST, where
    assert browser.run(UNNAMED) == []
    assert browser.run(CUT) == []
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 384) is dark, ground


def test_a_page_that_is_too_wide_or_asks_or_is_pale_would_be_seen(tmp_path, browser):
    """The checks themselves: each is broken once."""
    page = (
        '<!DOCTYPE html><html><body style="background:#fff"><main><p style="width:2000px;color:#999">pale</p>'
        '<svg width="9" height="9"></svg><img src="missing.png"></main></body></html>'
    )
    (tmp_path / "bad.html").write_text(page)
    browser.open(tmp_path / "bad.html", width=390, dark=False)
    assert browser.run("document.documentElement.scrollWidth") > 390 and browser.run(WIDE)
    assert len(browser.requests()) == 2 and browser.complaints()
    assert browser.run(CONTRAST)[0] < LEAST_CONTRAST and len(browser.run(UNNAMED)) == 2


@pytest.mark.parametrize("name", ["classes", "chains", "several"])
def test_every_section_is_reached_by_keyboard(pages, browser, name):
    browser.open(pages[name], width=390, dark=False)
    sections = browser.run("document.querySelectorAll('main > section').length")
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left") >= 0  # it can be seen once it is reached
    reached = []
    for _ in range(sections):
        browser.press("Tab")
        reached.append(browser.run("document.activeElement.getAttribute('href')"))
    assert reached == [f"#s{i}" for i in range(sections)]
    browser.press("Enter")
    assert browser.run("location.hash") == reached[-1]
    top = browser.run(f"document.querySelector({json.dumps(reached[-1])}).getBoundingClientRect().top")
    assert top < 900  # it has come into sight
    stops = browser.run("[...document.querySelectorAll('.wide')].every(one => one.tabIndex === 0)")
    assert stops is True  # a table that scrolls is scrolled by key
