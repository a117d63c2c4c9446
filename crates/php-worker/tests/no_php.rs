//! Without PHP the program is still there, and says what is missing.
#![cfg(no_php)]
#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn says_what_is_missing_and_exits_with_2() {
    howdah_skip::skip!("everything about PHP, for howdah-php was built without it");
    let output = Command::new(env!("CARGO_BIN_EXE_howdah-php")).arg("version").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("without PHP"));
}
