//! The library as C programs see it: what it exports, its header, and programs that use it, compiled by the system's compiler. Where that,
//! valgrind or LevelDB itself is missing, a line says so.

mod header;
mod install;
mod interface;
mod programs;
mod replay;
