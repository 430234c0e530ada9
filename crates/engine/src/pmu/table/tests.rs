//! Events on made-up threads.

use super::*;
use std::cell::RefCell;
use std::collections::HashMap;

struct Made {
    counts: RefCell<HashMap<u32, u64>>,
    pages: Vec<Page>,
}

impl World for Made {
    fn count(&self, slot: u32, quantity: Quantity) -> u64 {
        assert_eq!(quantity, Quantity::Instructions);
        self.counts.borrow().get(&slot).copied().unwrap_or(0)
    }
    fn time(&self, slot: u32) -> u64 {
        self.count(slot, Quantity::Instructions) * 10
    }
    fn registers(&self) -> bool {
        true
    }
    fn page(&self, event: u32) -> &Page {
        &self.pages[event as usize]
    }
}

impl Made {
    fn run(&self, slot: u32, instructions: u64) {
        *self.counts.borrow_mut().entry(slot).or_default() += instructions;
    }
}

fn zeroed<T>() -> Box<T> {
    // SAFETY: used for types of plain integers only, valid when zero; the layout is T's own.
    unsafe {
        let at = std::alloc::alloc_zeroed(std::alloc::Layout::new::<T>());
        Box::from_raw(at.cast())
    }
}

fn setup() -> (Box<Table>, Made) {
    let pages = (0..64).map(|_| *zeroed::<Page>()).collect();
    let made = Made {
        counts: RefCell::default(),
        pages,
    };
    (zeroed(), made)
}

const PLAIN: Request = Request {
    quantity: Quantity::Instructions,
    disabled: false,
    inherit: false,
    inherit_thread: false,
    enable_on_exec: false,
    remove_on_exec: false,
    alone: false,
    read_format: 0,
};

fn value(table: &mut Table, event: u32, made: &Made) -> u64 {
    let mut members = [Member::default(); 1];
    table.read(event, false, &mut members, made);
    members[0].value
}

#[test]
fn counts_while_enabled() {
    let (mut table, made) = setup();
    made.run(1, 1000);
    let event = table.open(&PLAIN, 1, None, &made).unwrap();
    made.run(1, 10);
    assert_eq!(value(&mut table, event, &made), 10);
    table.enable(event, false, false, &made);
    made.run(1, 100);
    assert_eq!(value(&mut table, event, &made), 10);
    table.enable(event, true, false, &made);
    // Enabling twice loses nothing.
    made.run(1, 5);
    table.enable(event, true, false, &made);
    made.run(1, 5);
    assert_eq!(value(&mut table, event, &made), 20);
    table.reset(event, false, &made);
    made.run(1, 3);
    assert_eq!(value(&mut table, event, &made), 3);
}

#[test]
fn what_never_happens_is_zero() {
    let (mut table, made) = setup();
    let request = Request {
        quantity: Quantity::Nothing,
        ..PLAIN
    };
    let event = table.open(&request, 1, None, &made).unwrap();
    made.run(1, 10);
    let mut members = [Member::default(); 1];
    let (_, time) = table.read(event, false, &mut members, &made);
    assert_eq!((members[0].value, time), (0, 100));
}

#[test]
fn a_leader_decides_for_its_group() {
    let (mut table, made) = setup();
    let off = Request {
        disabled: true,
        ..PLAIN
    };
    let leader = table.open(&off, 1, None, &made).unwrap();
    let member = table.open(&PLAIN, 1, Some(leader), &made).unwrap();
    made.run(1, 10);
    assert_eq!(value(&mut table, member, &made), 0);
    table.enable(leader, true, false, &made);
    made.run(1, 10);
    let mut members = [Member::default(); 4];
    assert_eq!(table.read(member, true, &mut members, &made), (2, 100));
    assert_eq!((members[0].value, members[1].value), (10, 10));
    assert!(members[0].id != members[1].id);
    // A member alone off; then the whole group on.
    table.enable(member, false, false, &made);
    made.run(1, 1);
    assert_eq!(value(&mut table, member, &made), 10);
    table.enable(member, true, true, &made);
    made.run(1, 1);
    assert_eq!(
        (
            value(&mut table, leader, &made),
            value(&mut table, member, &made)
        ),
        (12, 11)
    );
}

#[test]
fn groups_that_cannot_be() {
    let (mut table, made) = setup();
    let leader = table.open(&PLAIN, 1, None, &made).unwrap();
    let member = table.open(&PLAIN, 1, Some(leader), &made).unwrap();
    assert_eq!(table.open(&PLAIN, 1, Some(member), &made), Err(EINVAL));
    assert_eq!(table.open(&PLAIN, 2, Some(leader), &made), Err(EINVAL));
    let alone = Request {
        alone: true,
        ..PLAIN
    };
    assert_eq!(table.open(&alone, 1, Some(leader), &made), Err(EINVAL));
}

