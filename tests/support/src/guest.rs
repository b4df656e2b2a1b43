//! A guest: a Linux kernel of its own, for features that the machine's kernel lacks, above all md.
//!
//! `tests/tools/uml-md.sh` boots Debian's user-mode Linux, which is an ordinary process.
//! `tests/setup-tools.sh` has unpacked it into `.cache/uml`, together with mdadm. A [`Guest`] takes
//! files and a shell script, and returns the script's output and the files it gives back. Booting
//! takes two seconds, and more on a busy machine, so a test puts everything it needs into one
//! script.
//!
//! A test without a guest reports itself by name as skipped ([`skip`](crate::skip())).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{repository, skip};

/// Bytes of the disk on which files come back.
const BACK_BYTES: u64 = 1 << 30;

/// The beginning of every script. Files are unpacked into the working directory.
///
/// | function | what |
/// | --- | --- |
/// | `loops FILE…` | sets up loop devices on files; prints their names |
/// | `idle MD` | waits until no resync, rebuild or check is running |
/// | `give FILE…` | returns these files |
/// | `crash` | crashes the kernel immediately |
const PRELUDE: &str = r#"
set -u
export MDADM_NO_UDEV=1
mkdir -p /scratch/work; cd /scratch/work
tar xf /dev/ubdb
echo 1000000 > /proc/sys/dev/raid/speed_limit_min
loops() { for f; do l=$(losetup -f); losetup "$l" "$f"; echo "$l"; done; }
idle() { while read -r s < /sys/block/$1/md/sync_action && [ $s != idle ]; do sleep 0.05; done; }
give() { sync; tar cf /dev/ubdc "$@"; sync; }
crash() { echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger; }
"#;

/// A script and the files that it works on.
#[derive(Debug, Default)]
pub struct Guest {
    files: BTreeMap<String, Vec<u8>>,
    script: String,
}

/// The result of a guest's run.
#[derive(Debug)]
pub struct GuestOutput {
    /// What the script printed.
    pub text: String,
    /// The files that it gave back.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Guest {
    /// Creates a guest without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file; `name` may contain directories.
    pub fn file(&mut self, name: &str, content: Vec<u8>) {
        self.files.insert(name.to_owned(), content);
    }

    /// Adds lines of shell (busybox). The functions of the table at the top of this module are
    /// available, and the files are in the working directory.
    pub fn script(&mut self, lines: &str) {
        self.script.push_str(lines);
        self.script.push('\n');
    }

    /// Boots, runs the script, and powers off. The script's exit status must be 0.
    ///
    /// # Errors
    /// Returns the guest's output if the script did not finish.
    ///
    /// # Panics
    /// Panics if files cannot be written for the guest.
    pub fn run(&self) -> Result<GuestOutput, String> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let output = self.boot(folder.path(), &[]);
        match output.split_once("@@END 0") {
            Some((text, _)) => {
                let files = unpack(&folder.path().join("back.tar"));
                Ok(GuestOutput { text: text.to_owned(), files })
            }
            None => Err(output),
        }
    }

    /// Boots and runs a script that crashes the kernel (`crash`). `disks` are `/dev/ubdd` and
    /// following, and afterwards hold what had reached them. Returns the guest's output until the
    /// crash.
    ///
    /// # Errors
    /// Returns the guest's output if the script finished.
    ///
    /// # Panics
    /// Panics if files cannot be written for the guest.
    pub fn crash(&self, disks: &mut [Vec<u8>]) -> Result<String, String> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = |i: usize| folder.path().join(format!("disk{i}"));
        let paths: Vec<PathBuf> = (0..disks.len()).map(path).collect();
        for (path, disk) in paths.iter().zip(&*disks) {
            fs::write(path, disk).expect("a disk");
        }
        let output = self.boot(folder.path(), &paths);
        for (path, disk) in paths.iter().zip(disks) {
            *disk = fs::read(path).expect("the disk");
        }
        if output.contains("@@END") { Err(output) } else { Ok(output) }
    }

    /// Boots the guest with script and files in `folder`, and returns its output.
    fn boot(&self, folder: &Path, disks: &[PathBuf]) -> String {
        let path = |name: &str| folder.join(name);
        let script = format!("{PRELUDE}{}", self.script);
        fs::write(path("script"), script).expect("the script");
        pack(&self.files, &path("in.tar"));
        let back = File::create(path("back.tar")).expect("the disk back");
        back.set_len(BACK_BYTES).expect("a sparse disk");
        let output = Command::new(repository().join("tests/tools/uml-md.sh"))
            .arg("run")
            .args(["script", "in.tar", "back.tar"].map(path))
            .args(disks)
            .envs([("UML", folder_of_guest().as_os_str()), ("UML_T", "300".as_ref())])
            .output();
        match output {
            Ok(output) => {
                // The guest prints to standard output; why it does not boot is on the other.
                let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
                String::from_utf8_lossy(&said).into_owned()
            }
            Err(error) => format!("uml-md.sh: {error}"),
        }
    }
}

fn folder_of_guest() -> PathBuf {
    repository().join(".cache/uml")
}

/// Returns whether a guest is available. Otherwise reports the running test as skipped.
pub fn available_or_skip() -> bool {
    let here = folder_of_guest().join("root/init").exists();
    if !here {
        skip("user-mode Linux in .cache/uml (run tests/setup-tools.sh)");
    }
    here
}

fn pack(files: &BTreeMap<String, Vec<u8>>, path: &Path) {
    let mut archive = tar::Builder::new(File::create(path).expect("the disk"));
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, content.as_slice()).expect("written");
    }
    archive.into_inner().expect("written");
}

/// Unpacks an archive from a disk; returns no files if the guest wrote none.
fn unpack(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(File::open(path).expect("the disk"));
    let mut files = BTreeMap::new();
    for file in archive.entries().expect("an archive") {
        let mut file = file.expect("an entry");
        let name = file.path().expect("a name").display().to_string();
        let mut content = Vec::new();
        file.read_to_end(&mut content).expect("its content");
        files.insert(name, content);
    }
    files
}
