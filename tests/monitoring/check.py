"""A server and its monitors. Prints `ok NAME`, `skipped NAME: reason` or `FAILED NAME: reason` per check, and counts them."""

import http.server
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request

import psycopg
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

BIN = os.environ["HALCYON_BIN"]
PROMETHEUS = pathlib.Path(os.environ.get("HALCYON_PROMETHEUS") or "/nonexistent")
JAEGER = os.environ.get("HALCYON_JAEGER")
FILES = pathlib.Path("docs/grafana").resolve()
TRACE = "0af7651916cd43dd8448eb211c80319c"

SETUP = """
CREATE TABLE trades (id BIGINT PRIMARY KEY, symbol TEXT, price NUMERIC(12,2), at TIMESTAMPTZ DEFAULT now());
CREATE MATERIALIZED VIEW turnover AS SELECT symbol, COUNT(*) AS trades, SUM(price) AS turnover FROM trades GROUP BY symbol;
CREATE WORKLOAD CLASS desk SET 'PRIORITY' = 8, 'LATENCY TARGET P99' = '500ms';
CREATE WORKLOAD CLASS nightly SET 'PRIORITY' = 2, 'CONCURRENCY LIMIT' = 2;
CREATE WORKLOAD MAPPING desk WORKLOAD CLASS desk SET 'APPLICATION NAME' = 'desk';
CREATE WORKLOAD MAPPING nightly WORKLOAD CLASS nightly SET 'APPLICATION NAME' = 'nightly'
"""

passed = failed = 0


def check(name, work):
    global passed, failed
    try:
        work()
    except Exception as error:
        failed += 1
        print(f"FAILED {name}: {error}", flush=True)
        if not isinstance(error, AssertionError):
            traceback.print_exc()
    else:
        passed += 1
        print(f"ok {name}", flush=True)


def free_port():
    with socket.socket() as socket_:
        socket_.bind(("127.0.0.1", 0))
        return socket_.getsockname()[1]


def until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.2)


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


class Collector:
    """A collector that decodes by OpenTelemetry's own classes."""

    def __init__(self):
        self.spans = []
        self.resources = []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    collector.resources.append(attributes(resource.resource))
                    for scope in resource.scope_spans:
                        collector.spans.extend(scope.spans)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def attributes(of):
    return {own.key: getattr(own.value, own.value.WhichOneof("value")) for own in of.attributes}


class Server:
    def __init__(self, folder, *options):
        environment = dict(os.environ, OTEL_BSP_SCHEDULE_DELAY="200", OTEL_SERVICE_NAME="halcyon-checked")
        self.process = subprocess.Popen(
            [BIN, "serve", "--data", folder, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        told = ""
        while "console at" not in told:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"the server did not start:\n{told}")
            told += line
        self.stopping = False
        self.wire = re.search(r"ready after .* at (\S+)", told)[1]
        self.http = re.search(r"console at http://([^/\s]+)", told)[1]
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def connect(self, name="check"):
        host, port = self.wire.split(":")
        return psycopg.connect(host=host, port=port, user="halcyon", dbname="halcyon", application_name=name, autocommit=True)

    def stop(self):
        self.stopping = True
        self.process.terminate()
        self.process.wait(timeout=30)


class Traffic:
    """Trades and queries of two classes."""

    def __init__(self, server):
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(server, name, work), daemon=True)
                        for name, work in (("desk", self.trade), ("nightly", self.ask))]
        for thread in self.threads:
            thread.start()

    def run(self, server, name, work):
        try:
            with server.connect(name) as connection:
                number = 0
                while not self.over.is_set():
                    number += 1
                    work(connection, number)
        except psycopg.OperationalError:
            # The server has been stopped, as a check wants.
            assert server.process.poll() is not None or self.over.is_set() or server.stopping

    def trade(self, connection, number):
        connection.execute("INSERT INTO trades (id, symbol, price) VALUES (%s, %s, %s)", (number, f"S{number % 5}", number % 90))
        time.sleep(0.01)

    def ask(self, connection, _):
        connection.execute("SELECT symbol, count(*), sum(price) FROM trades GROUP BY symbol").fetchall()
        time.sleep(0.1)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(10)


class Program:
    """A program that runs until it is stopped; its log is shown if it ends by itself."""

    def __init__(self, folder, *command, **more):
        self.log = pathlib.Path(folder, "log")
        self.process = subprocess.Popen(command, stdout=self.log.open("w"), stderr=subprocess.STDOUT, cwd=folder, **more)

    def answers(self, url):
        if self.process.poll() is not None:
            raise AssertionError("it has ended:\n" + self.log.read_text()[-2000:])
        try:
            return get(url)
        except (urllib.error.URLError, ConnectionError, ValueError):
            return None

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def panels(file):
    """Each panel's title with its queries."""
    dashboard = json.loads((FILES / file).read_text())
    found = []
    for panel in dashboard["panels"]:
        found += [(panel["title"], target) for target in panel.get("targets", [])]
    assert len(found) >= 8, f"{file} has {len(found)} queries"
    return dashboard, found


