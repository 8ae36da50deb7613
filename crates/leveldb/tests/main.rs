//! Tests the library as C programs use it: its exported symbols, its header, and programs compiled by the system's
//! compiler. If the compiler, valgrind or LevelDB itself is missing, the tests print what they skip.

mod header;
mod install;
mod interface;
mod programs;
mod replay;
