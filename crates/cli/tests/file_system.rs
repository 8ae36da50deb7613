//! The commands of the file system. Mounts need root and `/dev/fuse`.
//!
//! Every test waits for what it expects, never for a time.

use crate::support::mounts::{skip, with_private_mounts};
use crate::support::{Done, Store, command, finish};
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use nix::unistd::Pid;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs a command without `--db`.
fn run(arguments: &[&str]) -> Done {
    finish(command(arguments), b"")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is UTF-8")
}

/// A store with a file system, and a directory for a mount.
struct Place {
    store: Store,
    path: PathBuf,
    mount: PathBuf,
}

impl Place {
    fn new() -> Self {
        Self::with(&[])
    }

    /// With these arguments of `mkfs`.
    fn with(mkfs: &[&str]) -> Self {
        let store = Store::new();
        let (path, mount) = (store.path(), store.path().with_file_name("mount"));
        fs::create_dir(&mount).unwrap();
        store.run(&[&["mkfs"], mkfs].concat()).expect(0);
        Self { store, path, mount }
    }

    /// The arguments of a mount.
    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["mount", text(&self.mount), text(&self.path), "--memory", "16M"], more].concat()
    }

    /// Mounts in the foreground; returns when it says so.
    fn serve(&self, more: &[&str]) -> Served {
        Served::begin(command(&self.arguments(more)), &self.path, &self.mount)
    }

    fn unmount(&self) -> Done {
        run(&["unmount", text(&self.mount)])
    }

    fn check(&self) -> serde_json::Value {
        self.store.run(&["check", "--json"]).expect(0).json()
    }
}

/// A process that serves a mount.
struct Served {
    child: Child,
}

