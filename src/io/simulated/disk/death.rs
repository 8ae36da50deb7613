//! How a process and its disk end: killed, power cut, unmounted; and copies as they would be left.

use super::Disk;
use crate::io::simulated::faults::Faults;
use crate::io::simulated::random::Random;
use crate::util::sync::Arc;
use std::collections::BTreeMap;

impl Disk {
    /// Ends the process; returns the number of the next.
    pub(in crate::io::simulated) fn kill(&mut self) -> u64 {
        self.absorb_all();
        self.next_process()
    }

    pub(in crate::io::simulated) fn power_cut(&mut self, seed: u64, new_boot: bool) -> u64 {
        let mut random = Random::new(seed);
        self.absorb_all();
        for directory in self.names.unsettled() {
            self.names_mut(directory).cut(&mut random);
        }
        for id in self.unsettled() {
            Arc::make_mut(self.files.get_mut(&id).expect("just found")).cut(&mut random);
        }
        self.boot += u64::from(new_boot);
        self.instance += 1;
        self.next_process()
    }

    pub(in crate::io::simulated) fn remount(&mut self) -> u64 {
        self.absorb_all();
        for id in self.unsettled() {
            self.file_mut(id).settle();
        }
        for directory in self.names.unsettled() {
            self.names_mut(directory).sync();
        }
        self.instance += 1;
        self.next_process()
    }

    fn next_process(&mut self) -> u64 {
        self.opened.clear();
        self.locks.clear();
        self.faults.clear();
        self.failed.clear();
        self.collect();
        self.process += 1;
        self.process
    }

    /// A copy as `kill` would leave it.
    pub(in crate::io::simulated) fn fork(&mut self) -> Self {
        self.absorb_all();
        self.image()
    }

    pub(super) fn image(&self) -> Self {
        let mut image = Self {
            names: Arc::clone(&self.names),
            files: self.files.clone(),
            opened: BTreeMap::new(),
            locks: BTreeMap::new(),
            faults: Faults::default(),
            random: self.random.clone(),
            recorder: None,
            failed: Vec::new(),
            ..*self
        };
        image.collect();
        image
    }
}
