//! A private instance of the kernel's tracer. It is removed when it is dropped, in a panic too; one
//! that a killed process left behind is removed by the next tracer.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::parse::{Trace, parse};
use super::place::{Place, Unavailable};

/// Beginning of the names of instances; the number of their process follows.
const NAME: &str = "halcyon-noise-";

/// What is traced. A kernel may lack some; without switches and interrupts a trace would name nothing.
const EVENTS: [(&str, bool); 7] = [
    ("sched/sched_switch", true),
    ("irq_vectors", true),
    ("irq", true),
    ("exceptions/page_fault_user", false),
    ("exceptions/page_fault_kernel", false),
    ("tlb", false),
    ("workqueue", false),
];

/// Room for events of the traced processor, KiB: some 300,000 events.
const BUFFER_KB: u32 = 16_384;

/// A running trace of one processor, or of threads on several.
#[derive(Debug)]
pub struct Tracer {
    folder: PathBuf,
    cpus: Vec<u32>,
    /// Groups of events that this kernel lacks.
    missing: Vec<&'static str>,
    _place: Place,
}

impl Tracer {
    /// Starts to trace a processor.
    ///
    /// Errors: says what is missing: the right to, the file system, its clock `x86-tsc`, events.
    pub fn start(cpu: u32) -> Result<Tracer, Unavailable> {
        Tracer::under(Place::find()?, &[cpu])?.set_up(BUFFER_KB, &EVENTS)
    }

    /// Starts to trace threads on these processors: none before [`Tracer::add_threads`] names some. Switches and
    /// interrupts alone; `buffer_kb`: room for each processor.
    ///
    /// Errors: as [`Tracer::start`].
    pub fn of_threads(cpus: &[u32], buffer_kb: u32) -> Result<Tracer, Unavailable> {
        let tracer = Tracer::under(Place::find()?, cpus)?;
        // No thread has this number; an empty list would stand for all threads.
        tracer.put("set_event_pid", "4194304")?;
        let needed = EVENTS.iter().copied().filter(|(_, needed)| *needed).collect::<Vec<_>>();
        tracer.set_up(buffer_kb, &needed)
    }

    /// Traces these threads too.
    ///
    /// Errors: the operating system's.
    pub fn add_threads(&self, threads: &[u32]) -> Result<(), Unavailable> {
        let numbers: Vec<String> = threads.iter().map(u32::to_string).collect();
        self.write("set_event_pid", &numbers.join(" "), OpenOptions::new().append(true))
    }

    fn under(place: Place, cpus: &[u32]) -> Result<Tracer, Unavailable> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let instances = place.root().join("instances");
        remove_stale(&instances);
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = instances.join(format!("{NAME}{process}-{number}"));
        fs::create_dir(&folder)
            .map_err(|error| Unavailable(format!("no instance of the kernel's tracer: {error}")))?;
        // From here on dropping removes the instance.
        Ok(Tracer { folder, cpus: cpus.to_vec(), missing: Vec::new(), _place: place })
    }

    fn set_up(
        mut self,
        buffer_kb: u32,
        events: &[(&'static str, bool)],
    ) -> Result<Tracer, Unavailable> {
        self.put("tracing_on", "0")?;
        self.put("trace_clock", "x86-tsc")?;
        self.put("tracing_cpumask", &mask(&self.cpus))?;
        for cpu in &self.cpus {
            self.put(&format!("per_cpu/cpu{cpu}/buffer_size_kb"), &buffer_kb.to_string())?;
        }
        for &(event, needed) in events {
            match self.put(&format!("events/{event}/enable"), "1") {
                Ok(()) => {}
                Err(_) if !needed => self.missing.push(event),
                Err(error) => return Err(error),
            }
        }
        self.put("tracing_on", "1")?;
        Ok(self)
    }

    /// The running trace of each processor as text. Reading takes events out, and does not wait for any.
    ///
    /// Errors: the operating system's.
    pub fn pipes(&self) -> Result<Vec<File>, Unavailable> {
        let pipe = |cpu: &u32| {
            let path = self.folder.join(format!("per_cpu/cpu{cpu}/trace_pipe"));
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
        };
        let pipes: io::Result<Vec<File>> = self.cpus.iter().map(pipe).collect();
        pipes.map_err(|error| Unavailable(format!("the kernel's trace cannot be read: {error}")))
    }

    /// Writes to a file of the instance, which must be there.
    fn put(&self, file: &str, text: &str) -> Result<(), Unavailable> {
        self.write(file, text, OpenOptions::new().write(true))
    }

    fn write(&self, file: &str, text: &str, how: &OpenOptions) -> Result<(), Unavailable> {
        let opened = how.open(self.folder.join(file));
        let put = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        put.map_err(|error| {
            Unavailable(format!("the kernel's tracer takes no {file} {text}: {error}"))
        })
    }

    /// Events that this kernel lacks; causes of their kind go by other names.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// Ends the trace and reads its events.
    ///
    /// Errors: the operating system's.
    pub fn finish(self) -> Result<Trace, Unavailable> {
        self.put("tracing_on", "0")?;
        let mut trace = Trace::default();
        for cpu in &self.cpus {
            let one = self.read(*cpu)?;
            trace.lost += one.lost;
            trace.unread += one.unread;
            trace.events.extend(one.events);
        }
        trace.events.sort_by_key(|event| event.at);
        Ok(trace)
    }

    fn read(&self, cpu: u32) -> Result<Trace, Unavailable> {
        let folder = self.folder.join(format!("per_cpu/cpu{cpu}"));
        let read = |file: &str| {
            let bytes = fs::read(folder.join(file));
            bytes
                .map_err(|error| Unavailable(format!("the kernel's trace cannot be read: {error}")))
        };
        // Names of threads are any bytes.
        let mut trace = parse(&String::from_utf8_lossy(&read("trace")?));
        trace.lost = trace.lost.max(overrun(&String::from_utf8_lossy(&read("stats")?)));
        Ok(trace)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// Removes an instance, a few times: the kernel refuses while a reader of it has not ended.
fn remove(folder: &Path) {
    for attempt in 0..20 {
        if attempt > 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        match fs::remove_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {}
            _ => return,
        }
    }
    eprintln!("the kernel's trace instance {} could not be removed", folder.display());
}

/// Removes instances whose process has ended.
fn remove_stale(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(NAME)?.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            remove(&entry.path());
        }
    }
}