impl Served {
    /// Starts a command that mounts a store in the foreground; returns when it says so.
    fn begin(mut command: Command, store: &Path, mount: &Path) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let served = Self { child };
        let expected = format!("mounted {} at {}; unmount with", text(store), text(mount));
        assert!(line.starts_with(&expected), "{line:?}, {:?}", served.end());
        served
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits for its end; returns the exit code and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

#[test]
fn mkfs_makes_a_file_system_in_an_empty_store_only() {
    let store = Store::new();
    let path = store.path();
    for (arguments, error) in [
        (&["--inline-bytes", "0"][..], "it can be from 1 to 65536"),
        (&["--inline-bytes", "65537"], "it can be from 1 to 65536"),
        (&["--small-bytes", "1M"], "it can be from 0 to 262144"),
        (&["--layout", "items", "--inline-bytes", "5"], "--inline-bytes is for --layout inline"),
        (&["--inline-bytes", "32K", "--small-bytes", "8K"], "no file would be one item; give at least as much"),
    ] {
        store.run(&[&["mkfs"], arguments].concat()).refused(2, error);
        assert!(!path.exists(), "{arguments:?}");
    }
    let made = run(&["mkfs", text(&path), "--inline-bytes", "1000", "--small-bytes", "8K", "--json"]).expect(0).json();
    assert_eq!(made["made"], text(&path));
    assert_eq!((&made["component"], &made["layout"]), (&"trunk".into(), &"inline".into()), "{made}");
    assert_eq!((&made["inline_bytes"], &made["small_bytes"]), (&1000.into(), &8192.into()), "{made}");
    store.run(&["mkfs"]).refused(2, "already has a file system");
    let stat = store.run(&["stat", "--json"]).expect(0).json();
    let section = &stat["file_system"];
    assert_eq!((&stat["component"], &section["layout"]), (&"trunk".into(), &"inline".into()), "{section}");
    assert_eq!((&section["inline_bytes"], &section["small_bytes"]), (&1000.into(), &8192.into()), "{section}");
    assert_eq!(section["unused_inodes_from"], 2, "{section}");
    let table = store.run(&["stat"]).expect(0);
    assert!(table.text().contains("inline, up to 1000 B"), "{}", table.text());

    // An empty store keeps its component.
    let other = Store::new();
    other.run(&["put", "--component", "leveled", "a", "1"]).expect(0);
    other.run(&["mkfs"]).refused(2, "already has pairs (the first key is \"a\")");
    other.run(&["check"]).refused(2, "has no file system; `alluvium mkfs` makes one");
    assert!(other.run(&["stat", "--json"]).expect(0).json()["file_system"].is_null());
    other.run(&["delete", "a"]).expect(0);
    other.run(&["keyspaces", "create", "users"]).expect(0);
    other.run(&["mkfs"]).refused(2, "already has keyspaces (\"users\")");
    other.run(&["keyspaces", "drop", "users"]).expect(0);
    let done = run(&["mkfs", text(&other.path()), "--layout", "items"]).expect(0);
    assert!(done.text().contains("component leveled, layout items, one item up to 16.0 KiB"), "{}", done.text());
    let trunk = Store::new();
    trunk.run(&["mkfs", "--component", "trunk"]).expect(0);
    assert_eq!(trunk.run(&["stat", "--json"]).expect(0).json()["component"], "trunk");
    // `stat` takes the store as the other commands do.
    assert_eq!(run(&["stat", text(&trunk.path()), "--json"]).expect(0).json()["component"], "trunk");
    for arguments in [&["mkfs"][..], &["check"], &["stat"], &["mount", "/"]] {
        run(arguments).refused(2, "no store given: name its directory STORE, pass --db DIR or set ALLUVIUM_DB");
    }
    // More in the record than one item has by default: one item as well.
    let store = Store::new();
    let made = store.run(&["mkfs", "--inline-bytes", "32K", "--json"]).expect(0).json();
    assert_eq!(made["small_bytes"], 32_768, "{made}");
    let store = Store::new();
    let made = store.run(&["mkfs", "--inline-bytes", "32K", "--small-bytes", "0", "--json"]).expect(0).json();
    assert_eq!((&made["inline_bytes"], &made["small_bytes"]), (&32_768.into(), &0.into()), "{made}");
}

#[test]
fn check_lists_what_is_wrong() {
    let store = Store::new();
    store.run(&["mkfs"]).expect(0);
    let table = store.run(&["check"]).expect(0);
    for label in ["nothing wrong", "directories", "orphans", "findings"] {
        assert!(table.text().contains(label), "{}", table.text());
    }
    let damage = |damage: &dyn Fn(&alluvium::Db)| {
        let options = alluvium::Options::new().memory_budget(16 << 20).create_if_missing(false);
        let db = alluvium::Db::open(store.path(), options).unwrap();
        damage(&db);
        db.close().unwrap();
    };
    damage(&|db| {
        db.put("nonsense", "1").unwrap();
        // An entry of a directory that does not exist.
        db.put(b"d\0\0\0\0\0\0\0\x09a", b"\x02\0\0\x81\0\0\0\0\0\0\0\xff").unwrap();
    });
    let done = store.run(&["check", "--json"]).expect(3);
    let report = done.json();
    assert_eq!(report["sound"], false);
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.len() >= 2 && findings.len() as u64 == report["findings_count"].as_u64().unwrap(), "{report}");
    assert!(done.err.contains("nonsense") && done.err.contains("the file system is damaged"), "{done:?}");
    assert!(store.run(&["check"]).expect(3).text().contains("damaged"));
    // Without its superblock it is a damaged file system, not none.
    damage(&|db| db.delete("s").unwrap());
    let done = store.run(&["check"]).expect(3);
    assert!(done.err.contains("superblock"), "{done:?}");
    store.run(&["mount", "/"]).refused(2, "has no file system");
}

/// Pairs of other programs would damage it.
#[test]
fn commands_that_write_pairs_refuse_a_file_system() {
    let store = Store::new();
    store.run(&["mkfs"]).expect(0);
    let source = Store::new();
    source.put("a", "1");
    let dump = source.file("dump.tsv", &source.run(&["scan"]).expect(0).out);
    for arguments in [
        &["put", "a", "1"][..],
        &["put", "--keyspace", "other", "a", "1"],
        &["delete", "s"],
        &["delete", "--prefix", "d"],
        &["merge", "--operator", "append", "a", "1"],
        &["load", &dump],
        &["load", "--ycsb", "10"],
        &["keyspaces", "create", "other"],
        &["keyspaces", "clear", "default"],
    ] {
        let expected = format!("the store at {} holds a file system, which this would damage", text(&store.path()));
        store.run(arguments).refused(2, &expected);
    }
    assert_eq!(store.run(&["check", "--json"]).expect(0).json()["findings_count"], 0);
    // Those that only read it, or its files, are for any store.
    store.run(&["get", "--hex", "73"]).expect(0);
    store.run(&["compact"]).expect(0);
}

