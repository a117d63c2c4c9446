//! A response head that many responses share.

use std::any::Any;
use std::cell::OnceCell;

use crate::ResponseHead;

/// A response head that many responses share, such as that of a file: data for every protocol, with
/// room for what a protocol makes of it.
///
/// Its maker knows no protocol; a protocol encodes the head once, not for every response.
#[derive(Debug)]
pub struct SharedHead {
    head: ResponseHead,
    length: u64,
    encoded: OnceCell<Box<[u8]>>,
    made: OnceCell<Box<dyn Any>>,
}

impl SharedHead {
    /// A head for content of `length` bytes. It has no framing, no Date, Server and Connection.
    pub fn new(head: ResponseHead, length: u64) -> SharedHead {
        SharedHead {
            head,
            length,
            encoded: OnceCell::new(),
            made: OnceCell::new(),
        }
    }

    /// The head as data.
    pub fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// Bytes of the content.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The bytes that HTTP/1 sends of it each time, made by `encode` the first time. They are
    /// opaque to all but the protocol.
    #[inline]
    pub fn encoded(&self, encode: impl FnOnce(&ResponseHead, u64) -> Box<[u8]>) -> &[u8] {
        self.encoded.get_or_init(|| encode(&self.head, self.length))
    }

    /// The head in the types of the protocols that have streams, which begins as its default.
    /// `None`: the head is kept as another type already.
    #[inline]
    pub fn made<T: Default + 'static>(&self) -> Option<&T> {
        self.made.get_or_init(|| Box::new(T::default())).downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Status;

    #[test]
    fn is_encoded_once() {
        let shared = SharedHead::new(ResponseHead::new(Status::NOT_FOUND), 7);
        assert_eq!((shared.head().status, shared.length()), (Status::NOT_FOUND, 7));
        let encode = |head: &ResponseHead, length| format!("{} {length}", head.status).into_bytes();
        let first = shared.encoded(|head, length| encode(head, length).into());
        assert!(first.ends_with(b" 7"));
        let again = shared.encoded(|_, _| unreachable!("it is encoded already"));
        assert_eq!(first.as_ptr(), again.as_ptr());
    }

    #[test]
    fn keeps_one_value_of_another_type() {
        let shared = SharedHead::new(ResponseHead::new(Status::OK), 7);
        let value: Option<&Cell<u8>> = shared.made();
        assert_eq!(value.map(|value| value.replace(3)), Some(0));
        assert_eq!(shared.made().map(Cell::<u8>::get), Some(3));
        assert_eq!(shared.made::<String>(), None);
    }
}
