#![allow(clippy::unwrap_used)]

use super::*;

type Small = State<32>;

const KEY: Key = [1, 0x1000];
const OTHER: Key = [1, 0x2000];

/// So many threads, of which the first runs.
fn run(threads: u32) -> Small {
    let mut state = Small::default();
    for slot in 1..=threads {
        assert_eq!(state.add(slot), Some(slot));
    }
    assert_eq!(state.move_on(), Move::Run(1));
    state.check().unwrap();
    state
}

/// Where the token goes until it has been everywhere.
fn turns(state: &mut Small, count: usize) -> Vec<u32> {
    (0..count)
        .map(|_| {
            let owner = state.owner;
            if owner != 0 {
                state.ready(owner, why::TURN);
            }
            match state.move_on() {
                Move::Run(number) => number,
                Move::Idle { .. } | Move::Fire(_) => 0,
            }
        })
        .collect()
}

#[test]
fn threads_run_in_turn() {
    let mut state = run(3);
    assert_eq!(turns(&mut state, 6), [2, 3, 1, 2, 3, 1]);
}

#[test]
fn wakes_are_in_the_order_of_arrival() {
    let mut state = run(4);
    for number in 1..=3 {
        state.wait_futex(number, KEY, if number == 2 { 2 } else { 1 }, NEVER);
        assert_eq!(state.move_on(), Move::Run(number + 1));
    }
    assert_eq!(state.wake(OTHER, u32::MAX, 9), 0);
    assert_eq!(state.wake(KEY, 2, 9), 1);
    assert_eq!(state.wake(KEY, u32::MAX, 1), 1);
    assert_eq!(state.wake(KEY, u32::MAX, 9), 1);
    state.check().unwrap();
    assert_eq!(state.thread(2).why, why::WOKEN);
    assert_eq!(turns(&mut state, 4), [2, 1, 3, 4]);
}

#[test]
fn who_is_moved_to_another_key_stands_behind_those_there() {
    let mut state = run(5);
    state.wait_futex(1, OTHER, 1, NEVER);
    state.move_on();
    for number in 2..=4 {
        state.wait_futex(number, KEY, 1, NEVER);
        state.move_on();
    }
    assert_eq!(state.requeue(KEY, OTHER, 1, 9), (1, 2));
    assert_eq!(state.requeue(OTHER, OTHER, 0, 2), (0, 2));
    assert_eq!(state.wake(OTHER, u32::MAX, 9), 3);
    assert_eq!(turns(&mut state, 5), [2, 1, 3, 4, 5]);
}

#[test]
fn the_clock_jumps_to_the_earliest_deadline_only_when_all_wait() {
    let mut state = run(3);
    state.sleep(1, 500);
    assert_eq!(state.move_on(), Move::Run(2));
    state.wait_futex(2, KEY, 1, 300);
    assert_eq!(state.move_on(), Move::Run(3));
    assert_eq!(state.time, 0);
    state.time = 299;
    state.ready(3, why::TURN);
    assert_eq!(state.move_on(), Move::Run(3));
    state.wait_futex(3, KEY, 1, NEVER);
    assert_eq!(state.move_on(), Move::Run(2));
    assert_eq!((state.time, state.thread(2).why), (300, why::TIMEOUT));
    assert_eq!(state.wake(KEY, 1, 9), 1, "the one without a deadline");
    state.wait_futex(2, KEY, 1, NEVER);
    assert_eq!(state.move_on(), Move::Run(3));
    state.wait_futex(3, KEY, 1, NEVER);
    assert_eq!(state.move_on(), Move::Run(1));
    assert_eq!((state.time, state.thread(1).why), (500, why::TIMEOUT));
    // Who is woken at the time of its deadline was woken.
    state.wait_futex(1, KEY, 1, NEVER);
    let dead = Move::Idle {
        deadline: NEVER,
        outside: false,
    };
    assert_eq!(state.move_on(), dead);
    state.check().unwrap();
}

#[test]
fn a_call_is_tried_again_only_after_somebody_did_something() {
    let mut state = run(2);
    state.wait_try(1, NEVER, false);
    assert_eq!(state.move_on(), Move::Run(2));
    assert_eq!(turns(&mut state, 2), [2, 2]);
    state.epoch += 1;
    assert_eq!(turns(&mut state, 2), [2, 1]);
    assert_eq!(state.thread(1).why, why::AGAIN);
    // What only the outside can end is waited for really.
    state.wait_try(1, 900, true);
    state.move_on();
    state.wait_try(2, NEVER, false);
    let idle = Move::Idle {
        deadline: 900,
        outside: true,
    };
    assert_eq!(state.move_on(), idle);
    state.look_outside();
    assert_eq!(state.move_on(), Move::Run(1));
    assert_eq!(state.time, 0, "time has not moved");
}

