//! Costs that puts and gets must not have: allocations and system calls of the calling thread, counted over a million
//! operations (200,000 without optimization). A separate binary, because it has its own allocator.

mod allocations;
mod counting;
mod fuzz_smoke;
mod store;
mod system_calls;
