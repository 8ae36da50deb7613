//! The part of SplinterDB's public C interface that the comparison needs, looked up in a shared library at run time. Written
//! against the headers `splinterdb/splinterdb.h` and `splinterdb/data.h` of June 2026; the layout of the configuration is
//! theirs, and another version of the library may have another one.
//!
//! 1. The functions of `Functions` stay valid: the library is never unloaded.
//! 2. The data configuration lives on the heap until the store is closed: SplinterDB keeps a pointer to it.
//! 3. SplinterDB registers threads by itself; a store may be used by many at once, an iterator and a result by one.

use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;

/// `slice`: bytes with a length.
#[repr(C)]
#[derive(Clone, Copy)]
struct Slice {
    length: u64,
    data: *const c_void,
}

impl Slice {
    const NULL: Self = Self { length: 0, data: ptr::null() };

    fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len() as u64, data: bytes.as_ptr().cast() }
    }
}

/// `data_config`: six function pointers, which the library's default fills. Has space for a few more, in case it fills
/// more.
#[repr(C)]
struct DataConfig {
    functions: [*const c_void; 16],
}

/// `splinterdb_config`; zero in an optional field selects the library's default.
#[repr(C)]
struct RawConfig {
    filename: *const c_char,
    cache_size: u64,
    disk_size: u64,
    data_cfg: *mut DataConfig,
    heap_handle: *mut c_void,
    heap_id: *mut c_void,
    shmem_size: u64,
    use_shmem: bool,
    page_size: u64,
    extent_size: u64,
    io_flags: c_int,
    io_perms: u32,
    io_async_queue_depth: u64,
    cache_use_stats: bool,
    cache_logfile: *const c_char,
    num_memtable_bg_threads: u64,
    num_normal_bg_threads: u64,
    btree_rough_count_height: u64,
    filter_hash_size: u64,
    filter_log_index_size: u64,
    use_log: bool,
    memtable_capacity: u64,
    fanout: u64,
    use_stats: u64,
    reclaim_threshold: u64,
    queue_scale_percent: u64,
    prefetch_budget: u64,
    /// Zeroed space after the structure: a newer library that reads further finds its defaults.
    reserved: [u64; 16],
}

/// `splinterdb_lookup_result`: opaque, 20 words, and as many again in reserve.
#[repr(C, align(16))]
struct RawResult {
    opaque: [u64; 40],
}

#[repr(C)]
struct RawStore {
    _private: [u8; 0],
}

#[repr(C)]
struct RawIterator {
    _private: [u8; 0],
}

/// `comparison`: where an iterator starts.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the last key at or before the given one.
    AtOrBefore = 1,
    /// At the first key at or after the given one.
    AtOrBehind = 3,
}

/// How a store is created.
pub struct Config<'a> {
    pub file: &'a CStr,
    pub cache_bytes: u64,
    pub disk_bytes: u64,
    pub memtable_bytes: u64,
    pub io_flags: c_int,
    pub memtable_threads: u64,
    pub normal_threads: u64,
}

/// Declares the table of functions and how each is looked up by its name.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Functions {
            fn look_up(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    $(
                        // SAFETY: the type is that of the header's declaration of this name; the library is never
                        // unloaded (invariant 1).
                        $name: unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? },
                    )*
                })
            }
        }
    };
}

functions! {
    default_data_config_init: fn(*mut DataConfig);
    splinterdb_get_version: fn() -> *const c_char;
    splinterdb_create: fn(*const RawConfig, *mut *mut RawStore) -> c_int;
    splinterdb_close: fn(*mut *mut RawStore);
    splinterdb_insert: fn(*mut RawStore, Slice, Slice, *mut RawResult) -> c_int;
    splinterdb_delete: fn(*mut RawStore, Slice, *mut RawResult) -> c_int;
    splinterdb_lookup_result_init: fn(*const RawStore, *mut RawResult, u64, u64, *mut c_char);
    splinterdb_lookup_result_deinit: fn(*mut RawResult);
    splinterdb_lookup: fn(*mut RawStore, Slice, *mut RawResult) -> c_int;
    splinterdb_lookup_found: fn(*const RawResult) -> bool;
    splinterdb_lookup_result_value: fn(*const RawResult, *mut Slice) -> c_int;
    splinterdb_iterator_init: fn(*mut RawStore, *mut *mut RawIterator, Start, Slice) -> c_int;
    splinterdb_iterator_deinit: fn(*mut RawIterator);
    splinterdb_iterator_valid: fn(*mut RawIterator) -> bool;
    splinterdb_iterator_next: fn(*mut RawIterator);
    splinterdb_iterator_prev: fn(*mut RawIterator);
    splinterdb_iterator_get_current: fn(*mut RawIterator, *mut Slice, *mut Slice);
    splinterdb_iterator_status: fn(*const RawIterator) -> c_int;
}

