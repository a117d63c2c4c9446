//! The properties that hold for any bytes.

use crate::pattern::Captures;
use crate::testing::{Nowhere, request, transaction};

use super::Expression;

/// Every valid condition or string can be evaluated, twice with the same result; the offset of an
/// error is within the text.
pub fn expression(data: &[u8]) {
    for compiled in [Expression::condition(data), Expression::string(data)] {
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(bad) => {
                assert!(bad.offset <= data.len(), "{bad:?}");
                continue;
            }
        };
        assert_eq!(evaluated(&compiled), evaluated(&compiled));
        if let Some(constant) = compiled.constant() {
            assert_eq!(
                evaluated(&compiled),
                (Err("a string is no condition".to_owned()), Ok(constant.to_vec()))
            );
        }
    }
}

fn evaluated(compiled: &Expression) -> (Result<bool, String>, Result<Vec<u8>, String>) {
    let request =
        request("/a/b.php?c=d&e", "Host: example.org\nUser-Agent: Some Bot/1.0\nCookie: a=b");
    let mut transaction = transaction(&request);
    let (mut context, mut captures) = (Nowhere::default(), Captures::default());
    (
        compiled.holds(&mut transaction, &mut context, &mut captures),
        compiled.render(&mut transaction, &mut context, &mut captures),
    )
}
