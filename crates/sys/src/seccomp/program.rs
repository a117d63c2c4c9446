//! Compiles rules to a program of the kernel's packet filter: a binary search over the numbers of
//! the system calls, whose leaves are verdicts.

use std::collections::BTreeMap;

use libc::sock_filter;

use super::SeccompVerdict;

/// `AUDIT_ARCH_…` of this program (`linux/audit.h`).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// Numbers from here on are x86-64's second set of system calls (x32). Other machines have no call
/// with such a number.
const X32: u32 = 0x4000_0000;

/// Offsets within `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const JUMP: u32 = libc::BPF_JMP | libc::BPF_JA;
const JUMP_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const JUMP_FROM: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Compiles rules. Calls of another architecture fail with `ENOSYS`: their numbers have another
/// meaning.
pub(super) fn compile(
    verdicts: &BTreeMap<u32, SeccompVerdict>,
    otherwise: &SeccompVerdict,
) -> Vec<sock_filter> {
    let mut out = vec![
        statement(LOAD, ARCH),
        jump(JUMP_EQUAL, ARCHITECTURE, 1, 0),
        give(&SeccompVerdict::NOT_THERE),
        statement(LOAD, NUMBER),
    ];
    out.extend(search(&ranges(verdicts, otherwise)));
    out
}

/// Splits the numbers into ranges with the same verdict. Each range begins at its number and ends
/// before the next one.
fn ranges<'v>(
    verdicts: &'v BTreeMap<u32, SeccompVerdict>,
    otherwise: &'v SeccompVerdict,
) -> Vec<(u32, &'v SeccompVerdict)> {
    let mut ranges: Vec<(u32, &SeccompVerdict)> = vec![(0, otherwise)];
    let mut begin = |at: u32, verdict: &'v SeccompVerdict| {
        if ranges.last().is_some_and(|last| last.0 == at) {
            ranges.pop();
        }
        if ranges.last().is_none_or(|last| last.1 != verdict) {
            ranges.push((at, verdict));
        }
    };
    for (&number, verdict) in verdicts.range(..X32 - 1) {
        begin(number, verdict);
        begin(number + 1, otherwise);
    }
    ranges.push((X32, &SeccompVerdict::NOT_THERE));
    ranges
}

/// Code that finds the range of the loaded number, and gives its verdict.
fn search(ranges: &[(u32, &SeccompVerdict)]) -> Vec<sock_filter> {
    if let [(_, verdict)] = ranges {
        return leaf(verdict);
    }
    let (below, above) = ranges.split_at(ranges.len() / 2);
    let low = search(below);
    // The distance of a conditional jump is a byte, that of a plain one is not.
    let mut out = vec![jump(JUMP_FROM, above[0].0, 0, 1), statement(JUMP, distance(low.len()))];
    out.extend(low);
    out.extend(search(above));
    out
}

fn leaf(verdict: &SeccompVerdict) -> Vec<sock_filter> {
    let (index, mask, values, then, otherwise) = match verdict {
        SeccompVerdict::Argument { index, mask, values, then, otherwise } => {
            (index, mask, values, then, otherwise)
        }
        SeccompVerdict::Null { index, then, otherwise } => {
            return null_leaf(*index, then, otherwise);
        }
        SeccompVerdict::Allow | SeccompVerdict::Refuse(_) => return vec![give(verdict)],
    };
    let mut out = vec![statement(LOAD, low_word(*index))];
    if *mask != u32::MAX {
        out.push(statement(AND, *mask));
    }
    for (position, value) in values.iter().enumerate() {
        let to_then = u8::try_from(values.len() - position).unwrap_or(u8::MAX);
        out.push(jump(JUMP_EQUAL, *value, to_then, 0));
    }
    let then = leaf(then);
    out.push(statement(JUMP, distance(then.len())));
    out.extend(then);
    out.extend(leaf(otherwise));
    out
}

/// Code that compares both halves of an argument with 0.
fn null_leaf(index: u8, then: &SeccompVerdict, otherwise: &SeccompVerdict) -> Vec<sock_filter> {
    let then = leaf(then);
    let mut out = vec![
        statement(LOAD, low_word(index)),
        jump(JUMP_EQUAL, 0, 0, 2),
        statement(LOAD, high_word(index)),
        jump(JUMP_EQUAL, 0, 1, 0),
        statement(JUMP, distance(then.len())),
    ];
    out.extend(then);
    out.extend(leaf(otherwise));
    out
}

/// Offset of the low 32 bits of an argument.
fn low_word(index: u8) -> u32 {
    let first = ARGUMENTS + 8 * u32::from(index);
    if cfg!(target_endian = "big") { first + 4 } else { first }
}

/// Offset of the high 32 bits of an argument.
fn high_word(index: u8) -> u32 {
    low_word(index) ^ 4
}

fn give(verdict: &SeccompVerdict) -> sock_filter {
    let answer = match verdict {
        SeccompVerdict::Refuse(errno) => libc::SECCOMP_RET_ERRNO | errno.unsigned_abs() & 0xFFF,
        _ => libc::SECCOMP_RET_ALLOW,
    };
    statement(RETURN, answer)
}

fn statement(code: u32, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    // The codes above are below 0x100.
    sock_filter { code: code as u16, jt, jf, k }
}

