//! The environment. There is only the default one.

use crate::boundary;
use crate::bytes;
use crate::handle::{Handle, object};
use libc::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

/// The default environment.
pub struct Env;

object!(Env, "leveldb_env_t", Shared);

/// Returns the default environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_default_env() -> Handle<Env> {
    Handle::new(Env)
}

/// Destroys an environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_destroy(env: Handle<Env>) {
    boundary::infallible("leveldb_env_destroy", (), || Ok(env.end().map(drop)?));
}

/// Returns an existing directory for tests: `TEST_TMPDIR`, or one of the user's under `/tmp`. NULL if it cannot be
/// created.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_get_test_directory(env: Handle<Env>) -> *mut c_char {
    boundary::infallible("leveldb_env_get_test_directory", ptr::null_mut(), || {
        env.get()?;
        // SAFETY: a system call that has no arguments and cannot fail.
        let user = unsafe { libc::geteuid() };
        let given = std::env::var_os("TEST_TMPDIR").filter(|path| !path.is_empty());
        let path = given.map_or_else(|| PathBuf::from(format!("/tmp/leveldbtest-{user}")), PathBuf::from);
        if std::fs::create_dir_all(&path).is_err() {
            return Ok(ptr::null_mut());
        }
        Ok(bytes::to_c_string(path.as_os_str().as_bytes()))
    })
}
