//! The place in a table that has more rows than the screen.

use std::ops::Range;

/// The selected row, and the rows that the screen shows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TablePosition {
    selected: usize,
    /// The first row that is shown.
    first: usize,
    /// Number of rows that the screen has room for.
    room: usize,
}

impl TablePosition {
    /// Number of the selected row.
    pub(crate) fn selected(&self) -> usize {
        self.selected
    }

    /// Moves the selection. [`TablePosition::fit`] corrects a row behind the last one.
    pub(crate) fn step(&mut self, rows: isize) {
        self.selected = self.selected.saturating_add_signed(rows);
    }

    /// Moves the selection by a number of screens, up where it is negative.
    pub(crate) fn page(&mut self, screens: isize) {
        let rows = isize::try_from(self.room.max(1)).unwrap_or(isize::MAX);
        self.step(rows.saturating_mul(screens));
    }

    /// Returns the rows to show of `count`, where there is room for `room` of them. They have the
    /// selected one, and leave no room that a row could have.
    pub(crate) fn fit(&mut self, count: usize, room: usize) -> Range<usize> {
        self.room = room;
        self.selected = self.selected.min(count.saturating_sub(1));
        let room = room.max(1);
        let lowest = (self.selected + 1).saturating_sub(room);
        let highest = self.selected.min(count.saturating_sub(room));
        self.first = self.first.clamp(lowest, highest);
        self.first..count.min(self.first + room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_row_is_shown_and_no_room_is_left() {
        let mut position = TablePosition::default();
        assert_eq!(position.fit(50, 10), 0..10);
        position.step(9);
        assert_eq!(position.fit(50, 10), 0..10);
        position.step(1);
        assert_eq!((position.fit(50, 10), position.selected()), (1..11, 10));
        position.page(1);
        assert_eq!((position.fit(50, 10), position.selected()), (11..21, 20));
        position.step(-5);
        assert_eq!((position.fit(50, 10), position.selected()), (11..21, 15));
        position.step(isize::MAX);
        assert_eq!((position.fit(50, 10), position.selected()), (40..50, 49));
        // The terminal grows and shrinks, and sites go.
        assert_eq!(position.fit(50, 60), 0..50);
        assert_eq!(position.fit(50, 3), 47..50);
        assert_eq!((position.fit(2, 3), position.selected()), (0..2, 1));
        position.step(isize::MIN);
        assert_eq!((position.fit(2, 0), position.selected()), (0..1, 0));
        assert_eq!(position.fit(0, 10), 0..0);
    }
}
