//! Costs that operations must not have: allocations and system calls of the thread that puts or gets, counted over a
//! million operations (200,000 without optimization), and the read-modify-writes and shared cache lines of each
//! operation. A separate binary, because it has its own allocator.

mod allocations;
mod counting;
mod fuzz_smoke;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod shared_lines;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod stepping;
mod store;
mod system_calls;

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
#[test]
fn operations_of_two_threads_share_few_lines() {
    system_calls::skip("shared lines are counted only on x86-64 with Linux");
}
