//! The bytes that requests and their answers may take at once.
//!
//! Room is charged when memory is about to be taken, never by what a head announces, and nobody waits for it: what finds
//! none is refused, so half-read bodies can't hold each other up. Large bodies leave a quarter to small ones.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body above this is large: far more than a slice of a hundred endpoints in both versions has.
pub const LARGE: usize = 256 * 1024;

/// Permits are for so many bytes, since a semaphore does not count to 4 GiB.
const UNIT: usize = 1024;

/// There is no more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

/// What there is for all.
///
/// Not charged is what requests are worked with: at once at most one for each processor, and half as many large ones
/// beside them, each with up to about 20 MiB and two and a half times its body until its answer is charged.
#[derive(Debug, Clone)]
pub struct Rooms {
    all: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Rooms {
    /// So many `bytes` for all at once, of which one body may have `largest`.
    #[must_use]
    pub fn new(bytes: usize, largest: usize) -> Self {
        let all = units(bytes);
        let large = (all - all / 4).max(units(largest)).min(all);
        Self {
            all: Arc::new(Semaphore::new(all)),
            large: Arc::new(Semaphore::new(large)),
        }
    }

    /// An empty room for a body of `length` bytes and its answer.
    #[must_use]
    pub fn enter(&self, length: usize) -> Room {
        Room {
            all: Share::of(&self.all),
            large: (length > LARGE).then(|| Share::of(&self.large)),
        }
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS)
}

/// What a request has of it, given back at its end.
#[derive(Debug)]
pub struct Room {
    all: Share,
    large: Option<Share>,
}

impl Room {
    /// Makes it as large as `bytes`.
    ///
    /// # Errors
    /// [`NoRoom`], after which the request is to be given up.
    pub fn resize(&mut self, bytes: usize) -> Result<(), NoRoom> {
        if let Some(large) = &mut self.large {
            large.resize(units(bytes))?;
        }
        self.all.resize(units(bytes))
    }
}

#[derive(Debug)]
struct Share {
    whole: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Share {
    fn of(whole: &Arc<Semaphore>) -> Self {
        Self {
            whole: whole.clone(),
            permit: None,
        }
    }

    fn resize(&mut self, units: usize) -> Result<(), NoRoom> {
        let held = self
            .permit
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        if let Some(surplus) = held.checked_sub(units) {
            drop(
                self.permit
                    .as_mut()
                    .and_then(|permit| permit.split(surplus)),
            );
            return Ok(());
        }
        let missing = u32::try_from(units - held).map_err(|_| NoRoom)?;
        let more = self
            .whole
            .clone()
            .try_acquire_many_owned(missing)
            .map_err(|_| NoRoom)?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_and_given_back_by_need() {
        let rooms = Rooms::new(100 * UNIT, UNIT);
        let (mut first, mut second) = (rooms.enter(0), rooms.enter(0));
        assert_eq!(first.resize(60 * UNIT), Ok(()));
        assert_eq!(second.resize(41 * UNIT), Err(NoRoom));
        assert_eq!(second.resize(40 * UNIT), Ok(()));
        assert_eq!(first.resize(10 * UNIT + 1), Ok(()));
        assert_eq!(second.resize(90 * UNIT), Err(NoRoom));
        assert_eq!(second.resize(89 * UNIT), Ok(()));
        drop((first, second));
        assert_eq!(rooms.all.available_permits(), 100);
    }

    #[test]
    fn large_bodies_leave_a_quarter_to_small_ones() {
        let rooms = Rooms::new(4 * LARGE, LARGE + 1);
        let (mut large, mut small) = (rooms.enter(LARGE + 1), rooms.enter(LARGE));
        assert_eq!(large.resize(3 * LARGE + 1), Err(NoRoom));
        assert_eq!(large.resize(3 * LARGE), Ok(()));
        assert_eq!(small.resize(LARGE), Ok(()));
    }

    #[test]
    fn the_largest_body_has_room_even_where_that_leaves_none() {
        let mut large = Rooms::new(2 * LARGE, 2 * LARGE).enter(2 * LARGE);
        assert_eq!(large.resize(2 * LARGE), Ok(()));
    }
}