def prometheus_checks(server, folder):
    """Prometheus scrapes, loads the rules, and has an answer to every panel; then the server goes away."""
    port = free_port()
    pathlib.Path(folder, "prometheus.yaml").write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{FILES}/halcyon-alerts.yaml"]
scrape_configs:
  - job_name: halcyon
    static_configs: [{{targets: ["{server.http}"]}}]
""")
    program = Program(
        folder, str(PROMETHEUS / "prometheus"), "--config.file=prometheus.yaml", f"--storage.tsdb.path={folder}/tsdb",
        f"--web.listen-address=127.0.0.1:{port}")
    api = f"http://127.0.0.1:{port}/api/v1"

    def ask(expression):
        answer = get(f"{api}/query?" + urllib.parse.urlencode({"query": expression}))
        assert answer["status"] == "success", answer
        return answer["data"]["result"]

    def scrapes():
        until("a start", lambda: program.answers(f"{api}/status/buildinfo"))
        until("ten scrapes", lambda: ask("count_over_time(up[1m]) >= 10"))
        (target,) = get(f"{api}/targets")["data"]["activeTargets"]
        assert target["health"] == "up" and not target["lastError"], target

    def rules_load():
        groups = get(f"{api}/rules")["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert len(rules) >= 10, rules
        bad = [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"]
        assert not bad, bad

    def panel(target):
        expression = target["expr"].replace("$__rate_interval", "5s").replace("$instance", ".*")
        assert "$" not in expression, expression
        # The first seconds of a rate and a class's first minute may have no answer yet.
        until("an answer", lambda: [own for own in ask(expression) if own["value"][1] != "NaN"], 20)

    def down():
        server.stop()
        until("an alert", lambda: [own for own in get(f"{api}/alerts")["data"]["alerts"] if own["labels"]["alertname"] == "HalcyonDown"])

    try:
        check("Prometheus scrapes /metrics", scrapes)
        check("Prometheus loads the alert rules", rules_load)
        promtool = [str(PROMETHEUS / "promtool"), "check", "rules", str(FILES / "halcyon-alerts.yaml")]
        check("promtool finds no fault with them", lambda: subprocess.run(promtool, check=True, capture_output=True))
        dashboard, found = panels("halcyon-dashboard.json")
        for at, (title, target) in enumerate(found):
            check(f"panel {at + 1}: {title}", lambda: panel(target))
        (instances,) = [own["query"] for own in dashboard["templating"]["list"] if own["name"] == "instance"]
        metric = re.fullmatch(r"label_values\((\w+), instance\)", instances)[1]
        check("the dashboard's list of servers", lambda: until("a server", lambda: ask(metric)))
        check("the count of statements sent as traces", lambda: until(
            "a count", lambda: [own for own in ask('halcyon_traces_statements_total{outcome="sent"}') if float(own["value"][1]) > 0]))
        check("a server that goes away raises HalcyonDown", down)
    finally:
        program.stop()


def wire_panels(server):
    """Every query of the dashboard for the PostgreSQL source, with Grafana's variables and macros put in."""
    dashboard, found = panels("halcyon-live-views.json")
    with server.connect("grafana") as connection:
        (views,) = [own["query"] for own in dashboard["templating"]["list"] if own["name"] == "view"]
        view = connection.execute(views).fetchone()[0]

        def expanded(text):
            now = time.time()
            moment = lambda at: time.strftime("'%Y-%m-%dT%H:%M:%SZ'", time.gmtime(at))
            text = text.replace("${view:raw}", view)
            text = re.sub(r"\$__timeFilter\(([^)]+)\)", lambda own: f"{own[1]} BETWEEN {moment(now - 900)} AND {moment(now + 1)}", text)
            text = re.sub(r"\$__timeGroupAlias\(([^,]+), *'(\d+)s'\)",
                          lambda own: f'floor(extract(epoch from {own[1]})/{own[2]})*{own[2]} AS "time"', text)
            assert "$" not in text, text
            return text

        def panel(target):
            cursor = connection.execute(expanded(target["rawSql"]))
            assert cursor.fetchall(), "no rows"
            if target["format"] == "time_series":
                assert cursor.description[0].name == "time", cursor.description

        for title, target in found:
            check(f"panel of live views: {title}", lambda: panel(target))