/// An open store.
pub struct Store {
    raw: *mut RawStore,
    functions: Functions,
    /// Kept where it is until the store is closed (invariant 2).
    _data_config: Box<DataConfig>,
}

// SAFETY: SplinterDB locks inside and registers threads on first use (invariant 3).
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

fn check(code: c_int, what: &str) -> Result<(), String> {
    match code {
        0 => Ok(()),
        code => Err(format!("splinterdb: {what} failed with code {code}")),
    }
}

impl Store {
    /// Loads the library and creates a store, replacing the contents of the file.
    pub fn create(library: &Path, config: &Config<'_>) -> Result<Self, String> {
        // SAFETY: loading runs the library's initializers; the user named this library as SplinterDB's.
        let library = unsafe { Library::new(library) }.map_err(|error| format!("splinterdb: {error}"))?;
        // Never unloaded: every thread that used it runs a function of it when it ends, which may be long after the store is
        // closed.
        let library = ManuallyDrop::new(library);
        let functions = Functions::look_up(&library).map_err(|error| format!("splinterdb: {error}"))?;
        let mut data_config = Box::new(DataConfig { functions: [ptr::null(); 16] });
        // SAFETY: the function fills a structure that is no larger than ours.
        unsafe { (functions.default_data_config_init)(&mut *data_config) };
        let raw_config = RawConfig {
            filename: config.file.as_ptr(),
            cache_size: config.cache_bytes,
            disk_size: config.disk_bytes,
            data_cfg: &mut *data_config,
            heap_handle: ptr::null_mut(),
            heap_id: ptr::null_mut(),
            shmem_size: 0,
            use_shmem: false,
            page_size: 0,
            extent_size: 0,
            io_flags: config.io_flags,
            io_perms: 0,
            io_async_queue_depth: 0,
            cache_use_stats: false,
            cache_logfile: ptr::null(),
            num_memtable_bg_threads: config.memtable_threads,
            num_normal_bg_threads: config.normal_threads,
            btree_rough_count_height: 0,
            filter_hash_size: 0,
            filter_log_index_size: 0,
            use_log: true,
            memtable_capacity: config.memtable_bytes,
            fanout: 0,
            use_stats: 0,
            reclaim_threshold: 0,
            queue_scale_percent: 100,
            prefetch_budget: 0,
            reserved: [0; 16],
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the configuration has the header's layout and lives through the call; what it points to lives longer
        // (the name through the call, the data configuration as long as the store).
        check(unsafe { (functions.splinterdb_create)(&raw_config, &mut raw) }, "creating the store")?;
        if raw.is_null() {
            return Err("splinterdb: no store and no error was returned".to_owned());
        }
        Ok(Self { raw, functions, _data_config: data_config })
    }

    /// The version that the library was built from.
    pub fn version(&self) -> String {
        // SAFETY: the function returns null or a constant terminated string.
        let text = unsafe { (self.functions.splinterdb_get_version)() };
        if text.is_null() {
            return "unknown".to_owned();
        }
        // SAFETY: not null, as just seen.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Sets a key.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let (key, value) = (Slice::of(key), Slice::of(value));
        // SAFETY: the store is open; SplinterDB copies both before it returns; null asks for no old value.
        check(unsafe { (self.functions.splinterdb_insert)(self.raw, key, value, ptr::null_mut()) }, "an insert")
    }

    /// Removes a key.
    pub fn delete(&self, key: &[u8]) -> Result<(), String> {
        // SAFETY: as for `insert`.
        check(unsafe { (self.functions.splinterdb_delete)(self.raw, Slice::of(key), ptr::null_mut()) }, "a delete")
    }

    /// Copies a value into `value`; false if the key is absent.
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        value.clear();
        let mut result = RawResult { opaque: [0; 40] };
        // A buffer of the caller saves the library an allocation if the value fits.
        let mut buffer = [0u8; 512];
        // SAFETY: the store is open; result and buffer outlive their use here, the result is returned once, and the
        // value is copied before that.
        unsafe {
            let functions = &self.functions;
            let length = buffer.len() as u64;
            (functions.splinterdb_lookup_result_init)(self.raw, &mut result, 0, length, buffer.as_mut_ptr().cast());
            let mut looked = check((functions.splinterdb_lookup)(self.raw, Slice::of(key), &mut result), "a look-up");
            let found = looked.is_ok() && (functions.splinterdb_lookup_found)(&result);
            if found {
                let mut slice = Slice::NULL;
                looked = check((functions.splinterdb_lookup_result_value)(&result, &mut slice), "reading a value");
                if looked.is_ok() {
                    value.extend_from_slice(bytes_of(slice));
                }
            }
            (functions.splinterdb_lookup_result_deinit)(&mut result);
            looked.map(|()| found)
        }
    }

