//! The cache and the filter as branches see them.

use crate::base::sync::{Arc, Mutex};
use crate::base::{FileNumber, Result};
use crate::io::{AlignedBuffer, OpenMode, Storage, StorageFile};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageKey {
    pub file: FileNumber,
    pub offset: u64,
}

#[derive(Debug)]
pub enum PageBuffer {
    Aligned(AlignedBuffer),
    Plain(Vec<u8>),
}

impl From<AlignedBuffer> for PageBuffer {
    fn from(value: AlignedBuffer) -> Self {
        Self::Aligned(value)
    }
}
impl From<Vec<u8>> for PageBuffer {
    fn from(value: Vec<u8>) -> Self {
        Self::Plain(value)
    }
}
impl std::ops::Deref for PageBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Aligned(b) => b,
            Self::Plain(b) => b,
        }
    }
}
pub type Page = Arc<PageBuffer>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    Low,
    High,
}

#[derive(Debug)]
pub struct PageCache {
    room: usize,
    pages: Mutex<HashMap<PageKey, Page>>,
}

impl PageCache {
    pub fn new(bytes: usize) -> Self {
        Self { room: bytes, pages: Mutex::default() }
    }
    pub fn get(&self, key: PageKey) -> Option<Page> {
        self.pages.lock().get(&key).cloned()
    }
    pub fn insert(&self, key: PageKey, page: Page, _priority: Priority) {
        if self.has_room() {
            self.pages.lock().insert(key, page);
        }
    }
    pub fn has_room(&self) -> bool {
        self.pages.lock().values().map(|page| page.len()).sum::<usize>() < self.room
    }
    pub fn remove_file(&self, file: FileNumber) {
        self.pages.lock().retain(|key, _| key.file != file);
    }
}

#[derive(Debug)]
pub struct FileTable {
    storage: Arc<dyn Storage>,
}

impl FileTable {
    pub fn new(storage: Arc<dyn Storage>, _open_max: usize) -> Self {
        Self { storage }
    }
    pub fn get(&self, _file: FileNumber, name: &str) -> Result<Arc<dyn StorageFile>> {
        self.storage.open(name, OpenMode::ReadDirect)
    }
    pub fn forget(&self, _file: FileNumber) {}
}

pub mod quotient {
    #[derive(Default)]
    pub struct FilterBuilder(Vec<u32>);
    impl FilterBuilder {
        pub fn new() -> Self {
            Self::default()
        }
        pub fn add(&mut self, fingerprint: u32) {
            self.0.push(fingerprint);
        }
        pub fn finish(mut self) -> Vec<Vec<u8>> {
            self.0.sort_unstable();
            let pages = self.0.len().div_ceil(900).next_power_of_two() as u32;
            let mut out = vec![Vec::new(); pages as usize];
            for fingerprint in self.0 {
                let page: &mut Vec<u8> = &mut out[page_of(fingerprint, pages) as usize];
                if page.len() < 4000 {
                    page.extend_from_slice(&fingerprint.to_le_bytes());
                }
            }
            out
        }
    }
    pub fn page_of(fingerprint: u32, pages: u32) -> u32 {
        (u64::from(fingerprint) * u64::from(pages) >> 32) as u32
    }
    pub fn may_contain(payload: &[u8], fingerprint: u32, _pages: u32) -> bool {
        payload.len() >= 4000 || payload.chunks(4).any(|four| four == fingerprint.to_le_bytes())
    }
}
