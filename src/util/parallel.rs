//! Runs independent pieces of work on several threads. The results do not depend on the number of threads.

use super::sync::{AtomicUsize, Mutex, Ordering};

/// Runs pieces `0..count` and returns their results in order. The caller works, too. Up to `threads - 1` more threads
/// help, fewer if the system refuses. With one thread everything runs in order in the caller.
pub fn map<R: Send>(threads: usize, count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    if threads <= 1 || count <= 1 {
        return (0..count).map(work).collect();
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    let help = || {
        loop {
            // Relaxed: it only assigns each piece once. The lock and the joins order the results.
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= count {
                return;
            }
            let result = work(piece);
            done.lock().push((piece, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            let helper = std::thread::Builder::new().name("alluvium-open".into());
            if helper.spawn_scoped(scope, help).is_err() {
                break;
            }
        }
        help();
    });
    let mut done = done.into_inner();
    done.sort_unstable_by_key(|(piece, _)| *piece);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_order_with_any_number_of_threads() {
        let expected: Vec<usize> = (0..1000).map(|piece| piece * piece).collect();
        for threads in [0, 1, 2, 7] {
            assert_eq!(super::map(threads, 1000, |piece| piece * piece), expected);
        }
        assert!(super::map(4, 0, |piece| piece).is_empty());
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_of_a_helper_reaches_the_caller() {
        let caller = std::thread::current().id();
        super::map(3, 1000, |_| {
            std::thread::sleep(std::time::Duration::from_micros(100));
            assert!(std::thread::current().id() == caller, "a helper");
        });
    }
}
