//! The secret of Digest authentication's nonces.

use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

/// Returns thirty-two random bytes, the same for every thread of this front. The next generation
/// has another secret. It tells clients that their nonces are stale, and they try again without
/// asking the user. `None`: the kernel gives no random bytes.
pub(super) fn secret() -> Option<[u8; 32]> {
    static SECRET: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    *SECRET.get_or_init(|| {
        let mut bytes = [0; 32];
        let mut source = File::open("/dev/urandom").ok()?;
        source.read_exact(&mut bytes).ok()?;
        Some(bytes)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_secret_stays_the_same_and_is_not_empty() {
        let secret = super::secret().unwrap();
        assert_ne!(secret, [0; 32]);
        assert_eq!(super::secret(), Some(secret));
    }
}
