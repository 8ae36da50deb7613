//! Installs the library into a temporary folder, and compiles programs with it or with LevelDB itself.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The folder of this crate.
pub fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder where cargo has built the library along with this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_path_buf()
}

/// The prefix under which `install.sh` has installed it.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<TempDir> = OnceLock::new();
    let prefix = PREFIX.get_or_init(|| {
        let prefix = tempfile::tempdir().unwrap();
        let script = crate_folder().join("install.sh");
        let output = Command::new("sh").arg(script).arg(prefix.path()).arg(built()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        prefix
    });
    prefix.path()
}

/// Whether a command exists; otherwise reports what is skipped.
pub fn has(command: &str) -> bool {
    let found = Command::new(command).arg("--version").output().is_ok();
    if !found {
        skip(&format!("there is no {command}"));
    }
    found
}

/// Whether LevelDB itself is installed, for comparison.
pub fn has_leveldb() -> bool {
    let found = Path::new("/usr/include/leveldb/c.h").exists();
    if !found {
        skip("LevelDB itself is not installed");
    }
    found
}

/// The header and library with which a program is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Ours,
    LevelDb,
}

/// A compiled program of this crate, in a temporary folder.
pub struct Program {
    _folder: TempDir,
    path: PathBuf,
}

/// Compiles a program; warnings are errors.
pub fn compile(source: &str, whose: Whose, also: &[&str]) -> Program {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O1", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]);
    if whose == Whose::Ours {
        compiler.arg("-I").arg(prefix().join("include")).arg("-L").arg(prefix().join("lib"));
    }
    compiler.arg(crate_folder().join(source)).arg("-o").arg(&path).args(also).args(["-lleveldb", "-lpthread"]);
    let output = compiler.env_remove("LD_LIBRARY_PATH").output().unwrap();
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    Program { _folder: folder, path }
}

impl Program {
    /// The executable.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs it with one of the libraries.
    pub fn run(&self, whose: Whose, arguments: &[impl AsRef<OsStr>]) -> Output {
        with_library(Command::new(&self.path), whose).args(arguments).output().unwrap()
    }

    /// Runs it under valgrind. The exit status is 99 if valgrind finds an error or leaked memory. Possible leaks are
    /// only printed: a thread that has ended may leave some for a while.
    pub fn run_checked(&self, arguments: &[impl AsRef<OsStr>]) -> Output {
        self.run_under_valgrind("definite,indirect", arguments)
    }

    /// Like `run_checked`, for a program that may leak its own objects.
    pub fn run_checked_for_accesses(&self, arguments: &[impl AsRef<OsStr>]) -> Output {
        self.run_under_valgrind("none", arguments)
    }

    fn run_under_valgrind(&self, leaks: &str, arguments: &[impl AsRef<OsStr>]) -> Output {
        let mut valgrind = with_library(Command::new("valgrind"), Whose::Ours);
        valgrind.args(["--error-exitcode=99", "--leak-check=full"]);
        valgrind.arg(format!("--errors-for-leak-kinds={leaks}")).arg("--show-leak-kinds=definite,indirect,possible");
        valgrind.arg(&self.path).args(arguments).output().unwrap()
    }
}

/// Does not use Cargo's `LD_LIBRARY_PATH`.
fn with_library(mut command: Command, whose: Whose) -> Command {
    match whose {
        Whose::Ours => command.env("LD_LIBRARY_PATH", prefix().join("lib")),
        Whose::LevelDb => command.env_remove("LD_LIBRARY_PATH"),
    };
    command
}

/// Returns the output of a successful run.
pub fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{:?}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// Reports a skipped test. In CI that is a failure, because CI installs everything that the tests need.
pub fn skip(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "skipped, which is a failure in CI: {what}");
    eprintln!("SKIPPED: {what}");
}
