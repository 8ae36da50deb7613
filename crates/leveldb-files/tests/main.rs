//! Directories of the real LevelDB, read back: by the library of the system, through a small C program; and one that is kept in `golden`.

mod damage;
mod golden;
mod reading;
mod writer;
