"""pgAdmin and Superset in front of the demo. Prints `ok NAME` or `FAILED NAME: reason` per check, and counts them."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request

from playwright.sync_api import sync_playwright

BIN, CACHE = os.environ["HALCYON_BIN"], pathlib.Path(os.environ["HALCYON_CACHE"])
SCREENSHOTS = os.environ.get("HALCYON_SCREENSHOTS")
SCALE = os.environ.get("HALCYON_DEMO_SF", "0.01")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VIEWS = ["book", "positions", "spending", "ticker", "vwap"]
TABLES = ["instruments", "orders", "traders", "trades"]
passed = failed = 0


def check(name, work):
    global passed, failed
    try:
        work()
        passed += 1
        print(f"ok {name}", flush=True)
    except Exception as error:
        failed += 1
        print(f"FAILED {name}: {error}", flush=True)
        traceback.print_exc()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(what, holds, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(0.3)
    raise AssertionError(f"not within {seconds} s: {what}")


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def demo():
    server = subprocess.Popen([BIN, "serve", "--demo", "--demo-sf", SCALE, "--listen", "127.0.0.1:0"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told = ""
    while "Ctrl-C ends it" not in told:
        line = server.stdout.readline()
        if not line:
            raise SystemExit(f"the demo did not start:\n{told}")
        told += line
    threading.Thread(target=server.stdout.read, daemon=True).start()
    return server, int(re.search(r"ready after .*:(\d+)", told)[1])


def shot(page, name):
    if SCREENSHOTS:
        page.screenshot(path=str(pathlib.Path(SCREENSHOTS) / f"tools-{name}.png"))


class PgAdmin:
    """pgAdmin 4 as a program of one user, with the server in its list."""

    def __init__(self, folder, port):
        self.port = free_port()
        place = subprocess.check_output(
            [CACHE / "pgadmin/bin/python", "-c", "import pgadmin4; print(list(pgadmin4.__path__)[0])"], text=True).strip()
        # The configuration has its place beside the package.
        (pathlib.Path(place) / "config_local.py").write_text(
            f"SERVER_MODE = False\nDATA_DIR = {str(folder / 'pgadmin')!r}\nDEFAULT_SERVER_PORT = {self.port}\n"
            "MASTER_PASSWORD_REQUIRED = False\nUSE_OS_SECRET_STORAGE = False\nUPGRADE_CHECK_ENABLED = False\n")
        servers = folder / "servers.json"
        servers.write_text(json.dumps({"Servers": {"1": {
            "Name": "Halcyon", "Group": "Servers", "Host": "127.0.0.1", "Port": port, "MaintenanceDB": "halcyon",
            "Username": "halcyon", "SSLMode": "prefer"}}}))
        python = [str(CACHE / "pgadmin/bin/python")]
        with open(folder / "pgadmin.log", "w") as log:
            self.process = subprocess.Popen([str(CACHE / "pgadmin/bin/pgadmin4")], stdout=log, stderr=log)
            until("pgAdmin's page", lambda: answers(f"http://127.0.0.1:{self.port}/browser/"))
            subprocess.run(python + [f"{place}/setup.py", "load-servers", str(servers)], check=True, stdout=log, stderr=log)

    def labels(self):
        return [text.strip() for text in self.page.locator(".file-entry").all_inner_texts()]

    def at(self, label, after=0):
        """The place of an entry of the tree below another one. Behind its name an entry has a count, or a column its type."""
        def found():
            places = [at for at, text in enumerate(self.labels())
                      if at >= after and text.split("\n")[0].strip() == label]
            return [places[0]] if places else None
        try:
            return until(f"{label} in pgAdmin's tree", found, 60)[0]
        except AssertionError as error:
            raise AssertionError(f"{error}; behind entry {after} of {self.labels()}") from None

    def unfold(self, path, after=0):
        """Opens entries of the tree, each below the one before. Returns the place of the last."""
        for label in path:
            place = self.at(label, after)
            before = len(self.labels())
            # What a double click opens, a second one would close.
            self.page.locator(".file-entry").nth(place).click()

            def unfolded():
                self.page.keyboard.press("ArrowRight")
                time.sleep(2)
                return len(self.labels()) > before
            until(f"what is below {label}", unfolded, 90)
            after = place + 1
        return after - 1

    def connects(self, browser):
        # The tree has only the entries that are seen.
        self.page = browser.new_context(viewport={"width": 1280, "height": 1800}).new_page()
        self.page.set_default_timeout(60_000)
        self.refusals = []
        # 428 asks for a password, which is empty here.
        self.page.on("response", lambda answer: answer.status >= 400 and answer.status != 428
                     and self.refusals.append(f"{answer.status} {answer.url} {answer.text()[:300]}"))
        self.page.goto(f"http://127.0.0.1:{self.port}/browser/")
        self.page.locator(".file-entry").first.wait_for()
        time.sleep(2)
        self.page.locator(".file-entry").first.dblclick()
        self.page.get_by_text("Please enter the password").wait_for()
        time.sleep(1)
        self.page.keyboard.press("Enter")
        self.at("Databases")

    def shows_the_tree(self):
        market = self.unfold(["Databases", "halcyon", "Schemas", "market"])
        self.unfold(["Materialized Views"], market)
        for view in VIEWS:
            self.at(view, market)
        self.unfold(["Tables"], market)
        for table in TABLES:
            self.at(table, market)
        orders = self.unfold(["orders"], self.at("Tables", market))
        self.unfold(["Columns"], orders)
        for column in ["id", "symbol", "trader", "side", "price", "volume", "at"]:
            self.at(column, orders)
        self.unfold(["Constraints"], orders)
        self.unfold(["Indexes"], orders)
        self.at("orders_by_price", orders)

    def writes_a_definition(self):
        self.page.locator(".file-entry").nth(self.at("orders")).click()
        self.page.get_by_text("SQL", exact=True).first.click()
        text = self.page.locator(".cm-content").first
        until("the table's definition", lambda: "CREATE TABLE IF NOT EXISTS market.orders" in text.inner_text(), 60)
        for part in ("PRIMARY KEY (id)", "FOREIGN KEY (symbol)", "CHECK"):
            assert part in text.inner_text(), text.inner_text()

    def runs_a_query(self):
        self.page.get_by_text("Tools", exact=True).first.click()
        self.page.get_by_role("menuitem", name=re.compile("Query Tool")).click()

        def editor_of(frame):
            found = frame.locator('.cm-content:not([aria-readonly="true"])')
            return found.first if found.count() and found.first.is_visible() else None
        editor = until("the editor of queries", lambda: next(filter(None, map(editor_of, self.page.frames)), None))
        editor.click()
        self.page.keyboard.insert_text("SELECT * FROM market.book ORDER BY symbol;")

        def rows():
            # Before the tool has its connection, a key does nothing.
            self.page.keyboard.press("F5")
            time.sleep(4)
            return any(frame.get_by_text("ALBA", exact=True).count() for frame in self.page.frames)
        until("the query's rows", rows)
        self.page.set_viewport_size({"width": 1280, "height": 860})
        time.sleep(1)
        shot(self.page, "pgadmin-query")

    def expect_no_refusals(self):
        assert not self.refusals, self.refusals


class Superset:
    """Superset with its own database in a file."""

    def __init__(self, folder, port):
        self.uri = f"postgresql://halcyon@127.0.0.1:{port}/halcyon"
        self.base = f"http://127.0.0.1:{free_port()}"
        config = folder / "superset_config.py"
        config.write_text(f"SECRET_KEY = 'of this check alone'\nSQLALCHEMY_DATABASE_URI = 'sqlite:///{folder}/superset.db'\n"
                          "WTF_CSRF_ENABLED = False\nTALISMAN_ENABLED = False\n")
        environment = {**os.environ, "SUPERSET_CONFIG_PATH": str(config), "FLASK_APP": "superset", "SUPERSET_HOME": str(folder)}
        superset = str(CACHE / "superset/bin/superset")
        with open(folder / "superset.log", "w") as log:
            for words in ("db upgrade", "fab create-admin --username admin --password admin --firstname A --lastname B --email a@b.c", "init"):
                subprocess.run([superset, *words.split()], check=True, env=environment, stdout=log, stderr=log)
            self.process = subprocess.Popen([superset, "run", "-p", self.base.rsplit(":", 1)[1], "--with-threads"],
                                            env=environment, stdout=log, stderr=log)
        until("Superset's page", lambda: answers(f"{self.base}/health"))
        self.token = None
        self.token = self.call("POST", "/security/login", {"username": "admin", "password": "admin", "provider": "db"})["access_token"]

    def call(self, method, path, body=None, status=None):
        """What Superset answers; with `status`, an error of that status is expected."""
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.base}/api/v1{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            assert error.code == status, f"{method} {path}: {error.code} {text[:600]}"
            return text

    def connects(self):
        assert self.call("POST", "/database/test_connection/", {"sqlalchemy_uri": self.uri, "database_name": "x"})["message"] == "OK"
        made = self.call("POST", "/database/", {"sqlalchemy_uri": self.uri, "database_name": "Halcyon", "allow_dml": True})
        self.database = made["id"]

    def lists(self):
        schemas = self.call("GET", f"/database/{self.database}/schemas/")["result"]
        assert {"market", "shop", "public"} <= set(schemas), schemas
        tables = self.call("GET", f"/database/{self.database}/tables/?q=(schema_name:market)")["result"]
        assert sorted((table["type"], table["value"]) for table in tables) == sorted(
            [("view", view) for view in VIEWS] + [("table", table) for table in TABLES]), tables

    def describes(self):
        found = self.call("GET", f"/database/{self.database}/table_metadata/?name=orders&schema=market")
        assert {key["name"] for key in found["foreignKeys"]} == {"orders_symbol_fkey", "orders_trader_fkey"}, found
        # Foreign keys are among them, and the primary key is not shown, as with PostgreSQL.
        assert [index["name"] for index in found["indexes"] if index["type"] == "index"] == ["orders_by_price"], found

    def makes_datasets(self):
        self.datasets = {}
        for schema, table in (("market", "ticker"), ("market", "trades"), ("shop", "sales"), ("public", "lineitem"), ("public", "orders")):
            made = self.call("POST", "/dataset/", {"database": self.database, "schema": schema, "table_name": table})
            self.datasets[table] = made["id"]

    def data(self, table, query):
        body = {"datasource": {"id": self.datasets[table], "type": "table"}, "force": True, "queries": [query]}
        answer = self.call("POST", "/chart/data", {**body, "result_format": "json", "result_type": "full"})["result"][0]
        assert answer["error"] is None, answer["error"]
        return answer["data"]

    def draws(self):
        turnover = {"expressionType": "SIMPLE", "column": {"column_name": "turnover"}, "aggregate": "SUM", "label": "turnover"}
        rows = self.data("ticker", {"columns": ["symbol"], "metrics": [turnover], "row_limit": 100})
        assert len(rows) == 6 and all(row["turnover"] > 0 for row in rows), rows
        month = {"columnType": "BASE_AXIS", "sqlExpression": "l_shipdate", "label": "month", "expressionType": "SQL", "timeGrain": "P1M"}
        rows = self.data("lineitem", {"columns": [month], "metrics": ["count"], "granularity": "l_shipdate", "row_limit": 100,
                                      "time_range": "1994-01-01 : 1994-06-01", "filters": [{"col": "l_returnflag", "op": "IN", "val": ["R", "A"]}]})
        assert len(rows) == 5, rows
        second = {"columnType": "BASE_AXIS", "sqlExpression": "at", "label": "at", "expressionType": "SQL", "timeGrain": "PT5S"}
        rows = self.data("trades", {"columns": [second, "symbol"], "metrics": ["count"], "row_limit": 1000, "filters": []})
        assert {row["symbol"] for row in rows} == {"ALBA", "BORA", "CIRO", "DORA", "EURA", "FARO"}, rows[:5]
        params = {"datasource": f"{self.datasets['ticker']}__table", "viz_type": "pie", "groupby": ["symbol"], "metric": turnover,
                  "row_limit": 100, "show_labels": True, "show_legend": True, "label_type": "key_value"}
        made = self.call("POST", "/chart/", {"slice_name": "Turnover by instrument", "viz_type": "pie", "datasource_type": "table",
                                             "datasource_id": self.datasets["ticker"], "params": json.dumps(params)})
        self.chart = made["id"]

    def asks(self):
        ask = {"database_id": self.database, "schema": "market", "runAsync": False, "queryLimit": 100}
        sql = "SELECT * FROM market.book ORDER BY symbol"
        answer = self.call("POST", "/sqllab/execute/", {**ask, "sql": sql, "client_id": "one"})
        assert answer["status"] == "success" and len(answer["data"]) == 6, answer
        refused = self.call("POST", "/sqllab/execute/", {**ask, "sql": "SELECT nothing FROM book", "client_id": "two"}, 500)
        assert "COLUMN_DOES_NOT_EXIST_ERROR" in refused, refused

    def shows(self, browser):
        page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{self.base}/login/")
        page.fill("#username", "admin")
        page.fill("#password", "admin")
        page.keyboard.press("Enter")
        page.get_by_text("Dashboards").first.wait_for()
        page.goto(f"{self.base}/explore/?slice_id={self.chart}")
        page.locator(".slice_container canvas").first.wait_for()
        time.sleep(3)
        shot(page, "superset")


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="halcyon-web-"))
    server, port = demo()
    tools = []
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            tools.append(pgadmin := PgAdmin(folder, port))
            check("pgAdmin connects", lambda: pgadmin.connects(browser))
            check("pgAdmin's tree has tables, views, columns, constraints and indexes", pgadmin.shows_the_tree)
            check("pgAdmin writes a table's definition", pgadmin.writes_a_definition)
            check("pgAdmin runs a query", pgadmin.runs_a_query)
            check("no request of pgAdmin failed", pgadmin.expect_no_refusals)
            tools.append(superset := Superset(folder, port))
            check("Superset connects", superset.connects)
            check("Superset lists schemas, tables and views", superset.lists)
            check("Superset describes keys and indexes", superset.describes)
            check("Superset makes datasets of tables and views", superset.makes_datasets)
            check("Superset's charts have their data", superset.draws)
            check("Superset's SQL Lab has rows and errors", superset.asks)
            check("Superset shows a chart over a live view", lambda: superset.shows(browser))
            browser.close()
        assert server.poll() is None, "the server has ended"
    finally:
        for process in [tool.process for tool in tools] + [server]:
            process.terminate()
            process.wait(timeout=30)
        if failed == 0:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