#[test]
fn whose_turn_ended_comes_behind_who_can_go_on_by_then() {
    let mut state = run(2);
    state.ends_turn(1);
    assert_eq!(state.move_on(), Move::Run(2));
    state.wait_try(2, NEVER, false);
    assert_eq!(state.move_on(), Move::Run(1));
    // What makes the other one's call succeed was done in the turn that ends.
    state.epoch += 1;
    state.ends_turn(1);
    assert_eq!(state.move_on(), Move::Run(2));
    state.wait_try(2, state.time + 10, false);
    assert_eq!(state.move_on(), Move::Run(1));
    state.time += 20;
    state.ends_turn(1);
    assert_eq!(state.move_on(), Move::Run(2));
    state.check().unwrap();
}

#[test]
fn a_vfork_ends_with_its_child() {
    let mut state = run(1);
    let child = state.add(9).unwrap();
    state.edit(child).parent = 1;
    state.wait_other(1, now::VFORK);
    assert_eq!(state.move_on(), Move::Run(child));
    state.remove(child);
    assert_eq!(state.move_on(), Move::Run(1));
    assert_eq!(state.add(9), Some(child), "its number is free");
}

#[test]
fn there_are_only_so_many() {
    let mut state = Small::default();
    assert_eq!((0..40).filter_map(|slot| state.add(slot)).count(), 31);
}

/// A simple reference: queues as lists.
#[derive(Default)]
struct Reference {
    ready: Vec<u32>,
    ended: Option<u32>,
    waiting: Vec<(u32, Key, u32, u64)>,
    owner: u32,
    time: u64,
}

impl Reference {
    fn next(&mut self) {
        self.owner = 0;
        loop {
            let mut over: Vec<_> = self
                .waiting
                .iter()
                .copied()
                .filter(|wait| wait.3 <= self.time)
                .collect();
            over.sort_by_key(|wait| wait.3);
            self.waiting.retain(|wait| wait.3 > self.time);
            self.ready.extend(over.iter().map(|wait| wait.0));
            self.ready.extend(self.ended.take());
            if !self.ready.is_empty() {
                self.owner = self.ready.remove(0);
                return;
            }
            match self.waiting.iter().map(|wait| wait.3).min() {
                Some(time) if time != NEVER => self.time = time,
                _ => return,
            }
        }
    }

    fn wake(&mut self, key: Key, bits: u32, mut count: u32) -> u32 {
        let mut woken = 0;
        self.waiting.retain(|wait| {
            let meant = count > 0 && wait.1 == key && wait.2 & bits != 0;
            if meant {
                count -= 1;
                woken += 1;
                self.ready.push(wait.0);
            }
            !meant
        });
        woken
    }
}

/// Random operations, here and in the reference: the token is always at the same thread.
#[test]
fn random_operations_do_what_a_simple_reference_does() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    let mut moved = 0;
    for _ in 0..200 {
        let mut state = run(6);
        let mut reference = Reference {
            ready: vec![2, 3, 4, 5, 6],
            owner: 1,
            ..Reference::default()
        };
        for _ in 0..200 {
            let me = reference.owner;
            if me == 0 {
                break;
            }
            let (key, bits) = ([1, random(3)], 1 << random(2));
            let passed = random(50);
            state.time += passed;
            reference.time += passed;
            match random(6) {
                0 => {
                    let deadline = match random(2) {
                        0 => NEVER,
                        _ => state.time + 1 + random(200),
                    };
                    state.wait_futex(me, key, bits, deadline);
                    reference.waiting.push((me, key, bits, deadline));
                }
                1 => {
                    let count = random(4) as u32;
                    assert_eq!(
                        state.wake(key, bits, count),
                        reference.wake(key, bits, count)
                    );
                    continue;
                }
                2 => {
                    let deadline = state.time + random(100);
                    state.sleep(me, deadline);
                    reference.waiting.push((me, [9, 9], 0, deadline));
                }
                3 => {
                    let to = [1, random(3)];
                    if to == key {
                        continue;
                    }
                    let (wake, more) = (random(2) as u32, random(3) as u32);
                    state.requeue(key, to, wake, more);
                    reference.wake(key, u32::MAX, wake);
                    let mut left = more;
                    let mut there = Vec::new();
                    reference.waiting.retain(|wait| {
                        let meant = left > 0 && wait.1 == key;
                        if meant {
                            left -= 1;
                            there.push((wait.0, to, wait.2, wait.3));
                        }
                        !meant
                    });
                    reference.waiting.extend(there);
                    continue;
                }
                4 => {
                    state.ready(me, why::TURN);
                    reference.ready.push(me);
                }
                _ => {
                    state.ends_turn(me);
                    reference.ended = Some(me);
                }
            }
            let next = state.move_on();
            reference.next();
            moved += 1;
            let expected = match reference.owner {
                0 => Move::Idle {
                    deadline: NEVER,
                    outside: false,
                },
                owner => Move::Run(owner),
            };
            assert_eq!((next, state.time), (expected, reference.time));
            state.check().unwrap();
        }
    }
    assert!(moved > 5000, "{moved}");
}
