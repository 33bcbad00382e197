"""The console in a real browser. Prints `ok NAME` or `FAILED NAME: reason` per check, and counts them."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import psycopg
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

BIN = os.environ["HALCYON_BIN"]
SCREENSHOTS = os.environ.get("HALCYON_SCREENSHOTS")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = {
    "overview": "Overview", "query": "SQL", "sessions": "Sessions and locks", "views": "Views",
    "statements": "Statements", "memory": "Tables and memory", "workload": "Workload", "machine": "Machine",
}

SETUP = """
CREATE ROLE ann LOGIN PASSWORD 'secret';
CREATE SCHEMA market;
CREATE TABLE market.trades (id BIGINT PRIMARY KEY, symbol TEXT, price NUMERIC(12,2), quantity INTEGER, at TIMESTAMPTZ DEFAULT now());
CREATE TABLE market.accounts (id INTEGER PRIMARY KEY, owner TEXT, balance BIGINT);
INSERT INTO market.accounts SELECT i, 'owner ' || i, 1000 FROM generate_series(1, 20000) i;
CREATE MATERIALIZED VIEW market.turnover AS
    SELECT symbol, COUNT(*) AS trades, SUM(quantity) AS quantity, SUM(price * quantity) AS turnover FROM market.trades GROUP BY symbol;
