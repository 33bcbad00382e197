"""docs/guide/first-minutes.md in a real browser, on the demo as it comes. Prints `ok NAME` or `FAILED NAME: reason` per step."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

BIN = os.environ["HALCYON_BIN"]
SCREENSHOTS = os.environ.get("HALCYON_SCREENSHOTS")
SCALE = os.environ.get("HALCYON_DEMO_SF", "0.01")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/first-minutes.md"
# A machine that does other work besides is slow, and not wrong.
expect.set_options(timeout=30_000)


def demo():
    """The demo's server, and the console's address once all that it prints has come."""
    server = subprocess.Popen(
        [BIN, "serve", "--demo", "--demo-sf", SCALE, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told = ""
    while "Ctrl-C ends it" not in told:
        line = server.stdout.readline()
        if not line:
            raise SystemExit(f"the demo did not start:\n{told}")
        told += line
    threading.Thread(target=server.stdout.read, daemon=True).start()
    return server, told


class Minutes:
    def __init__(self, page, url, told):
        self.page, self.url, self.told = page, url, told

    def enters(self):
        self.page.goto(self.url)
        expect(self.page.get_by_label("Role")).to_have_value("halcyon")
        self.page.get_by_role("button", name="Log in").click()
        expect(self.page.get_by_role("navigation")).to_be_visible()

    def promises(self):
        classes = self.page.get_by_role("region", name="Workload classes")
        for name, target in (("market", "P99 5ms"), ("shop", "P99 20ms")):
            row = classes.get_by_role("row", name=re.compile(f"^{name}\\b"))
            expect(row).to_contain_text(target)
            expect(row).to_contain_text(re.compile(r"\d+(\.\d+)? (µs|ms|s)"))
        expect(classes.get_by_role("row", name=re.compile(r"^reports\b"))).to_be_visible()
        self.axe("overview of the demo")

    def follows(self):
        self.page.goto(f"{self.url}#/views")
        self.page.get_by_role("button", name="market.book").click()
        expect(self.page.locator(".costs")).to_contain_text("market.orders")
        rows = self.page.get_by_role("region", name="Rows of market.book")
        expect(rows.locator("tbody tr")).to_have_count(6)
        before = rows.inner_text()
        deadline = time.monotonic() + 30
        while rows.inner_text() == before:
            assert time.monotonic() < deadline, "the rows do not change"
            time.sleep(0.1)
        self.axe("the view of best prices")

    def refused(self):
        """The page's statement, which is the one that the server prints."""
        statement = re.search(r"```sql\n(INSERT .*)\n```", PAGE.read_text())[1]
        assert statement + ";" in self.told, "the server prints another statement than the page has"
        self.page.goto(f"{self.url}#/query")
        alert = self.page.locator(".results").get_by_role("alert")
        editor = self.page.get_by_role("textbox", name="SQL")
        editor.fill(statement)
        editor.press("Escape")
        editor.press("Control+Enter")
        expect(alert).to_contain_text('assertion "within_credit" is violated')
        expect(alert).to_contain_text("23514")
        self.axe("the refused trade")

    def axe(self, name):
        found = Axe().run(self.page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, f"{name}: {found.generate_report()}"

    def shot(self, name):
        self.page.screenshot(path=str(pathlib.Path(SCREENSHOTS) / f"minutes-{name}.png"))


def main():
    begin = time.monotonic()
    server, told = demo()
    url = re.search(r"console at (\S+)", told)[1]
    failed = 0
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
            minutes = Minutes(context.new_page(), url, told)
            steps = [("log in without a password", minutes.enters, None), ("who keeps which promise", minutes.promises, "overview"),
                     ("a live view changes", minutes.follows, "views"), ("a rule is broken, and refused", minutes.refused, "refused")]
            for name, step, picture in steps:
                try:
                    step()
                    print(f"ok {name}, {time.monotonic() - begin:.0f} s after the start", flush=True)
                    if SCREENSHOTS and picture:
                        time.sleep(30 if picture != "refused" else 0)
                        minutes.shot(picture)
                except Exception as error:
                    failed += 1
                    print(f"FAILED {name}: {error}", flush=True)
                    traceback.print_exc()
            browser.close()
        assert server.poll() is None, "the server has ended"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)
    print(f"{len(steps) - failed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
