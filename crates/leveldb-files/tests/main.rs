//! Reads directories that the real LevelDB wrote: by the system's library through a small C program, and the one in
//! `golden`.

mod damage;
mod golden;
mod reading;
mod writer;