fn distance(instructions: usize) -> u32 {
    u32::try_from(instructions).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::SeccompRules;
    use super::*;

    /// Runs a program as the kernel does. Returns its answer and the number of instructions.
    fn run(program: &[sock_filter], arch: u32, number: u32, arguments: [u64; 6]) -> (u32, usize) {
        let word = |offset: u32| match offset {
            NUMBER => number,
            ARCH => arch,
            _ => {
                let argument = arguments[((offset - ARGUMENTS) / 8) as usize];
                match (offset - ARGUMENTS) % 8 {
                    0 => argument as u32,
                    4 => (argument >> 32) as u32,
                    _ => panic!("{offset}"),
                }
            }
        };
        let (mut at, mut accumulator, mut steps) = (0, 0, 0);
        loop {
            let step = program[at];
            at += 1;
            steps += 1;
            let by = |is_true: bool| usize::from(if is_true { step.jt } else { step.jf });
            match u32::from(step.code) {
                LOAD => accumulator = word(step.k),
                AND => accumulator &= step.k,
                JUMP => at += step.k as usize,
                JUMP_EQUAL => at += by(accumulator == step.k),
                JUMP_FROM => at += by(accumulator >= step.k),
                RETURN => return (step.k, steps),
                other => panic!("{other}"),
            }
        }
    }

    const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;

    fn refused(errno: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | errno.unsigned_abs()
    }

    #[test]
    fn every_number_gets_its_verdict() {
        let mut rules = SeccompRules::new(SeccompVerdict::Allow);
        let numbers = [0, 1, 2, 5, 7, 8, 100, 333, 334, 440];
        for number in numbers {
            rules =
                rules.set(&[number], &SeccompVerdict::Refuse(if number < 100 { 1 } else { 38 }));
        }
        let program = rules.compile().program;
        for number in 0..600 {
            let expected = match number {
                _ if !numbers.contains(&number) => ALLOWED,
                ..100 => refused(1),
                _ => refused(38),
            };
            let found = run(&program, ARCHITECTURE, number as u32, [0; 6]).0;
            assert_eq!(found, expected, "{number}");
        }
    }

    #[test]
    fn other_numberings_are_unknown_calls() {
        let program = SeccompRules::new(SeccompVerdict::Allow).compile().program;
        assert_eq!(run(&program, ARCHITECTURE, 59, [0; 6]).0, ALLOWED);
        // x32, and 32-bit programs.
        assert_eq!(run(&program, ARCHITECTURE, X32 + 59, [0; 6]).0, refused(libc::ENOSYS));
        assert_eq!(run(&program, 0x4000_0003, 59, [0; 6]).0, refused(libc::ENOSYS));
    }

    #[test]
    fn arguments_decide() {
        let rules = SeccompRules::new(SeccompVerdict::Allow)
            .set(&[10], &SeccompVerdict::without_bits(0, 0xF0))
            .set(&[11], &SeccompVerdict::only(1, &[3, 5, 7]))
            .set(&[12], &SeccompVerdict::none_of(2, &[1, 2]))
            .set(&[13], &SeccompVerdict::with_bits(0, 0x30));
        let nested = SeccompVerdict::Argument {
            index: 0,
            mask: u32::MAX,
            values: vec![2, 10],
            then: Box::new(SeccompVerdict::only(1, &[1])),
            otherwise: Box::new(SeccompVerdict::Refuse(97)),
        };
        let null = SeccompVerdict::Null {
            index: 1,
            then: Box::new(SeccompVerdict::Allow),
            otherwise: Box::new(SeccompVerdict::only(0, &[0])),
        };
        let rules = rules.set(&[14], &nested).set(&[15], &null);
        let program = rules.compile().program;
        let rows = [
            (10, [0x0F, 0, 0], ALLOWED),
            (10, [0x1F, 0, 0], refused(1)),
            (11, [0, 5, 0], ALLOWED),
            (11, [0, 7, 0], ALLOWED),
            (11, [5, 4, 0], refused(1)),
            (12, [0, 0, 2], refused(1)),
            (12, [2, 2, 3], ALLOWED),
            (13, [0x31, 0, 0], ALLOWED),
            (13, [0x10, 0, 0], refused(1)),
            (14, [10, 1, 0], ALLOWED),
            (14, [10, 2, 0], refused(1)),
            (14, [3, 1, 0], refused(97)),
            // The high half of an `int` argument means nothing to the kernel.
            (11, [0, 0xFFFF_FFFF_0000_0005, 0], ALLOWED),
            (15, [0, 0, 0], ALLOWED),
            (15, [7, 0, 0], ALLOWED),
            (15, [0, 0x10, 0], ALLOWED),
            (15, [7, 0x10, 0], refused(1)),
            // The upper half of a pointer means something.
            (15, [7, 0x1_0000_0000, 0], refused(1)),
        ];
        for (number, [a, b, c], expected) in rows {
            let found = run(&program, ARCHITECTURE, number, [a, b, c, 0, 0, 0]).0;
            assert_eq!(found, expected, "{number} {a} {b} {c}");
        }
    }

    /// A list of hundreds of calls costs about as many steps as its logarithm.
    #[test]
    fn long_lists_are_searched_quickly() {
        let even: Vec<_> = (0..450).map(|number| number * 2).collect();
        let program = SeccompRules::new(SeccompVerdict::NOT_PERMITTED)
            .set(&even, &SeccompVerdict::Allow)
            .compile();
        for number in 0..900 {
            let (found, steps) = run(&program.program, ARCHITECTURE, number, [0; 6]);
            assert_eq!(found == ALLOWED, number % 2 == 0, "{number}");
            assert!(steps <= 3 + 2 * 11 + 1, "{steps}");
        }
    }
}
