//! Divided caches and measured neighbours, as their views show them: on a machine that is not there.

use std::path::PathBuf;
use std::sync::Arc;

use halcyon::{Matrix, Workers};
use halcyon_cache::fake::{Fake, Profile};
use halcyon_cache::{Place, ResctrlFs};
use halcyon_machine::Topology;
use halcyon_workers::Bed;

use super::{Database, DatabaseOptions, Look, one, rows, run};

/// A folder of journals that goes away with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Eight processors on two islands.
fn machine(fake: &Arc<Fake>, name: &str) -> (Workers, Folder) {
    let folder = std::env::temp_dir().join(format!("halcyon-view-{name}-{}", std::process::id()));
    let mut topology = Topology::flat(&(0..8).collect::<Vec<_>>());
    for processor in &mut topology.processors {
        processor.island = processor.cpu / 4;
    }
    let bed = Bed::new(topology, Place::fake(fake.clone(), &folder));
    (Workers { bed: Some(bed), ..Workers::default() }, Folder(folder))
}

pub fn what_fills_the_caches(look: &mut Look) {
    let fake = Arc::new(Fake::new(Profile::broadwell()));
    let before = fake.configuration();
    let (workers, _folder) = machine(&fake, "cache");
    let options = DatabaseOptions { workers, ..DatabaseOptions::default() };
    let database = Database::with_options(options);
    let mut watcher = database.session();
    let (group, of) = ("\"group\" = 'polluting'", "\"group\" = 'polluting' AND cache = 1");
    assert_eq!(look.at(&mut watcher, "state", group), "off");
    assert_eq!(look.at(&mut watcher, "reason", group), "cache_partitioning is off");
    run(&mut watcher, "ALTER SYSTEM SET cache_partitioning = on");
    let name =
        fake.folders("").expect("a tree").into_iter().find(|name| name.ends_with("-polluting"));
    fake.set_occupancy(&name.expect("a group"), 1, Some(4096));
    assert_eq!(look.at(&mut watcher, "group", of), "polluting");
    assert_eq!(look.at(&mut watcher, "cache", of), "1");
    assert_eq!(look.at(&mut watcher, "state", of), "on");
    assert_eq!(look.at(&mut watcher, "mask", of), "c0000");
    assert_eq!(look.number(&mut watcher, "ways", of), 2.0);
    assert_eq!(look.at(&mut watcher, "processors", of), "3,7");
    assert_eq!(look.number(&mut watcher, "occupancy_bytes", of), 4096.0);
    assert_eq!(look.number(&mut watcher, "memory_bytes", of), 4096.0);
    assert_eq!(look.at(&mut watcher, "source", of), "fake");
    run(&mut watcher, "ALTER SYSTEM SET polluting_workers = 2");
    assert_eq!(look.at(&mut watcher, "processors", of), "2-3,6-7");
    run(&mut watcher, "ALTER SYSTEM RESET cache_partitioning");
    assert_eq!(fake.configuration(), before);
}

pub fn what_operators_cost_each_other(look: &mut Look) {
    let text = r#"{"processors": 8, "operators": ["scan", "join cache"], "partners": ["scan", "join cache", "nobody"],
        "slowdown": [[1.0, 1.0, 1.0], [1.02, 1.5, 1.0]], "conclusive": true}"#;
    let fake = Arc::new(Fake::new(Profile::monitor_only()));
    let (workers, _folder) = machine(&fake, "matrix");
    let matrix = Matrix::parse(text.as_bytes()).expect("the lab's form");
    let workers = Workers { matrix: Some(Arc::new(matrix)), ..workers };
    let options = DatabaseOptions { workers, ..DatabaseOptions::default() };
    let database = Database::with_options(options);
    let mut watcher = database.session();
    let of = "operator = 'join cache' AND partner = 'scan'";
    assert_eq!(look.at(&mut watcher, "operator", of), "join cache");
    assert_eq!(look.at(&mut watcher, "partner", of), "scan");
    assert_eq!(look.number(&mut watcher, "slowdown", of), 1.02);
    assert_eq!(look.at(&mut watcher, "cache_use", of), "sensitive");
    assert_eq!(look.at(&mut watcher, "contradicted", of), "true");
    let unclaimed = "SELECT count(*)::text FROM halcyon.interference WHERE contradicted IS NULL";
    assert_eq!(one(&mut watcher, unclaimed), "5");
    run(&mut watcher, "CREATE TABLE n AS SELECT i AS v FROM generate_series(1, 1000) AS s(i)");
    assert_eq!(rows(&mut watcher, "SELECT sum(v)::text FROM n"), ["500500"]);
}
