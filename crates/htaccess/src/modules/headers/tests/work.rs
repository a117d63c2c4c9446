//! The work of rules: it is counted, and ends where the budget does.

use howdah_http::{ResponseHead, Status};

use crate::response::{ResponseProperties, may_take_long, respond};
use crate::testing::{Nowhere, request, settings, transaction};
use crate::work::{self, WorkBudget};

/// Values that contain a long one thousands of times.
#[test]
fn a_value_that_becomes_too_long_is_never_put_together() {
    let many = |part: &str| part.repeat(3_900);
    let variable = format!("Header set X \"{}\"", "%{A}e".repeat(1_600));
    let edit = format!("Header set X %{{A}}e\nHeader edit X \"^(.*)$\" \"{}\"", many("$1"));
    let expression = format!("Header set X \"expr={}\"", "%{reqenv:A}".repeat(700));
    let name = format!("Header set X v\nHeader note X \"{}\"", "%{A}e".repeat(1_600));
    for directives in [variable, edit, expression, name] {
        let request = request("/", "");
        let budget = WorkBudget::new(200_000);
        let mut tx = transaction(&request);
        tx.client = tx.client.within(&budget);
        tx.state.env.set(b"A", &[b'x'; 63_000]);
        let mut head = ResponseHead::new(Status::OK);
        let settings = settings(&directives);
        let about = ResponseProperties::default();
        let sent = respond(&mut tx, &settings, &mut Nowhere::default(), &mut head, about);
        let directive = &directives[..60];
        assert_eq!(sent.unwrap_err(), Status::INTERNAL_SERVER_ERROR, "{directive}");
        assert!(!budget.is_exhausted() || budget.is_refused(), "{directive}");
        let complaints = &tx.state.complaints;
        let [(Some(place), message)] = &complaints[..] else {
            panic!("{directive}: {complaints:?}")
        };
        assert_eq!(place.line as usize, directives.lines().count(), "{directive}");
        assert!(message.contains("longer than"), "{directive}: {message}");
        assert!(may_take_long(&tx.state, &settings, &head), "{directive}");
    }
}

/// A step for each 16 bytes that a value is put together from, so that neither many values nor
/// many lines of a field cost nothing.
#[test]
fn values_cost_steps_by_their_length() {
    let rows = [
        ("Header set X %{A}e", 10_000 / 16),
        ("Header set X expr=%{reqenv:A}", 10_000 / 16),
        ("Header edit Y ^(.*)$ $1$1$1$1", 40_000 / 16),
        ("Header edit* Y y yyyy", 1_000 * 10_000 / 16),
        ("Header append Y v", 10_000 / 16),
        ("Header merge Y v", 10_000 / 16),
        ("Header note Y y", 10_000 / 16),
        ("Header echo .", 10_000 / 16),
        ("Header set X \"expr=%{resp:Q}\"", 2_000 / 2),
        ("Header set X v env=NONE", 2_000 / 2),
    ];
    for (directives, least) in rows {
        let request = request("/", &format!("Z: {}", "z".repeat(10_000)));
        let budget = WorkBudget::new(50_000_000);
        let mut tx = transaction(&request);
        tx.client = tx.client.within(&budget);
        tx.state.env.set(b"A", &[b'x'; 10_000]);
        (0..2_000).for_each(|n| tx.state.env.push(format!("N{n}").as_bytes(), b""));
        let mut head = ResponseHead::new(Status::OK);
        head.push(b"Y", &[b'y'; 10_000]).unwrap();
        (0..2_000).for_each(|_| head.fields.push(b"N", b""));
        let (settings, about) = (settings(directives), ResponseProperties::default());
        respond(&mut tx, &settings, &mut Nowhere::default(), &mut head, about).unwrap();
        // Each rule is compared with each field.
        let compared = 2 * work::comparing(2_001, b"X");
        let used = budget.used() - compared;
        assert!(used >= least, "{directives}: {used}");
        assert!(used < 20 * least + 60_000, "{directives}: {used}");
    }
}

/// Each of thousands of lines grows by less than 64 KiB.
#[test]
fn the_lines_of_a_field_do_not_grow_beyond_a_head() {
    let directive = format!("Header edit Y ^(.*)$ {}", "$1".repeat(3_900));
    let request = request("/", "");
    let budget = WorkBudget::new(50_000_000);
    let mut tx = transaction(&request);
    tx.client = tx.client.within(&budget);
    let mut head = ResponseHead::new(Status::OK);
    (0..10_000).for_each(|_| head.fields.push(b"Y", b"0123456789"));
    let (settings, about) = (settings(&directive), ResponseProperties::default());
    let sent = respond(&mut tx, &settings, &mut Nowhere::default(), &mut head, about);
    assert_eq!(sent.unwrap_err(), Status::INTERNAL_SERVER_ERROR);
    // As much as a head and one value take.
    assert!(budget.used() < 1_000_000, "{}", budget.used());
}

/// A request of thousands of fields of one name, which are echoed as one line.
#[test]
fn the_work_of_an_echo_is_counted() {
    for fields in [100, 1_000] {
        let request = request("/", &"X: 0123456789012345678901234567890\n".repeat(fields));
        let budget = WorkBudget::new(50_000_000);
        let mut tx = transaction(&request);
        tx.client = tx.client.within(&budget);
        let mut head = ResponseHead::new(Status::OK);
        let (settings, about) = (settings("Header echo ^X"), ResponseProperties::default());
        respond(&mut tx, &settings, &mut Nowhere::default(), &mut head, about).unwrap();
        let fields = fields as u64;
        assert!(budget.used() > fields * fields * 33 / 16, "{fields}: {}", budget.used());
    }
}
