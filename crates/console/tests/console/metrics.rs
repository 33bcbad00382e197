use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use halcyon::Database;
use halcyon_console::ConsoleConfig;

use crate::client::{Both, Browser, until};

/// A family: its type, its unit, and the names of its samples.
type Family = (String, Option<String>, BTreeSet<String>);

/// Reads OpenMetrics, and panics where a text breaks its rules.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut now = String::new();
    let mut seen = BTreeSet::new();
    let body = text.strip_suffix("# EOF\n").expect("the text ends with # EOF");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let kinds = ["counter", "gauge", "histogram", "info"];
            assert!(kinds.contains(&kind), "{line}");
            now = name.to_owned();
            let family = (kind.to_owned(), None, BTreeSet::new());
            assert!(families.insert(now.clone(), family).is_none(), "{name} comes twice");
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert!(name == now && name.ends_with(&format!("_{unit}")), "{line}");
            families.get_mut(&now).unwrap().1 = Some(unit.to_owned());
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(rest.starts_with(&format!("{now} ")) && rest.len() > now.len() + 5, "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(seen.insert(series.to_owned()), "{series} comes twice");
            let name = series.split('{').next().unwrap();
            let (kind, _, samples) = families.get_mut(&now).unwrap();
            let suffix = name.strip_prefix(&*now).unwrap_or_else(|| panic!("{line} in {now}"));
            let allowed: &[&str] = match kind.as_str() {
                "counter" => &["_total"],
                "info" => &["_info"],
                "gauge" => &[""],
                _ => &["_bucket", "_count", "_sum"],
            };
            assert!(allowed.contains(&suffix), "{line} is a {kind}");
            samples.insert(name.to_owned());
        }
    }
    families
}

/// A server with something to tell of everything.
fn busy() -> (Both, std::path::PathBuf) {
    let folder = std::env::temp_dir().join(format!("halcyon-metrics-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let both = Both::with(Database::open(&folder).unwrap(), ConsoleConfig::default());
    both.sql(
        "CREATE WORKLOAD CLASS dash SET 'PRIORITY' = 8, 'LATENCY TARGET P50' = '500ms';
         CREATE WORKLOAD MAPPING dash WORKLOAD CLASS dash SET 'APPLICATION NAME' = 'dash';
         CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER);
         CREATE MATERIALIZED VIEW \"odd\"\"view\" AS SELECT SUM(v) AS s FROM t;
         INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
         CHECKPOINT",
    );
    let mut session = both.database.session();
    session.set("application_name", "dash").unwrap();
    for _ in 0..50 {
        session.execute("SELECT v, count(*) FROM t GROUP BY v", &[]).unwrap();
    }
    (both, folder)
}

#[test]
fn metrics_follow_openmetrics_and_dashboard_and_rules_name_what_is_there() {
    let (both, folder) = busy();
    let browser = Browser::new(both.console.address());
    // The class's controller looks once a second.
    until("a measured target", || {
        browser.get("/metrics").text().contains("halcyon_class_target_measured_seconds{")
    });
    let answer = browser.get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
    let text = answer.text();
    let families = families(&text);
    assert!(families.len() >= 45, "{}", families.len());
    for unit in ["seconds", "bytes", "ratio"] {
        for (name, (_, told, _)) in &families {
            assert_eq!(name.ends_with(unit), told.as_deref() == Some(unit), "{name}");
        }
    }
    let empty: Vec<_> = families.iter().filter(|(_, (.., samples))| samples.is_empty()).collect();
    assert_eq!(empty, [], "this server has something to tell of everything");
    assert!(text.contains("view=\"odd\\\"view\""), "labels are escaped");
    histograms_grow(&text);
    let names: BTreeSet<String> =
        families.into_values().flat_map(|(.., samples)| samples).collect();
    for file in ["halcyon-dashboard.json", "halcyon-alerts.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let used = named(&text);
        assert!(used.len() >= 5, "{file} names {used:?}");
        let missing: Vec<_> = used.difference(&names).collect();
        assert_eq!(missing, [""; 0], "{file} names metrics that /metrics has not");
    }
    drop(both);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Names of metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = |word: &&str| word.starts_with("halcyon_") || word.starts_with("process_");
    words.filter(ours).map(str::to_owned).collect()
}

/// Buckets are in order, never fall, and end with the count.
fn histograms_grow(text: &str) {
    let mut last: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("_bucket{")) {
        let (series, count) = line.rsplit_once(' ').unwrap();
        let (class, end) = series.split_once(",le=\"").unwrap();
        let end = end.trim_end_matches("\"}").replace("+Inf", "inf").parse::<f64>().unwrap();
        let count = count.parse::<f64>().unwrap();
        let (before, below) = last.insert(class.to_owned(), (end, count)).unwrap_or((0.0, 0.0));
        assert!(end > before && count >= below, "{line}");
    }
    assert!(last.values().any(|(end, count)| end.is_infinite() && *count >= 50.0), "{last:?}");
}

#[test]
fn metrics_are_for_superusers_once_there_are_passwords() {
    let both = Both::start();
    let anybody = Browser::new(both.console.address());
    assert_eq!(anybody.get("/metrics").status, 200, "anybody of this machine is trusted");
    both.sql("ALTER ROLE halcyon PASSWORD 'secret'; CREATE ROLE ann LOGIN PASSWORD 'ann'");
    let refused = anybody.get("/metrics");
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").starts_with("Basic "));
    let with = |code: &str| {
        let value = format!("Basic {code}");
        anybody.send("GET", "/metrics", &[("authorization", &value)], b"").status
    };
    // halcyon:secret, halcyon:wrong, ann:ann, and no code at all.
    assert_eq!(with("aGFsY3lvbjpzZWNyZXQ="), 200);
    assert_eq!(with("aGFsY3lvbjp3cm9uZw=="), 401);
    assert_eq!(with("YW5uOmFubg=="), 403);
    assert_eq!(with("%%%"), 401);
    for path in ["/health", "/ready"] {
        assert_eq!(anybody.get(path).status, 200, "{path} tells nothing");
    }
}

#[test]
fn a_limited_number_of_labels_has_series() {
    let both = Both::start();
    both.sql("CREATE TABLE t (v INTEGER)");
    let view = |n| format!("CREATE MATERIALIZED VIEW v{n} AS SELECT SUM(v) AS s FROM t");
    both.sql(&(0..105).map(view).collect::<Vec<_>>().join(";"));
    let text = Browser::new(both.console.address()).get("/metrics").text();
    let series = text.lines().filter(|line| line.starts_with("halcyon_view_rows{")).count();
    assert_eq!(series, 100);
    let left_out = text.lines().find(|line| line.starts_with("halcyon_series_left_out ")).unwrap();
    assert_eq!(left_out, "halcyon_series_left_out 5");
}

#[test]
fn promtool_finds_no_fault_where_it_is_installed() {
    let promtool = |arguments: &[&str], input: Option<&str>| {
        use std::io::Write as _;
        use std::process::{Command, Stdio};
        let mut child = Command::new("promtool")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        child.stdin.take()?.write_all(input.unwrap_or_default().as_bytes()).ok()?;
        let output = child.wait_with_output().ok()?;
        let told = [output.stdout, output.stderr].concat();
        Some((output.status.success(), String::from_utf8_lossy(&told).into_owned()))
    };
    let rules =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/halcyon-alerts.yaml");
    match promtool(&["check", "rules", rules.to_str().unwrap()], None) {
        Some((good, told)) => assert!(good, "{told}"),
        None => eprintln!("promtool is not installed"),
    }
}