def spans_are_decoded(server, collector):
    """Spans as OpenTelemetry's own classes of Python decode them."""
    parent = f"00-{TRACE}-00000000000000a1-01"
    with server.connect("spans") as connection:
        connection.execute(f"SELECT count(*) FROM trades WHERE price > 7 /*traceparent='{parent}'*/")
        connection.execute("SET halcyon.traceparent = '" + parent.replace("a1-01", "a2-01") + "'")
        try:
            connection.execute("SELECT 1 / 0")
        except psycopg.errors.DivisionByZero:
            pass

    def child(of):
        mine = lambda span: span.parent_span_id.hex() == of and span.trace_id.hex() == TRACE
        return until("a span", lambda: next(filter(mine, list(collector.spans)), None))

    def attributes_are_there():
        span = child("00000000000000a1")
        told = attributes(span)
        assert span.name == "SELECT trades" and span.kind == 2, span
        assert told["db.query.text"] == "SELECT count(*) FROM trades WHERE price > ?", told
        assert told["db.response.returned_rows"] == 1 and told["db.system.name"] == "halcyon", told
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano <= time.time_ns() + 10**9, span
        own = {other.name for other in collector.spans if other.parent_span_id == span.span_id}
        assert {"plan", "run", "client"} <= own, own
        assert collector.resources[0]["service.name"] == "halcyon-checked", collector.resources[0]

    def failure_is_there():
        span = until("a failure", lambda: next((own for own in list(collector.spans) if attributes(own).get("error.type") == "22012"), None))
        assert span.trace_id.hex() == TRACE and span.status.code == 2, span

    check("a statement's span and its parent, by OpenTelemetry's classes", attributes_are_there)
    check("a failure's span", failure_is_there)


def jaeger_checks(folder):
    """Jaeger takes what the server sends and shows statements within their client's trace."""
    takes, shows, inner = free_port(), free_port(), free_port()
    pathlib.Path(folder, "jaeger.yaml").write_text(f"""
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines: {{traces: {{receivers: [otlp], exporters: [jaeger_storage_exporter]}}}}
  telemetry: {{metrics: {{level: none}}}}
extensions:
  jaeger_storage: {{backends: {{memory: {{memory: {{max_traces: 10000}}}}}}}}
  jaeger_query: {{storage: {{traces: memory}}, http: {{endpoint: "127.0.0.1:{shows}"}}, grpc: {{endpoint: "127.0.0.1:{inner}"}}}}
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{takes}"}}}}}}}}
exporters: {{jaeger_storage_exporter: {{trace_storage: memory}}}}
""")
    program = Program(folder, JAEGER, "--config", "jaeger.yaml", env=dict(os.environ, OTEL_TRACES_SAMPLER="always_off"))
    api = f"http://127.0.0.1:{shows}/api"
    server = None
    try:
        until("Jaeger's start", lambda: program.answers(f"{api}/services"))
        server = Server(f"{folder}/data", "--otlp", f"http://127.0.0.1:{takes}")
        with server.connect("jaeger") as connection:
            connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
            connection.execute(f"INSERT INTO item VALUES (1, 'tea') /*traceparent='00-{TRACE}-00000000000000b1-01'*/")

        def trace():
            found = until("the trace", lambda: (program.answers(f"{api}/traces/{TRACE}") or {}).get("data"))
            spans = found[0]["spans"]
            (insert,) = [span for span in spans if span["operationName"] == "INSERT item"]
            assert insert["references"][0]["spanID"] == "00000000000000b1", insert
            own = {span["operationName"] for span in spans if any(other["spanID"] == insert["spanID"] for other in span["references"])}
            assert {"plan", "run", "commit wait"} <= own, own
            tags = {tag["key"]: tag["value"] for tag in insert["tags"]}
            assert tags["db.query.text"] == "INSERT INTO item VALUES (?, ?)" and tags["halcyon.affected_rows"] == 1, tags

        check("Jaeger shows a statement within its client's trace", trace)
        check("Jaeger knows the service", lambda: until("it", lambda: "halcyon-checked" in (get(f"{api}/services")["data"] or [])))
    finally:
        if server:
            server.stop()
        program.stop()


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("data", "prometheus", "jaeger"):
            pathlib.Path(folder, name).mkdir()
        collector = Collector()
        server = Server(f"{folder}/data", "--otlp", collector.endpoint)
        traffic = None
        try:
            with server.connect() as connection:
                for statement in SETUP.split(";"):
                    connection.execute(statement)
                connection.execute("CHECKPOINT")
            traffic = Traffic(server)
            wire_panels(server)
            spans_are_decoded(server, collector)
            if (PROMETHEUS / "prometheus").exists():
                # The last check stops the server.
                prometheus_checks(server, f"{folder}/prometheus")
            else:
                print("skipped Prometheus: there is none (HALCYON_PROMETHEUS)")
        finally:
            if traffic:
                traffic.stop()
            if server.process.poll() is None:
                server.stop()
        if JAEGER:
            jaeger_checks(f"{folder}/jaeger")
        else:
            print("skipped Jaeger: there is none (HALCYON_JAEGER)")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
