//! The allocator of the C library.

/// Gives memory that was freed back to the kernel, from all threads' arenas (`malloc_trim(3)`).
/// Otherwise an arena keeps what lies below its last block in use. It takes about a millisecond per
/// 50 MB that are given back. Does nothing where the C library is not glibc.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: The function has no preconditions, and takes the locks that it needs.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::OwnMemoryMeter;

    #[test]
    fn freed_memory_goes_back_though_a_block_behind_it_is_in_use() {
        let meter = OwnMemoryMeter::of_this_process().unwrap();
        let blocks: Vec<Vec<u8>> = (0..20_000).map(|_| vec![1; 2_000]).collect();
        let last = vec![1_u8; 2_000];
        drop(blocks);
        let before = meter.read().unwrap();
        give_back();
        let after = meter.read().unwrap();
        assert!(last.len() == 2_000 && before - after > 20 << 20, "{before} bytes, then {after}");
    }
}
