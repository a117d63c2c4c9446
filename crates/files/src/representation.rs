//! A file's representation: its head and its compressed content. Both are dropped with the file's
//! entry.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use howdah_http::{ResponseHead, SharedHead};

/// A file as it is sent whole (RFC 9110 §3.2).
#[derive(Debug)]
pub struct Representation {
    head: SharedHead,
    compressed: RefCell<[Option<Rc<[u8]>>; CODINGS]>,
}

/// A content coding whose result depends on nothing but the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// gzip (RFC 1952).
    Gzip,
    /// Brotli (RFC 7932).
    Brotli,
}

/// The number of codings.
const CODINGS: usize = 2;

impl Representation {
    pub(crate) fn new(head: ResponseHead, length: u64) -> Representation {
        Representation {
            head: SharedHead::new(head, length),
            compressed: RefCell::default(),
        }
    }

    /// The head of the plain 200.
    #[inline]
    pub fn head(&self) -> &SharedHead {
        &self.head
    }

    /// Returns the content in that coding, if a [`CompressedBudget`] kept it.
    pub fn compressed(&self, coding: Coding) -> Option<Rc<[u8]>> {
        self.compressed.borrow()[coding as usize].clone()
    }
}

/// The memory that compressed content may take on one thread. The [`Representation`] of a file
/// keeps the content, which is dropped with it.
#[derive(Debug)]
pub struct CompressedBudget {
    /// Bytes in all.
    most: usize,
    kept: Cell<usize>,
    holders: RefCell<Vec<Weak<Representation>>>,
}

impl CompressedBudget {
    /// Room for `most` bytes.
    pub fn new(most: usize) -> CompressedBudget {
        CompressedBudget {
            most,
            kept: Cell::new(0),
            holders: RefCell::default(),
        }
    }

    /// Keeps `content`, the content of `of` in `coding`. If there is no room, all compressed
    /// content is dropped first. Content larger than the whole budget is not kept.
    pub fn keep(&self, of: &Rc<Representation>, coding: Coding, content: &Rc<[u8]>) {
        if content.len() > self.most {
            return;
        }
        if self.kept.get() + content.len() > self.most {
            for holder in self.holders.take().iter().filter_map(Weak::upgrade) {
                holder.compressed.take();
            }
            self.kept.set(0);
        }
        let mut slots = of.compressed.borrow_mut();
        if slots.iter().all(Option::is_none) {
            self.holders.borrow_mut().push(Rc::downgrade(of));
        }
        let before = slots[coding as usize].replace(Rc::clone(content));
        let kept = self.kept.get() + content.len();
        self.kept.set(kept - before.map_or(0, |before| before.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_http::Status;

    #[test]
    fn compressed_content_is_bounded_and_dropped_with_its_file() {
        let budget = CompressedBudget::new(40);
        let file = || Rc::new(Representation::new(ResponseHead::new(Status::OK), 100));
        let content: Rc<[u8]> = vec![0; 10].into();
        let files: Vec<_> = (0..10).map(|_| file()).collect();
        for file in &files {
            budget.keep(file, Coding::Gzip, &content);
            budget.keep(file, Coding::Gzip, &content);
            let held = files.iter().filter(|file| file.compressed(Coding::Gzip).is_some());
            assert!(held.count() * content.len() <= 40);
            assert!(file.compressed(Coding::Gzip).is_some());
            assert!(file.compressed(Coding::Brotli).is_none());
        }
        assert!(files[0].compressed(Coding::Gzip).is_none());
        let large: Rc<[u8]> = vec![0; 41].into();
        budget.keep(&files[0], Coding::Gzip, &large);
        assert!(files[0].compressed(Coding::Gzip).is_none());
        drop(files);
        assert!(budget.holders.borrow().iter().all(|holder| holder.upgrade().is_none()));
    }
}