#[test]
fn two_stores_are_refused() {
    let (store, other) = (Store::new(), Store::new());
    store.run(&["mkfs"]).expect(0);
    let (one, two) = (store.path(), other.path());
    for command in [&["mkfs"][..], &["check"], &["mount", "/mnt"], &["mount", "/mnt", "--background"]] {
        let positional = [command, &[text(&one)]].concat();
        let behind = [&positional[..], &["--db", text(&two)]].concat();
        let before = [&["--db", text(&two)], &positional[..]].concat();
        for arguments in [behind, before] {
            run(&arguments).refused(2, "two stores are given");
        }
    }
    run(&["check", text(&one), "--db", text(&one)]).expect(0);
    // The environment is only a default.
    let mut check = command(&["check", text(&one)]);
    finish(
        {
            check.env("ALLUVIUM_DB", &two);
            check
        },
        b"",
    )
    .expect(0);
}

#[test]
fn what_cannot_be_mounted_is_refused() {
    let store = Store::new();
    let place = tempfile::tempdir().unwrap();
    let directory = text(place.path());
    run(&["mount", directory]).refused(2, "no store given");
    store.run(&["mount", directory]).refused(2, "no store at");
    store.run(&["mount", directory, "--background"]).refused(2, "no store at");
    assert!(!store.path().exists());
    store.run(&["put", "a", "1"]).expect(0);
    store.run(&["mount", directory]).refused(2, "has no file system; `alluvium mkfs`");
    let none = format!("{directory}/none");
    store.run(&["mount", &none]).refused(2, "does not exist; create the directory first");
    run(&["unmount", &none]).refused(2, "does not exist");
    let file = store.file("file", b"");
    store.run(&["mount", &file]).refused(2, "is not a directory");
    for directory in [directory, "/", "/proc"] {
        run(&["unmount", directory]).refused(2, "no SkipFS is mounted at");
    }
    store.run(&["mount", directory, "--threads", "0"]).expect(2);
    store.run(&["mount", directory, "--write-back", "maybe"]).expect(2);
}

#[test]
fn a_mount_ends_with_a_signal() {
    with_private_mounts("a_mount_ends_with_a_signal", || {
        let place = Place::new();
        for (count, signal) in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().enumerate() {
            let served = place.serve(&["--write-back", "on", "--timeout", "0", "--threads", "3"]);
            fs::write(place.mount.join(format!("file{count}")), "silt").unwrap();
            served.signal(signal);
            let (code, said) = served.end();
            assert!(code == Some(0) && said.is_empty(), "{signal}: {code:?}, {said}");
            assert!(fs::read_dir(&place.mount).unwrap().next().is_none(), "it is unmounted");
            let report = place.check();
            assert_eq!((&report["files"], &report["sound"]), (&(count + 1).into(), &true.into()), "{report}");
        }
    });
}

#[test]
fn limits_are_set_by_mkfs_and_by_mount() {
    with_private_mounts("limits_are_set_by_mkfs_and_by_mount", || {
        let place = Place::with(&["--max-bytes", "1M", "--max-inodes", "3"]);
        let stat = place.store.run(&["stat", "--json"]).expect(0).json();
        let section = &stat["file_system"];
        assert_eq!((&section["max_bytes"], &section["max_inodes"]), (&(1 << 20).into(), &3.into()), "{section}");
        let shown = || {
            let found = nix::sys::statvfs::statvfs(&place.mount).unwrap();
            (found.blocks() * found.fragment_size(), found.files(), found.files_free())
        };
        let write = |name: &str, bytes: usize| {
            fs::write(place.mount.join(name), vec![7; bytes]).err().and_then(|error| error.raw_os_error())
        };
        let served = place.serve(&[]);
        assert_eq!(shown(), (1 << 20, 3, 2));
        assert_eq!((write("a", 2 << 20), write("a", 1 << 20)), (Some(libc::ENOSPC), None));
        assert_eq!((write("b", 0), write("c", 0)), (None, Some(libc::ENOSPC)));
        place.unmount().expect(0);
        assert_eq!(served.end().0, Some(0));
        let served = place.serve(&["--max-bytes", "3M", "--max-inodes", "0"]);
        assert_eq!(shown().0, 3 << 20);
        assert_eq!((write("c", 2 << 20), write("d", 1)), (None, Some(libc::ENOSPC)));
        place.unmount().expect(0);
        assert_eq!(served.end().0, Some(0));
        place.check();
    });
}

