"""A headless Chromium that a test drives over a pipe (the DevTools protocol), with the standard library alone."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SECONDS = 60.0
"""How long one answer may take."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
WATCHED = ("Network.requestWillBeSent", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


def found() -> str | None:
    """The path of a browser; None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page of one browser; `events` holds what it asked the network for and what it complained of."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="browser-")
        to_child, self.out = _high_pipe()
        self.inward, from_child = _high_pipe()
        silent = os.open(os.devnull, os.O_WRONLY)
        browser = str(found())
        self.process = os.posix_spawn(
            browser, [browser, *OPTIONS, f"--user-data-dir={self.folder}"], os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, to_child, 3), (os.POSIX_SPAWN_DUP2, from_child, 4),
                (os.POSIX_SPAWN_DUP2, silent, 1), (os.POSIX_SPAWN_DUP2, silent, 2),
            ],
        )  # fmt: skip
        for one in (to_child, from_child, silent):
            os.close(one)
        self.numbers, self.buffer, self.session = itertools.count(1), b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers; events that come in between are kept."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            told = self._read()
            if told.get("id") == number:
                assert "error" not in told, told
                return told["result"]

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + SECONDS
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.inward], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self.inward, 1 << 20)
            assert more, "the browser has ended"
            self.buffer += more
        first, _, self.buffer = self.buffer.partition(b"\0")
        told: dict[str, Any] = json.loads(first)
        if "method" in told:
            self.events.append(told)
        return told

    def open(self, file: Path, *, width: int, dark: bool) -> None:
        """Show a file in a window of this width and theme; earlier events are forgotten."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[theme])
        self.events.clear()
        self.ask("Page.navigate", url=file.resolve().as_uri())
        while not any(one["method"] == "Page.loadEventFired" for one in self.events):
            self._read()

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        code: Mapping[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": {"Tab": 9, "Enter": 13}[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **code)

    def picture(self, file: Path) -> None:
        """Write the whole page as PNG."""
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        file.write_bytes(base64.b64decode(shot["data"]))

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        sent = [one["params"]["request"]["url"] for one in self.events if one["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("data:")]

    def complaints(self) -> list[str]:
        """Errors and warnings of the console."""
        kinds = set(WATCHED) - {"Network.requestWillBeSent"}
        return [json.dumps(one["params"]) for one in self.events if one["method"] in kinds]

    def close(self) -> None:
        """End the browser and remove its folder."""
        os.close(self.out)  # the end of the pipe ends it
        end = time.monotonic() + 10
        while not os.waitpid(self.process, os.WNOHANG)[0]:
            if time.monotonic() > end:
                os.kill(self.process, signal.SIGKILL)
                os.waitpid(self.process, 0)
                break
            time.sleep(0.05)
        os.close(self.inward)
        shutil.rmtree(self.folder, ignore_errors=True)


def _high_pipe() -> list[int]:
    """Both ends of a pipe, with numbers that are none of those that the browser listens to."""
    ends = []
    for one in os.pipe():
        ends.append(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(one)
    return ends
