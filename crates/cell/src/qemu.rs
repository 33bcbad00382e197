//! The image in an emulated machine: QEMU without KVM, for checks on machines without cells.
//!
//! The image is started without a host, runs its self-test and prints the results. That says that it
//! computes the same on a bare machine; times mean nothing there.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use halcyon_cell_abi::samples::Sample;

use crate::image::IMAGE;

/// The emulator's name.
const QEMU: &str = "qemu-system-x86_64";
/// The emulator's exit status when the image has stopped as it should: (0x10 << 1) | 1.
const STOPPED: i32 = 33;

/// The image under QEMU without KVM.
#[derive(Clone, Debug)]
pub struct QemuTcg {
    within: Duration,
}

/// What a self-test has printed: a checksum for each sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfTest {
    /// Samples and the checksums of their rows.
    pub checksums: Vec<(Sample, u64)>,
}

impl QemuTcg {
    /// A runner that gives the emulator this much time. `None`: there is no emulator here, or no image.
    pub fn find(within: Duration) -> Option<QemuTcg> {
        let version = Command::new(QEMU).arg("--version").stdout(Stdio::null()).status();
        (version.is_ok_and(|status| status.success()) && !IMAGE.is_empty())
            .then_some(QemuTcg { within })
    }

    /// Runs the self-test.
    ///
    /// Errors: the emulator does not start, does not end in time, or says that the image has failed;
    /// the error has what the image printed.
    pub fn run(&self) -> io::Result<SelfTest> {
        let file = TemporaryFile::new()?;
        let mut emulator = Command::new(QEMU)
            .args(["-M", "microvm,x-option-roms=off,pit=off,pic=off,rtc=off"])
            .args(["-accel", "tcg", "-cpu", "max", "-m", "256M", "-no-reboot"])
            .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"])
            .args(["-serial", "stdio", "-display", "none", "-monitor", "none", "-kernel"])
            .arg(&file.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut output = emulator.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let reader = std::thread::spawn(move || {
            let mut printed = Vec::new();
            // What was read until an error is all that there is.
            let _ = output.read_to_end(&mut printed);
            String::from_utf8_lossy(&printed).into_owned()
        });
        let begin = Instant::now();
        let status = loop {
            match emulator.try_wait()? {
                Some(status) => break Some(status),
                None if begin.elapsed() > self.within => break None,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if status.is_none() {
            emulator.kill()?;
            emulator.wait()?;
        }
        let printed = reader.join().unwrap_or_default();
        match status.and_then(|status| status.code()) {
            Some(STOPPED) => Ok(SelfTest { checksums: parse(&printed) }),
            code => Err(io::Error::other(format!("the image ended with {code:?}: {printed}"))),
        }
    }
}

/// The checksums in what a self-test has printed.
fn parse(printed: &str) -> Vec<(Sample, u64)> {
    let one = |line: &str| {
        let mut words = line.trim().split(' ').skip_while(|word| *word != "halcyon-cell").skip(1);
        let name = words.next()?;
        let sample = Sample::ALL.into_iter().find(|sample| sample.name() == name)?;
        let sum = words.next()?.strip_prefix("0x")?;
        Some((sample, u64::from_str_radix(sum, 16).ok()?))
    };
    printed.lines().filter_map(one).collect()
}

/// The image as a file, for as long as the emulator needs one.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new() -> io::Result<TemporaryFile> {
        let path = std::env::temp_dir().join(format!(
            "halcyon-cell-{}-{:x}",
            std::process::id(),
            halcyon_machine::clock::ticks()
        ));
        fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        let file = TemporaryFile(path);
        fs::write(&file.0, IMAGE)?;
        Ok(file)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // A file that is left behind does no harm.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_found_among_what_firmware_prints() {
        let printed = "booting\r\nhalcyon-cell q6 0x0000000000000010\r\nhalcyon-cell other 0x1\n\
                       halcyon-cell axfinder 0xffffffffffffffff\nhalcyon-cell q6 0xzz\n";
        assert_eq!(parse(printed), [(Sample::Q6, 16), (Sample::Axfinder, u64::MAX)]);
    }
}