CREATE MATERIALIZED VIEW market.owners AS SELECT owner, SUM(balance) AS balance FROM market.accounts GROUP BY owner;
CREATE WORKLOAD CLASS desk SET 'PRIORITY' = 8, 'LATENCY TARGET P99' = '50ms';
CREATE WORKLOAD CLASS nightly SET 'PRIORITY' = 2, 'CONCURRENCY LIMIT' = 2;
CREATE WORKLOAD MAPPING desk WORKLOAD CLASS desk SET 'APPLICATION NAME' = 'desk%' WITH WILDCARD;
CREATE WORKLOAD MAPPING nightly WORKLOAD CLASS nightly SET 'APPLICATION NAME' = 'nightly'
"""
SYMBOLS = ["ALBA", "BORA", "CIRO", "DELTA", "EURO", "FARO"]


class Server:
    """A server with a folder, which can go away and come back at the same addresses."""

    def __init__(self, folder):
        self.folder = folder
        self.wire = self.http = "127.0.0.1:0"
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [BIN, "serve", "--data", self.folder, "--listen", self.wire, "--http", self.http],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        told = ""
        while "console at" not in told:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"the server did not start:\n{told}")
            told += line
        self.wire = re.search(r"ready after .* at (\S+)", told)[1]
        self.url = re.search(r"console at (\S+)", told)[1]
        self.http = self.url.removeprefix("http://").rstrip("/")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(timeout=30)

    def connect(self, name="check", role="halcyon"):
        host, port = self.wire.split(":")
        return psycopg.connect(host=host, port=port, user=role, dbname="halcyon", application_name=name, autocommit=True)


class Traffic:
    """Trades and queries, so that pages have something to show."""

    def __init__(self, server):
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(server, work), daemon=True) for work in (self.trade, self.ask)]
        for thread in self.threads:
            thread.start()

    def run(self, server, work):
        try:
            with server.connect({self.trade: "desk trades", self.ask: "nightly"}[work]) as connection:
                first = connection.execute("SELECT coalesce(max(id), 0) FROM market.trades").fetchone()[0]
                turn = 0
                while not self.over.is_set():
                    turn += 1
                    work(connection, first + turn)
        except psycopg.Error:
            pass

    def trade(self, connection, number):
        connection.execute("INSERT INTO market.trades (id, symbol, price, quantity) VALUES (%s, %s, %s, %s)",
                           (number, SYMBOLS[number * 7 % 6], 10 + number * 37 % 900 / 10, 1 + number % 50))
        if number % 9 == 0:
            connection.execute("SELECT count(*) FROM market.trades WHERE symbol = %s AND price > 20", ("ALBA",))
        time.sleep(0.01)

    def ask(self, connection, number):
        connection.execute("SELECT a.owner, b.balance, count(*) FROM market.accounts a JOIN market.accounts b USING (id) GROUP BY 1, 2")
        time.sleep(0.25)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(10)


# A machine that does other work besides is slow, and not wrong.
expect.set_options(timeout=15_000)
passed = failed = 0


def check(name, work):
    global passed, failed
    try:
        work()
        passed += 1
        print(f"ok {name}", flush=True)
    except BaseException as error:
        failed += 1
        print(f"FAILED {name}: {error}", flush=True)
        traceback.print_exc()
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise


def main():
    folder = tempfile.mkdtemp(prefix="halcyon-console-")
    server = Server(f"{folder}/data")
    server.start()
    traffic = None
    try:
        with server.connect() as connection:
            for statement in SETUP.split(";"):
                connection.execute(statement)
        traffic = Traffic(server)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            checks = Checks(server, browser)
            checks.all()
            browser.close()
    finally:
        if traffic:
            traffic.over.set()
        if server.process.poll() is None:
            server.stop()
        if traffic:
            traffic.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


class Checks:
    def __init__(self, server, browser):
        self.server = server
        self.browser = browser
        self.troubles = []
        self.context = self.new_context()
        self.page = self.new_page(self.context)

    def new_context(self, width=1360, height=900, scheme="light"):
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce")
        context.set_default_timeout(15_000)
        return context

    def new_page(self, context):
        page = context.new_page()
        page.on("pageerror", lambda error: self.troubles.append(f"{page.url}: {error}"))
        page.on("console", lambda message: self.heard(page, message))
        page.on("request", lambda request: self.requested(request))
        return page

    # What a server that is away or a refused request makes the browser say is no trouble.
    def heard(self, page, message):
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.troubles.append(f"{page.url}: {message.text}")

    def requested(self, request):
        if not request.url.startswith((self.server.url, "data:", "blob:")):
            self.troubles.append(f"a request to {request.url}")

    def all(self):
        check("a wrong password is told and the page stays", self.wrong_password)
        check("login, and back to it", self.login)
        for page in PAGES:
            check(f"page {page} shows live data", lambda: self.opened(page))
        check("each panel names its SQL", self.sources)
        check("the heat map and the charts have pictures", self.pictures)
        check("a statement runs, with rows, NULL and a chart", self.statement)
        check("an error is told with its state and its place", self.error)
        check("more rows than are shown is told", self.cut)
        check("a statement is cancelled", self.cancelled)
        check("completion from the catalog, by keys alone", self.completion)
        check("EXPLAIN ANALYZE is a tree", self.plan)
        check("a transaction stays open and is told", self.transaction)
        check("who waits for whom is a graph, and a wait is ended from it", self.waits)
        check("work that lasts is shown with its bar", self.works)
        check("a view has its certificate and live rows", self.view)
        check("a form shows its SQL, and runs it", self.form)
        check("another role sees what it may", self.role)
        check("a theme is kept", self.theme)
        check("keys alone reach the pages", self.keys)
        for width, scheme in ((360, "light"), (1360, "dark"), (2400, "light")):
            check(f"{width} px, {scheme}: nothing overflows and axe finds nothing", lambda: self.fits(width, scheme))
        check("a server that goes away and comes back", self.away)
        check("the console says nothing is wrong", lambda: self.expect_no_troubles())
        if SCREENSHOTS:
            check("screenshots", self.screenshots)

    def expect_no_troubles(self):
        assert not self.troubles, self.troubles

    def enter(self, page, role="halcyon", password=""):
        page.goto(self.server.url)
        page.get_by_label("Role").fill(role)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("navigation")).to_be_visible()

    def to(self, page, name):
        page.goto(f"{self.server.url}#/{name}")
        expect(page.get_by_role("heading", level=1)).to_have_text(PAGES[name])

    def wrong_password(self):
        self.page.goto(self.server.url)
        expect(self.page.get_by_label("Role")).to_have_value("halcyon")
        self.page.get_by_label("Role").fill("ann")
        self.page.get_by_label("Password").fill("wrong")
        self.page.get_by_role("button", name="Log in").click()
        expect(self.page.get_by_role("alert")).to_contain_text("password authentication failed")
        self.axe(self.page, "login")

    def login(self):
        self.enter(self.page)
        expect(self.page.get_by_text("live", exact=True)).to_be_visible()
        self.page.get_by_role("button", name="Log out").click()
        expect(self.page.get_by_text("You are logged out.")).to_be_visible()
        self.enter(self.page)
        assert self.page.evaluate("document.cookie") == "", "no script reads the cookie"

    def opened(self, name):
        self.to(self.page, name)
        if name == "query":
            expect(self.page.get_by_role("textbox", name="SQL")).to_be_visible()
        else:
            expect(self.page.locator("main table tbody tr").first).to_be_visible()
        expect(self.page.locator(".problem")).to_have_count(0)
        self.axe(self.page, name)

    def sources(self):
        for name in PAGES:
            self.to(self.page, name)
            if name == "query":
                continue
            sources = self.page.locator("details.source")
            assert sources.count() >= 1, name
            sources.first.locator("summary").click()
            expect(sources.first.locator("code").first).to_contain_text("halcyon.")
        self.page.locator("details.source a").first.click()
        expect(self.page.get_by_role("textbox", name="SQL")).to_have_value(re.compile("halcyon.workers"))

    def pictures(self):
        self.to(self.page, "overview")
        expect(self.page.locator(".u-wrap canvas")).to_have_count(2)
        expect(self.page.locator("canvas.heat")).to_have_attribute("aria-label", re.compile(r"worker 0 \d+ %"))
        expect(self.page.locator(".chart").first).to_have_attribute("aria-label", re.compile("desk"))
        expect(self.page.get_by_role("region", name="Workload classes")).to_contain_text("P99 50ms")

    def sql(self, text, page=None):
        page = page or self.page
        self.to(page, "query")
        page.get_by_role("textbox", name="SQL").fill(text)
        page.get_by_role("textbox", name="SQL").press("Escape")

    def run(self, text, page=None):
        page = page or self.page
        self.sql(text, page)
        page.get_by_role("textbox", name="SQL").press("Control+Enter")

    def statement(self):
        self.run("SELECT i, NULL AS nothing, '<b>' || i AS text FROM generate_series(1, 12) i; SELECT 1 AS one")
        table = self.page.get_by_role("region", name="Result").first
        expect(table.locator("tbody tr")).to_have_count(12)
        expect(table).to_contain_text("<b>12")
        expect(table).to_contain_text("NULL")
        expect(self.page.locator(".run-status")).to_contain_text("2 statements, 13 rows")
        self.run("SELECT i, i * i AS square FROM generate_series(1, 50) i")
        # Until then the results are those of the statement before.
        expect(self.page.locator(".run-status")).to_contain_text("50 rows shown")
        self.page.get_by_role("button", name="Chart").first.click()
        expect(self.page.locator(".results .u-wrap canvas")).to_be_visible()
        self.axe(self.page, "query with a chart")

    def error(self):
        self.run("SELECT 1;\nSELECT nothing FROM market.accounts")
        alert = self.page.locator(".results").get_by_role("alert")
        expect(alert).to_contain_text("42703")
        expect(self.page.get_by_role("region", name="Result")).to_have_count(1)
        self.run("SELECT 1 +")
        expect(self.page.locator(".results").get_by_role("alert")).to_contain_text("42601")
        self.axe(self.page, "query with an error")

    def cut(self):
        self.run("SELECT * FROM market.accounts")
        expect(self.page.get_by_role("note")).to_contain_text("more rows than the 500 shown")

    def cancelled(self):
        self.run("SELECT pg_sleep(60)")
        cancel = self.page.get_by_role("button", name="Cancel", exact=True)
        expect(cancel).to_be_enabled()
        expect(self.page.locator(".run-status")).to_contain_text("running for")
        cancel.click()
        expect(self.page.locator(".results").get_by_role("alert")).to_contain_text("57014")

    def completion(self):
        self.to(self.page, "query")
        editor = self.page.get_by_role("textbox", name="SQL")
        editor.fill("")
        editor.press_sequentially("SELECT * FROM turn")
        option = self.page.get_by_role("option", name=re.compile("turnover"))
        expect(option).to_be_visible()
        self.axe(self.page, "completion")
        editor.press("Control+ ")
        expect(option).to_be_visible()
        editor.press("Enter")
        expect(editor).to_have_value("SELECT * FROM market.turnover")
        editor.press_sequentially(" t WHERE t.sy")
        expect(self.page.get_by_role("option", name=re.compile("symbol"))).to_be_visible()
        editor.press("Tab")
        expect(editor).to_have_value("SELECT * FROM market.turnover t WHERE t.symbol")

    def plan(self):
        self.sql("SELECT symbol, count(*) FROM market.trades JOIN market.accounts a ON a.id = quantity GROUP BY symbol ORDER BY 2 DESC")
        self.page.get_by_role("button", name="Explain analyze").click()
        tree = self.page.locator(".tree")
        expect(tree.locator(".operator").nth(3)).to_be_visible()
        expect(tree).to_contain_text(re.compile(r"\d rows"))
        expect(tree).to_contain_text("expected")
        expect(tree).to_contain_text("Scan")
        self.axe(self.page, "plan")

    def transaction(self):
        self.run("BEGIN; UPDATE market.accounts SET balance = 0 WHERE id = 1")
        expect(self.page.locator(".badge")).to_have_text("in a transaction")
        self.run("ROLLBACK")
        expect(self.page.locator(".badge")).to_have_count(0)

    def waits(self):
        self.to(self.page, "sessions")
        expect(self.page.get_by_text("Nobody waits for a lock.")).to_be_visible()
        with self.server.connect("holder") as holder, self.server.connect("waiter") as waiter:
            holder.execute("BEGIN; LOCK TABLE market.accounts IN ACCESS EXCLUSIVE MODE")
            told = []

            def wait():
                try:
                    waiter.execute("UPDATE market.accounts SET balance = 1 WHERE id = 2")
                except psycopg.Error as error:
                    told.append(error.sqlstate)

            thread = threading.Thread(target=wait)
            thread.start()
            graph = self.page.locator("svg.graph")
            expect(graph).to_have_attribute("aria-label", re.compile(r"session \d+ waits for session \d+ on market.accounts"))
            self.axe(self.page, "sessions with waits")
            if SCREENSHOTS:
                expect(self.page.locator(".toast")).to_have_count(0)
                self.shot(self.page, "sessions")
            number = waiter.info.backend_pid
            self.page.get_by_role("button", name=f"Cancel the statement of session {number}", exact=True).click()
            dialog = self.page.get_by_role("dialog")
            expect(dialog).to_contain_text(f"SELECT pg_cancel_backend({number})")
            dialog.get_by_role("button", name="Keep").click()
            assert thread.is_alive() and not told
            self.page.get_by_role("button", name=f"Cancel the statement of session {number}", exact=True).click()
            self.axe(self.page, "dialog")
            self.page.get_by_role("dialog").get_by_role("button", name="Cancel the statement").click()
            thread.join(10)
            assert told == ["57014"], told
            holder.execute("ROLLBACK")
        expect(self.page.get_by_text("Nobody waits for a lock.")).to_be_visible()

    def works(self):
        self.to(self.page, "sessions")
        panel = self.page.locator("section", has=self.page.get_by_role("heading", name="Work that lasts"))
        expect(panel).to_contain_text("Nothing that lasts is under way.")
        with tempfile.TemporaryDirectory() as folder, self.server.connect("copier") as copier:
            # A pipe that stays open has no end, so the work stands at a row of the check's choice.
            pipe = f"{folder}/pipe"
            os.mkfifo(pipe)
            copier.execute("CREATE TABLE market.copied (id BIGINT)")
            thread = threading.Thread(target=copier.execute, args=(f"COPY market.copied FROM '{pipe}'",))
            thread.start()
            with open(pipe, "w") as rows:
                rows.write("1\n2\n3\n")
                rows.flush()
                row = panel.get_by_role("row", name=re.compile("COPY FROM"))
                expect(row).to_contain_text("market.copied")
                expect(row).to_contain_text("copying")
                expect(row).to_contain_text("6 B")
                expect(row).to_contain_text("no total")
                expect(row).to_contain_text(str(copier.info.backend_pid))
                self.axe(self.page, "sessions with work that lasts")
            thread.join(10)
            expect(panel).to_contain_text("Nothing that lasts is under way.")
            copier.execute("DROP TABLE market.copied")
        # A total that is known makes a bar.
        drawn = "import('/assets/chart.js').then((chart) => chart.progress(41.7, 'half way').outerHTML)"
        bar = self.page.evaluate(drawn)
        for part in ('role="progressbar"', 'aria-label="half way"', 'aria-valuenow="41"', "width: 41.7%", "41 %"):
            assert part in bar, (part, bar)

    def view(self):
        self.to(self.page, "views")
        self.page.get_by_role("button", name="market.turnover").click()
        expect(self.page.locator(".costs")).to_contain_text("market.trades")
        rows = self.page.get_by_role("region", name="Rows of market.turnover")
        expect(rows.locator("tbody tr")).to_have_count(6)
        before = rows.inner_text()
        for _ in range(100):
            if rows.inner_text() != before:
                break
            time.sleep(0.1)
        assert rows.inner_text() != before, "the rows do not change"
        assert rows.locator("tbody tr").count() == 6
        self.axe(self.page, "views with rows")
        # The view over accounts has 20,000 rows, which a page does not follow.
        self.page.get_by_role("button", name="market.owners").click()
        expect(self.page.locator("main .problem")).to_contain_text("too many rows")

    def form(self):
        self.to(self.page, "workload")
        form = self.page.get_by_role("form", name="Class", exact=True)
        button = form.get_by_role("button", name="Run")
        expect(button).to_be_disabled()
        form.get_by_label("Class", exact=True).fill("reports")
        form.get_by_label("Priority").fill("3")
        form.get_by_label("Statement timeout").fill("30s")
        expect(form.locator("code")).to_have_text("CREATE WORKLOAD CLASS reports SET 'PRIORITY' = 3, 'STATEMENT TIMEOUT' = '30s'")
        button.click()
        expect(self.page.get_by_role("button", name="Change class reports")).to_be_visible()
        form.get_by_label("Priority").fill("77")
        button.click()
        expect(form.get_by_role("alert")).to_be_visible()
        form.get_by_label("Do").select_option("DROP")
        button.click()
        expect(self.page.get_by_role("button", name="Change class reports")).to_have_count(0)
        mapping = self.page.get_by_role("form", name="Mapping", exact=True)
        mapping.get_by_label("Mapping", exact=True).fill("Odd name")
        mapping.get_by_label("Class", exact=True).fill("desk")
        mapping.get_by_label("Application name").fill("it's %")
        mapping.get_by_label("% stands").check()
        expect(mapping.locator("code")).to_have_text("CREATE WORKLOAD MAPPING \"Odd name\" WORKLOAD CLASS desk SET 'APPLICATION NAME' = 'it''s %' WITH WILDCARD")
        mapping.get_by_role("button", name="Run").click()
        expect(self.page.get_by_role("region", name="Mappings")).to_contain_text("it's %")

    def role(self):
        context = self.new_context()
        page = self.new_page(context)
        self.enter(page, "ann", "secret")
        self.run("SELECT * FROM market.trades", page)
        expect(page.locator(".results").get_by_role("alert")).to_contain_text("42501")
        for name in PAGES:
            self.to(page, name)
            expect(page.locator("main")).to_be_visible()
        expect(page.get_by_text("the machine's report is for superusers")).to_be_visible()
        self.to(page, "workload")
        form = page.get_by_role("form", name="Class", exact=True)
        form.get_by_label("Class", exact=True).fill("mine")
        expect(form.get_by_role("button", name="Run")).to_be_disabled()
        context.close()

    def theme(self):
        colour = "getComputedStyle(document.body).backgroundColor"
        light = self.page.evaluate(colour)
        self.page.get_by_role("button", name="Switch between dark and light").click()
        expect(self.page.locator("html")).to_have_attribute("data-theme", "dark")
        dark = self.page.evaluate(colour)
        assert light != dark
        self.page.reload()
        expect(self.page.get_by_role("navigation")).to_be_visible()
        assert self.page.evaluate(colour) == dark
        self.page.get_by_role("button", name="Switch between dark and light").click()

    def keys(self):
        self.to(self.page, "overview")
        self.page.reload()
        expect(self.page.get_by_role("navigation")).to_be_visible()
        self.page.keyboard.press("Tab")
        expect(self.page.get_by_role("link", name="Skip to the page")).to_be_focused()
        for _ in range(4):
            self.page.keyboard.press("Tab")
        expect(self.page.get_by_role("link", name="SQL")).to_be_focused()
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("heading", level=1)).to_have_text("SQL")

    def fits(self, width, scheme):
        context = self.new_context(width, 800, scheme)
        page = self.new_page(context)
        self.enter(page)
        for name in PAGES:
            self.to(page, name)
            if name != "query":
                expect(page.locator("main table tbody tr").first).to_be_visible()
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} px wide"
            self.axe(page, f"{name} at {width} px")
        context.close()

    def away(self):
        context = self.new_context()
        page = self.new_page(context)
        self.enter(page, "ann", "secret")
        self.to(page, "sessions")
        expect(page.locator("main table tbody tr").first).to_be_visible()
        self.server.stop(signal.SIGKILL)
        expect(page.get_by_text("The server does not answer.")).to_be_visible()
        expect(page.locator("main table tbody tr").first).to_be_visible()
        self.axe(page, "a server that is away")
        self.server.start()
        # A server that was restarted knows no login any more.
        expect(page.get_by_text("Your login has ended.")).to_be_visible()
        page.get_by_label("Role").fill("ann")
        page.get_by_label("Password").fill("secret")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sessions and locks")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        context.close()

    def axe(self, page, name):
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, f"{name}: {found.generate_report()}"

    def shot(self, page, name):
        page.screenshot(path=str(pathlib.Path(SCREENSHOTS) / f"console-{name}.png"))

    def screenshots(self):
        pathlib.Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        traffic = Traffic(self.server)
        for scheme in ("light", "dark"):
            context = self.new_context(1280, 1240 if scheme == "dark" else 860, scheme)
            page = self.new_page(context)
            self.enter(page)
            self.to(page, "overview")
            time.sleep(45 if scheme == "dark" else 5)
            if scheme == "dark":
                self.shot(page, "overview")
            else:
                self.sql("SELECT symbol, count(*) AS trades, sum(quantity) AS quantity\nFROM market.trades JOIN market.accounts a ON a.id = trades.quantity\nWHERE price > 20\nGROUP BY symbol ORDER BY quantity DESC", page)
                page.get_by_role("button", name="Explain analyze").click()
                expect(page.locator(".tree .operator").first).to_be_visible()
                self.shot(page, "plan")
                self.to(page, "views")
                page.get_by_role("button", name="market.turnover").click()
                expect(page.get_by_role("region", name="Rows of market.turnover").locator("tbody tr")).to_have_count(6)
                time.sleep(20)
                page.mouse.wheel(0, 330)
                time.sleep(1)
                self.shot(page, "views")
            context.close()
        traffic.stop()


if __name__ == "__main__":
    sys.exit(main())
