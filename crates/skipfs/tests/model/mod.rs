//! Random requests, on the file system and on a model of it in memory: they must give the same results and errors, and
//! the same tree.

mod driver;
mod node;
mod request;
mod tree;

pub use driver::{Mounted, dump};
pub use node::Dump;
pub use request::{Request, requests};
pub use tree::Tree;

use crate::support::{LAYOUTS, Memory, Random, setting, small};
use skipfs::check::check;
use skipfs::{Layout, SkipFs};

/// Runs one sequence; an error names the request.
fn run(layout: Layout, seed: u64, count: u64) {
    let memory = Memory::new();
    let store = memory.open();
    SkipFs::mkfs(&store, &small(layout)).unwrap();
    let (mut mounted, mut tree) = (Mounted::new(SkipFs::open(store).unwrap()), Tree::new());
    let mut random = Random(seed);
    for (at, request) in requests(&mut random, count).into_iter().enumerate() {
        let (expected, found) = match request {
            Request::Remount => {
                mounted.release_all();
                tree.release_all();
                mounted.fs.close().unwrap();
                mounted = Mounted::new(SkipFs::open(memory.open()).unwrap());
                continue;
            }
            _ => (tree.apply(&request), mounted.apply(&request)),
        };
        assert_eq!(found, expected, "{layout:?}, seed {seed}, request {at}: {request:?}");
    }
    let context = format!("{layout:?}, seed {seed}");
    assert_eq!(dump(&mounted.fs), tree.dump(), "{context}");
    let report = check(mounted.fs.store()).unwrap();
    assert!(report.is_sound(), "{context}: {:#?}", report.findings);
    mounted.release_all();
    tree.release_all();
    assert_eq!(mounted.fs.inodes_in_use(), 1, "{context}: only the root is in use");
    mounted.fs.close().unwrap();
    let fs = SkipFs::open(memory.open()).unwrap();
    assert_eq!(dump(&fs), tree.dump(), "{context}, reopened");
    let report = check(fs.store()).unwrap();
    assert!(report.is_sound() && report.orphans.is_empty(), "{context}, reopened: {report:#?}");
    let found = dump(&fs);
    assert_eq!(
        report.directories,
        found.values().filter(|node| node.kind == skipfs::FileKind::Directory).count() as u64
    );
}

/// `SKIPFS_SEQUENCES` runs more, `SKIPFS_SEED` begins at another seed.
#[test]
fn random_requests_give_what_a_model_gives() {
    let first = setting("SKIPFS_SEED", 0);
    for seed in first..first + setting("SKIPFS_SEQUENCES", 30) {
        for layout in LAYOUTS {
            run(layout, seed, 200);
        }
    }
}