#[test]
fn children_inherit_and_give_back() {
    let (mut table, made) = setup();
    let request = Request {
        inherit: true,
        ..PLAIN
    };
    let leader = table.open(&request, 1, None, &made).unwrap();
    let member = table.open(&request, 1, Some(leader), &made).unwrap();
    let own = table.open(&PLAIN, 1, None, &made).unwrap();
    assert!(table.cloned(1, 2, false, &made));
    assert!(table.cloned(2, 3, false, &made));
    made.run(1, 1);
    made.run(2, 10);
    made.run(3, 100);
    for event in [leader, member] {
        assert_eq!(value(&mut table, event, &made), 111);
    }
    assert_eq!(value(&mut table, own, &made), 1);
    table.ended(2, &made);
    made.run(2, 5000);
    assert_eq!(value(&mut table, leader, &made), 111);
    // Switching off reaches what was inherited.
    table.enable(leader, false, true, &made);
    made.run(3, 1000);
    assert_eq!(value(&mut table, leader, &made), 111);
    table.ended(3, &made);
    assert_eq!((table.used, value(&mut table, member, &made)), (3, 111));
}

#[test]
fn threads_only() {
    let (mut table, made) = setup();
    let request = Request {
        inherit: true,
        inherit_thread: true,
        ..PLAIN
    };
    let event = table.open(&request, 1, None, &made).unwrap();
    assert!(table.cloned(1, 2, false, &made));
    assert!(table.cloned(1, 3, true, &made));
    made.run(2, 10);
    made.run(3, 100);
    assert_eq!(value(&mut table, event, &made), 100);
}

#[test]
fn a_failed_clone_leaves_nothing() {
    let (mut table, made) = setup();
    let request = Request {
        inherit: true,
        ..PLAIN
    };
    let event = table.open(&request, 1, None, &made).unwrap();
    assert!(table.cloned(1, 2, false, &made));
    table.forget(2);
    assert_eq!((table.used, value(&mut table, event, &made)), (1, 0));
}

#[test]
fn exec_enables_and_goes_on() {
    let (mut table, made) = setup();
    let request = Request {
        disabled: true,
        enable_on_exec: true,
        inherit: true,
        ..PLAIN
    };
    let event = table.open(&request, 1, None, &made).unwrap();
    let other = table.open(&PLAIN, 1, None, &made).unwrap();
    made.run(1, 1000);
    table.replaced(1, 2, &made);
    made.run(2, 10);
    assert_eq!(value(&mut table, event, &made), 10);
    assert_eq!(value(&mut table, other, &made), 1010);
    // Its children are counted from their start.
    assert!(table.cloned(2, 3, false, &made));
    made.run(3, 7);
    table.ended(3, &made);
    assert_eq!(value(&mut table, event, &made), 17);
    // Another exec goes on counting.
    table.replaced(2, 4, &made);
    made.run(4, 100);
    assert_eq!(value(&mut table, event, &made), 117);
}

#[test]
fn removed_by_exec() {
    let (mut table, made) = setup();
    let request = Request {
        remove_on_exec: true,
        ..PLAIN
    };
    let event = table.open(&request, 1, None, &made).unwrap();
    table.replaced(1, 2, &made);
    made.run(2, 10);
    assert_eq!(
        (table.about(event).2, value(&mut table, event, &made)),
        (true, 0)
    );
}

#[test]
fn a_full_table_is_swept() {
    let (mut table, made) = setup();
    let request = Request {
        inherit: true,
        ..PLAIN
    };
    let leader = table.open(&request, 1, None, &made).unwrap();
    let member = table.open(&request, 1, Some(leader), &made).unwrap();
    let kept = table.open(&request, 1, None, &made).unwrap();
    table.cloned(1, 2, false, &made);
    made.run(2, 50);
    // The leader was closed, the child killed.
    table.sweep(|event| event != leader, |slot| slot != 2, &made);
    assert_eq!(table.used, 2);
    assert_eq!(value(&mut table, kept, &made), 50);
    made.run(1, 1);
    assert_eq!(value(&mut table, member, &made), 51);
    let again = table.open(&PLAIN, 1, None, &made).unwrap();
    assert!(table.open(&PLAIN, 1, Some(again), &made).is_ok());
}

#[test]
fn the_page_says_where_the_count_stands() {
    let (mut table, made) = setup();
    made.run(1, 1000);
    let event = table.open(&PLAIN, 1, None, &made).unwrap();
    let bytes = |at: usize| {
        // SAFETY: inside the page.
        unsafe {
            std::ptr::from_ref(made.page(event))
                .cast::<u8>()
                .add(at)
                .cast::<u64>()
                .read()
        }
    };
    assert_eq!(bytes(8) >> 32, 65);
    assert_eq!(
        bytes(16).wrapping_add(made.count(1, Quantity::Instructions)),
        0
    );
    made.run(1, 7);
    table.enable(event, false, false, &made);
    assert_eq!((bytes(8) >> 32, bytes(16)), (0, 7));
}