/// A user without privileges, with the command line in a directory that is the user's.
struct User {
    directory: tempfile::TempDir,
}

impl User {
    /// The number of the user `nobody`.
    const ID: u32 = 65534;

    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        // The user may have no way to where the tests were built.
        fs::copy(env!("CARGO_BIN_EXE_alluvium"), directory.path().join("alluvium")).unwrap();
        for name in ["home", "home/mount"] {
            fs::create_dir(directory.path().join(name)).unwrap();
            chown(directory.path().join(name), Some(Self::ID), Some(Self::ID)).unwrap();
        }
        Self { directory }
    }

    fn home(&self, name: &str) -> PathBuf {
        self.directory.path().join("home").join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.directory.path().join("alluvium"));
        command.env_remove("ALLUVIUM_DB").args(["--memory", "16M"]).args(arguments).uid(Self::ID).gid(Self::ID);
        command
    }

    fn run(&self, arguments: &[&str]) -> Done {
        finish(self.command(arguments), b"")
    }

    /// A program of the system with one argument.
    fn program(&self, name: &str, argument: &Path) -> Command {
        let mut command = Command::new(name);
        command.arg(argument).uid(Self::ID).gid(Self::ID);
        command
    }

    /// The device as it is where users have desktops: everyone may open it. For the mounts of this thread.
    fn open_device(&self) {
        let directory = self.directory.path().join("devices");
        fs::create_dir(&directory).unwrap();
        mount(Some("devices"), &directory, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        let device = directory.join("fuse");
        let number = fs::metadata("/dev/fuse").unwrap().rdev();
        mknod(&device, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(number >> 8, number & 0xff)).unwrap();
        fs::set_permissions(&device, Permissions::from_mode(0o666)).unwrap();
        mount(Some(&device), "/dev/fuse", None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
    }
}

#[test]
fn a_user_without_privileges_mounts_and_unmounts_through_fusermount3() {
    let name = "a_user_without_privileges_mounts_and_unmounts_through_fusermount3";
    if let Err(error) = Command::new("fusermount3").arg("--version").output() {
        return skip(&format!("{name}: no fusermount3 (package fuse3): {error}"));
    }
    with_private_mounts(name, || {
        let user = User::new();
        user.open_device();
        let (store, mount) = (user.home("store"), user.home("mount"));
        user.run(&["mkfs", text(&store)]).expect(0);
        let serve = || Served::begin(user.command(&["mount", text(&mount), text(&store)]), &store, &mount);
        let read = || finish(user.program("cat", &mount.join("file")), b"").expect(0).out;

        // Unmounted by a command.
        let served = serve();
        finish(user.program("tee", &mount.join("file")), b"silt").expect(0);
        assert_eq!(read(), b"silt");
        let error = fs::metadata(mount.join("file")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EACCES), "it is the user's alone");
        user.run(&["mount", text(&mount), text(&store)]).refused(2, "is mounted at");
        let mut inside = user.program("tail", Path::new("-f"));
        let mut inside = inside.current_dir(&mount).stdin(Stdio::piped()).spawn().unwrap();
        user.run(&["unmount", text(&mount)]).refused(2, "is in use");
        inside.kill().unwrap();
        inside.wait().unwrap();
        user.run(&["unmount", text(&mount)]).expect(0);
        let (code, said) = served.end();
        assert!(code == Some(0) && said.is_empty(), "{code:?}, {said}");
        user.run(&["unmount", text(&mount)]).refused(2, "no SkipFS is mounted at");

        // Unmounted at a signal.
        let served = serve();
        assert_eq!(read(), b"silt");
        served.signal(Signal::SIGTERM);
        let (code, said) = served.end();
        assert!(code == Some(0) && said.is_empty(), "{code:?}, {said}");
        assert!(fs::read_dir(&mount).unwrap().next().is_none(), "it is unmounted");
        let report = user.run(&["check", "--json", text(&store)]).expect(0).json();
        assert_eq!((&report["files"], &report["sound"]), (&1.into(), &true.into()), "{report}");
    });
}

