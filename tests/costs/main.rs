//! Costs that operations must not have: allocations and system calls of the thread that puts or gets, counted over a
//! million operations (200,000 without optimization), and read-modify-writes of seeks. A separate binary, because it has
//! its own allocator.

mod allocations;
mod counting;
mod fuzz_smoke;
mod read_modify_writes;
mod store;
mod system_calls;
