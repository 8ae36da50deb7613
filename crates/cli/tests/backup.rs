//! `backup`: from a store into a directory of backups, and back.

use crate::support::{Done, Store, command, finish};

fn run(arguments: &[&str]) -> Done {
    finish(command(arguments), b"")
}

#[test]
fn a_store_goes_into_backups_and_comes_back() {
    let store = Store::new();
    store.run(&["load", "--ycsb", "20000", "--memory", "2M", "--settle"]).expect(0);
    let path = |name: &str| store.path().parent().unwrap().join(name).display().to_string();
    let (backups, first, second) = (path("backups"), path("first"), path("second"));
    run(&["backup", "list", &backups]).refused(2, "has no backups");
    let report = store.run(&["backup", "create", &backups, "--json"]).expect(0).json();
    assert_eq!((&report["id"], &report["files_shared"], &report["number"]), (&1.into(), &0.into(), &20.into()));
    let files = report["files_new"].as_u64().unwrap();
    assert!(files > 3 && report["bytes_new"].as_u64() > Some(1 << 20), "{report}");
    let before = store.run(&["dump"]).expect(0);
    store.put("new", "1");
    let table = store.run(&["backup", "create", &backups, "--check-shared"]).expect(0);
    for text in ["sequence number", "files copied", "files shared with earlier backups"] {
        assert!(table.text().contains(text), "{}", table.text());
    }
    let listed = run(&["backup", "list", &backups, "--json"]).expect(0).json();
    let [one, two] = &listed["backups"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!(
        (&one["id"], &two["id"], &one["number"], &two["number"]),
        (&1.into(), &2.into(), &20.into(), &21.into())
    );
    assert_eq!(one["files"], files);
    assert!(one["made_at"].as_str().unwrap().ends_with('Z'), "{listed}");
    let table = run(&["backup", "list", &backups]).expect(0);
    assert!(table.text().contains("made at") && table.text().contains("MiB"), "{}", table.text());
    assert!(run(&["backup", "verify", &backups]).expect(0).text().contains("damaged places"));
    // The store is lost.
    store.run(&["destroy", "--yes"]).expect(0);
    let report = run(&["backup", "restore", &backups, "1", &first, "--json"]).expect(0).json();
    assert_eq!((&report["files"], &report["number"]), (&files.into(), &20.into()), "{report}");
    run(&["backup", "restore", &backups, "latest", &second]).expect(0);
    let of = |store: &str, arguments: &[&str]| run(&[&["--db", store, "--memory", "16M"], arguments].concat());
    assert_eq!(of(&first, &["dump"]).expect(0).text(), before.text());
    of(&first, &["verify"]).expect(0);
    assert_eq!(of(&second, &["get", "new"]).expect(0).text(), "1\n");
    run(&["backup", "restore", &backups, "1", &first]).refused(2, "is not empty");
    run(&["backup", "restore", &backups, "7", &path("third")]).refused(2, "has no backup 7; it has: 1, 2");
    let removed = run(&["backup", "remove", &backups, "--keep", "1", "--json"]).expect(0).json();
    assert_eq!(removed["backups"], 1, "{removed}");
    run(&["backup", "verify", &backups, "latest"]).expect(0);
    // A byte of the largest file rots.
    let entries = std::fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().path());
    let largest = entries.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&largest, bytes).unwrap();
    let name = largest.file_name().unwrap().to_str().unwrap();
    let damaged = run(&["backup", "verify", &backups, "2", "--json"]).expect(3);
    let damage = damaged.json()["backups"][0]["damage"][0].to_string();
    assert!(damage.contains(name) && damage.contains("file checksum") && !damage.contains("see `"), "{damage}");
    assert!(damaged.err.contains(name) && damaged.err.contains("1 damaged place"), "{}", damaged.err);
    // Regression test: the message named `alluvium verify`, which cannot check backups.
    let restored = run(&["backup", "restore", &backups, "2", &path("third")]).expect(3);
    assert!(restored.err.contains(name) && restored.err.ends_with("see `alluvium backup verify`\n"), "{restored:?}");
    assert!(!std::path::Path::new(&path("third")).exists());
    run(&["backup", "remove", &backups, "2"]).expect(0);
    assert!(run(&["backup", "list", &backups]).expect(0).text().contains("no backups"));
    run(&["backup", "restore", &backups, "latest", &path("third")]).refused(2, "no backups");
    of(&second, &["backup", "create", &format!("{second}/inside")]).refused(2, "lies in the directory");
}
