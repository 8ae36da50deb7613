//! What a put and a get must not cost: allocations and system calls of the calling thread, in a million of them (200,000
//! without optimization). A binary of its own, because it has its own allocator.

mod allocations;
mod counting;
mod fuzz_smoke;
mod store;
mod system_calls;