/// A regression test: a mount that was detached while a file was open did not end before the file was closed.
#[test]
fn a_mount_in_use_ends_with_the_second_signal() {
    with_private_mounts("a_mount_in_use_ends_with_the_second_signal", || {
        let place = Place::new();
        let mut served = place.serve(&[]);
        let open = fs::File::create(place.mount.join("open")).unwrap();
        place.unmount().refused(2, "is in use");
        served.signal(Signal::SIGINT);
        let mut said = BufReader::new(served.child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("is in use; stop what uses it, or send the signal again"), "{line}");
        assert!(place.mount.join("open").exists());
        served.signal(Signal::SIGINT);
        assert_eq!(served.child.wait().unwrap().code(), Some(0));
        drop(open);
        let report = place.check();
        assert_eq!((&report["files"], &report["sound"]), (&1.into(), &true.into()), "{report}");
    });
}

#[test]
fn unmount_waits_for_the_store_and_a_second_mount_is_refused() {
    with_private_mounts("unmount_waits_for_the_store_and_a_second_mount_is_refused", || {
        let place = Place::new();
        let other = place.mount.with_file_name("other");
        fs::create_dir(&other).unwrap();
        for _ in 0..5 {
            let served = place.serve(&[]);
            fs::write(place.mount.join("file"), vec![7; 500_000]).unwrap();
            run(&place.arguments(&[])).refused(2, "is mounted at");
            for more in [&[][..], &["--background"]] {
                let arguments = [&["mount", text(&other), text(&place.path)], more].concat();
                run(&arguments).refused(2, "is open in another process");
            }
            assert_eq!(place.check()["bytes"], 500_000, "a check reads beside the mount");
            // Regression test: it returned while the process still ran, if only for a moment.
            let mut served = served;
            place.unmount().expect(0);
            assert!(served.child.try_wait().unwrap().is_some(), "the process has ended");
            place.store.run(&["compact"]).expect(0);
            let (code, said) = served.end();
            assert!(code == Some(0) && said.is_empty(), "{code:?}, {said}");
        }
        let served = place.serve(&["--read-only"]);
        let refused = fs::write(place.mount.join("new"), "").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
        place.unmount().expect(0);
        assert_eq!(served.end().0, Some(0));
    });
}

#[test]
fn a_mount_in_the_background_is_there_when_the_command_returns() {
    with_private_mounts("a_mount_in_the_background_is_there_when_the_command_returns", || {
        let place = Place::new();
        for round in 0..3 {
            // The command returns although its child lives: nothing of the pipes is left open.
            let done = run(&place.arguments(&["--background"])).expect(0);
            assert!(done.text().starts_with("mounted ") && done.err.is_empty(), "{done:?}");
            fs::write(place.mount.join(format!("file{round}")), "silt").unwrap();
            place.unmount().expect(0);
            assert_eq!(place.check()["files"], round + 1);
        }
        let done = run(&place.arguments(&["--background", "--json"])).expect(0).json();
        assert_eq!((&done["mounted"], &done["at"]), (&text(&place.path).into(), &text(&place.mount).into()));
        let done = run(&["unmount", text(&place.mount), "--json"]).expect(0).json();
        assert_eq!(done, serde_json::json!({ "unmounted": text(&place.mount) }));
    });
}

#[test]
fn a_mount_whose_process_was_killed_is_removed_and_loses_nothing() {
    with_private_mounts("a_mount_whose_process_was_killed_is_removed_and_loses_nothing", || {
        let place = Place::new();
        let mut served = place.serve(&[]);
        fs::write(place.mount.join("file"), "silt").unwrap();
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        run(&place.arguments(&[])).refused(2, "whose process has died");
        place.unmount().expect(0);
        let report = place.check();
        assert_eq!((&report["files"], &report["bytes"], &report["sound"]), (&1.into(), &4.into(), &true.into()));
        let served = place.serve(&[]);
        assert_eq!(fs::read(place.mount.join("file")).unwrap(), b"silt");
        place.unmount().expect(0);
        assert_eq!(served.end().0, Some(0));
    });
}

/// Without `/dev` there is no `/dev/fuse`, as in most containers.
#[test]
fn a_missing_device_is_named() {
    with_private_mounts("a_missing_device_is_named", || {
        use nix::mount::{MsFlags, mount};
        let place = Place::new();
        mount(Some("none"), "/dev", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        run(&place.arguments(&[])).refused(2, "there is no /dev/fuse; `modprobe fuse`");
        nix::mount::umount("/dev").unwrap();
        place.store.run(&["compact"]).expect(0);
    });
}