/// A mask of processors, as the kernel writes masks: words of 32 bits in hexadecimal, highest first.
fn mask(cpus: &[u32]) -> String {
    let words = cpus.iter().max().map_or(1, |most| most / 32 + 1);
    let word = |number: u32| {
        let within = cpus.iter().filter(|cpu| **cpu / 32 == number);
        format!("{:08x}", within.fold(0_u32, |word, cpu| word | 1 << (cpu % 32)))
    };
    (0..words).rev().map(word).collect::<Vec<_>>().join(",")
}

/// Number of events that were overwritten or dropped, from the statistics of a processor's buffer.
fn overrun(stats: &str) -> u64 {
    let number = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    ["overrun", "commit overrun", "dropped events"]
        .map(number)
        .iter()
        .fold(0, |all, one| all.saturating_add(*one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsc::stamp;
    use halcyon_machine::affinity;

    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("halcyon-tracer-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("instances")).expect("a scratch folder");
        folder
    }

    #[test]
    fn masks_are_words_of_32_processors() {
        assert_eq!((mask(&[0]).as_str(), mask(&[5, 0]).as_str()), ("00000001", "00000021"));
        assert_eq!(mask(&[33, 1]), "00000002,00000002");
        assert_eq!(mask(&[64]), "00000001,00000000,00000000");
    }

    #[test]
    fn overwritten_and_dropped_events_are_lost() {
        let stats = "entries: 5\noverrun: 7\ncommit overrun: 1\nbytes: 90\ndropped events: 2\nread events: 0\n";
        assert_eq!(overrun(stats), 10);
        assert_eq!(overrun("overrun: many"), 0);
        assert_eq!(overrun(""), 0);
    }

    #[test]
    fn an_instance_that_cannot_be_set_up_is_removed() {
        let root = scratch("refused");
        // The folder has no files that could be written: what a kernel without this tracer looks like.
        let error = Tracer::under(Place::at(root.clone()), &[1])
            .and_then(|tracer| tracer.set_up(1, &EVENTS));
        let error = error.expect_err("no knobs");
        assert!(error.to_string().contains("tracing_on"), "{error}");
        assert_eq!(fs::read_dir(root.join("instances")).expect("it is there").count(), 0);
        fs::remove_dir_all(root).expect("it is ours");
    }

    #[test]
    fn an_instance_is_removed_in_a_panic_and_instances_of_ended_processes_are_removed() {
        let root = scratch("panic");
        let instances = root.join("instances");
        let folder = instances.join(format!("{NAME}{}-0", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let place = Place::at(root.clone());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _tracer = Tracer {
                folder: folder.clone(),
                cpus: vec![0],
                missing: Vec::new(),
                _place: place,
            };
            std::panic::resume_unwind(Box::new("planted"));
        }));
        assert!(panicked.is_err() && !folder.exists());
        // No process has this number: the kernel's largest is 2^22.
        fs::create_dir(instances.join(format!("{NAME}99999999-1"))).expect("a folder");
        fs::create_dir(instances.join(format!("{NAME}{}-7", std::process::id())))
            .expect("a folder");
        fs::create_dir(instances.join("other")).expect("a folder");
        remove_stale(&instances);
        assert_eq!(fs::read_dir(&instances).expect("it is there").count(), 2);
        fs::remove_dir_all(root).expect("it is ours");
    }

    #[test]
    fn this_kernel_tells_what_ran_between_two_stamps() {
        let cpus = affinity::get().expect("affinity can be asked for");
        let cpu = *cpus.last().expect("some processor");
        std::thread::spawn(move || {
            affinity::set(&[cpu]).expect("an allowed processor");
            let tracer = match Tracer::start(cpu) {
                Ok(tracer) => tracer,
                Err(error) => return eprintln!("skipped: {error}"),
            };
            let folder = tracer.folder.clone();
            let start = stamp();
            std::thread::sleep(std::time::Duration::from_millis(3));
            let end = stamp();
            let trace = tracer.finish().expect("a trace that was started");
            assert_eq!(trace.unread, 0);
            let within =
                |event: &super::super::Event| (start..=end).contains(&event.at) && event.cpu == cpu;
            let slept = trace.events.iter().filter(|event| within(event)).any(|event| {
                matches!(event.kind, super::super::Kind::Switch { runnable: false, .. })
            });
            assert!(slept, "{} events from {start} to {end}", trace.events.len());
            assert!(!folder.exists(), "the instance is removed");
        })
        .join()
        .expect("it does not panic");
    }
}
