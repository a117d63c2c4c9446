//! Numbers as text, without an allocation: a log line may be written in a signal handler.

/// Writes `number` at the end of `room`, which has place for every number. Returns its digits.
pub fn decimal(mut number: u64, room: &mut [u8; 20]) -> &[u8] {
    let mut first = room.len();
    loop {
        first -= 1;
        room[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[first..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_and_the_largest_number_fit() {
        for number in [0, 9, 10, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