    /// A new iterator that starts at `from`, or at the end of the store that `start` means.
    pub fn iterator(&self, start: Start, from: Option<&[u8]>) -> Result<Iterator<'_>, String> {
        let from = from.map_or(Slice::NULL, Slice::of);
        let mut raw = ptr::null_mut();
        // SAFETY: the store is open and borrowed by the iterator; SplinterDB copies the key.
        check(unsafe { (self.functions.splinterdb_iterator_init)(self.raw, &mut raw, start, from) }, "a seek")?;
        Ok(Iterator { raw, store: self })
    }
}

/// The bytes of a slice that SplinterDB returned.
///
/// # Safety
/// The slice is valid, and its bytes neither move nor change as long as the result is used.
unsafe fn bytes_of<'a>(slice: Slice) -> &'a [u8] {
    if slice.data.is_null() || slice.length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(slice.data.cast(), slice.length as usize) }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: open until here; iterators borrow the store, so none is alive.
        unsafe { (self.functions.splinterdb_close)(&mut self.raw) }
    }
}

/// A cursor over a store.
pub struct Iterator<'a> {
    raw: *mut RawIterator,
    store: &'a Store,
}

impl Iterator<'_> {
    /// The current pair; `None` after the end or after an error.
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        let (mut key, mut value) = (Slice::NULL, Slice::NULL);
        // SAFETY: the iterator is alive until its drop; the pair is asked for only at a valid place, and stays until the
        // iterator moves, which needs it borrowed again.
        unsafe {
            if !(self.store.functions.splinterdb_iterator_valid)(self.raw) {
                return None;
            }
            (self.store.functions.splinterdb_iterator_get_current)(self.raw, &mut key, &mut value);
            Some((bytes_of(key), bytes_of(value)))
        }
    }

    /// Moves forward. Only from a pair.
    pub fn next(&mut self) {
        // SAFETY: the iterator is alive; callers step only from a pair.
        unsafe { (self.store.functions.splinterdb_iterator_next)(self.raw) }
    }

    /// Moves backward. Only from a pair.
    pub fn prev(&mut self) {
        // SAFETY: as for `next`.
        unsafe { (self.store.functions.splinterdb_iterator_prev)(self.raw) }
    }

    /// The error, if it stopped for another reason than the end.
    pub fn status(&self) -> Result<(), String> {
        // SAFETY: the iterator is alive.
        check(unsafe { (self.store.functions.splinterdb_iterator_status)(self.raw) }, "an iteration")
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: made by SplinterDB, returned once, here.
        unsafe { (self.store.functions.splinterdb_iterator_deinit)(self.raw) }
    }
}
