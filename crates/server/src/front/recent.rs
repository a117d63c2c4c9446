//! What is at hand of remembered requests, found without comparing anything.

use std::rc::Rc;

use howdah_site::Ruled;

/// Something that was made of requests lately that are [remembered](howdah_site::ResolutionCache), by the
/// last bits of the address of what directives made of each. Empty until there is one.
#[derive(Debug)]
pub(super) struct Recent<T>(Box<[Place<T>]>);

/// A request, and what was made of it.
type Place<T> = Option<(Rc<Ruled>, T)>;

/// Requests of which something is at hand.
const MOST: usize = 256;

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent(Box::default())
    }
}

impl<T> Recent<T> {
    #[inline]
    pub(super) fn find(&self, ruled: &Rc<Ruled>) -> Option<&T> {
        let (known, made) = self.0.get(place(ruled))?.as_ref()?;
        Rc::ptr_eq(known, ruled).then_some(made)
    }

    /// Notes what was made of a request, if that is remembered.
    pub(super) fn note(&mut self, ruled: &Rc<Ruled>, made: impl FnOnce() -> T) {
        // Its address is the key, so it is held: nothing else can come to stand there.
        let is_remembered = Rc::strong_count(ruled) > 1;
        if !is_remembered {
            return;
        }
        if self.0.is_empty() {
            self.0 = (0..MOST).map(|_| None).collect();
        }
        self.0[place(ruled)] = Some((Rc::clone(ruled), made()));
    }
}

fn place(ruled: &Rc<Ruled>) -> usize {
    Rc::as_ptr(ruled).addr() / size_of::<Ruled>() % MOST
}
