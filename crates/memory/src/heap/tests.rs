//! Blocks by hand.

use super::*;
use crate::LINE;

const AT: u64 = 0x10_0000;

fn at(time: u64) -> Moment {
    Moment { time, thread: 1 }
}

fn used(heap: &Heap, site: u32) -> (u32, u32) {
    let lines = heap.lines().flat_map(|(_, lines)| lines);
    let of = lines.filter(|lines| lines.site == site);
    of.fold((0, 0), |(touched, written), lines| {
        let more = (lines.touched.count_ones(), lines.written.count_ones());
        (touched + more.0, written + more.1)
    })
}

#[test]
fn blocks_in_one_line_and_over_pages() {
    let mut heap = Heap::new(100, true);
    heap.allocate(AT, 24, 0, at(1));
    heap.allocate(AT + 32, 24, 1, at(2));
    heap.allocate(AT + 64, 2 * PAGE, 2, at(3));
    heap.touch(AT, 8, Kind::Store, at(3));
    heap.touch(AT + 24, 8, Kind::Store, at(3)); // between two
    heap.touch(AT + 28, 8, Kind::Load, at(3)); // the second's first bytes
    heap.touch(AT + 60, 8, Kind::Load, at(3));
    heap.touch(AT + PAGE, PAGE + 200, Kind::Store, at(3)); // up to its end, and what is behind
    assert_eq!(used(&heap, 0), (1, 1));
    assert_eq!(used(&heap, 1), (1, 0));
    assert_eq!(used(&heap, 2), (1 + 64 + 1, 65));
    assert!(heap.missed(AT + 33, true, at(3)) && heap.missed(AT + 33, false, at(3)));
    assert!(!heap.missed(AT + 24, true, at(3)) && !heap.missed(AT + 4 * PAGE, true, at(3)));
    let sites = heap.sites();
    assert_eq!((sites[1].l1_misses, sites[1].ll_misses), (2, 1));
    assert_eq!((sites[2].blocks, sites[2].largest), (1, 2 * PAGE));
}

#[test]
fn freed_and_used_again() {
    let mut heap = Heap::new(100, true);
    for (site, time) in [(0, 1), (1, 3)] {
        heap.forget(time);
        heap.allocate(AT, 200, site, at(time));
        heap.touch(AT, 100, Kind::Store, at(time));
        heap.forget(time + 1);
        heap.free(AT, time + 1);
        heap.touch(AT, 100, Kind::Store, at(time + 1)); // the allocator's own
    }
    assert_eq!([used(&heap, 0), used(&heap, 1)], [(2, 2), (2, 2)]);
    let both = [(0, AT, 200), (1, AT, 200)];
    assert_eq!(
        (heap.blocks_in(AT + 64), heap.blocks_in(AT + 128)),
        (both.to_vec(), vec![])
    );
    // What nobody saw freed is over where something else is.
    heap.allocate(AT, 64, 2, at(9));
    heap.allocate(AT + 32, 64, 3, at(10));
    heap.touch(AT, 64, Kind::Load, at(10));
    assert_eq!([used(&heap, 2), used(&heap, 3)], [(0, 0), (1, 0)]);
}

/// A thread whose time is behind uses what there was then; one that uses what comes later has it from another.
#[test]
fn times_of_threads() {
    let mut heap = Heap::new(100, true);
    heap.allocate(AT, 64, 0, at(5));
    heap.free(AT, 8);
    heap.allocate(AT, 64, 1, at(9));
    for (time, site) in [(4, 1), (5, 0), (7, 0), (8, 1), (9, 1)] {
        let before = used(&heap, site).0;
        assert!(heap.missed(AT, false, at(time)), "{time}");
        heap.touch(AT, 8, Kind::Load, at(time));
        assert!(used(&heap, site).0 >= before);
    }
    assert_eq!(
        (heap.sites()[0].l1_misses, heap.sites()[1].l1_misses),
        (2, 3)
    );
    heap.forget(9);
    assert!(heap.missed(AT, false, at(9)));
    assert_eq!(heap.sites()[1].l1_misses, 4);
    assert_eq!(used(&heap, 0), (1, 0));
}

#[test]
fn large_blocks() {
    let mut heap = Heap::new(100, true);
    heap.allocate(AT, 1 << 30, 0, at(1));
    heap.touch(AT + (1 << 29), 64 * LINE, Kind::Store, at(1));
    assert_eq!((used(&heap, 0), heap.pages.len()), ((64, 64), 1));
    heap.forget(2);
    heap.free(AT, 2);
    heap.touch(AT + (1 << 29), 64 * LINE, Kind::Store, at(2));
    heap.allocate(AT, 1 << 20, 1, at(3));
    heap.touch(AT, 8, Kind::Load, at(3));
    heap.unmap(AT, 1 << 20, 4);
    heap.touch(AT + PAGE, 8, Kind::Load, at(4));
    assert_eq!([used(&heap, 0), used(&heap, 1)], [(64, 64), (1, 0)]);
    assert!(heap.blocks.is_empty());
}

/// A block that is made longer, or shorter, where it is costs what that changes, and keeps what was used of it.
#[test]
fn blocks_that_are_resized() {
    for size in [PAGE + 10, 1 << 24] {
        let mut heap = Heap::new(100, true);
        heap.allocate(AT, size, 0, at(1));
        heap.touch(AT, size, Kind::Store, at(1));
        let lines = size.div_ceil(LINE) as u32;
        for more in 1..=100_000 {
            heap.forget(more + 1);
            heap.allocate(AT, size + more, 0, at(more + 1));
        }
        heap.touch(AT + size, 200_000, Kind::Load, at(100_001));
        let longer = (size + 100_000).div_ceil(LINE) as u32;
        assert_eq!(used(&heap, 0), (longer, lines));
        // What it no longer has is somebody else's; another site makes a block of its own there.
        heap.allocate(AT, size, 0, at(100_002));
        heap.allocate(AT + size, 100, 1, at(100_003));
        heap.touch(AT + size, 100, Kind::Store, at(100_003));
        assert!(used(&heap, 1).1 >= 2 && heap.blocks.len() == 2);
        heap.allocate(AT, 10, 2, at(100_004));
        heap.touch(AT, PAGE, Kind::Load, at(100_004));
        assert_eq!(used(&heap, 2), (1, 0));
        let of_one = heap.blocks_in(AT + 2 * PAGE - LINE);
        assert!(of_one.len() <= 2, "{of_one:?}");
        heap.free(AT, 100_005);
        heap.free(AT + size, 100_005);
        assert!(heap.blocks.is_empty());
        assert!(heap.pages.iter().all(|page| page.parts.is_empty()));
    }
}

/// A thread whose time is behind finds what was there before a block was resized.
#[test]
fn resized_since() {
    let mut heap = Heap::new(100, true);
    heap.allocate(AT, 100, 0, at(1));
    heap.allocate(AT + 128, 64, 1, at(2));
    heap.free(AT + 128, 4);
    heap.allocate(AT, 2 * PAGE, 0, at(5));
    for (time, site, place) in [(3, 1, 130), (5, 0, 130), (3, 0, 50), (6, 0, PAGE + 9)] {
        let before = heap.sites().get(site).map_or(0, |of| of.l1_misses);
        assert!(heap.missed(AT + place, false, at(time)), "{time}");
        assert_eq!(heap.sites()[site].l1_misses, before + 1, "{time} {place}");
    }
}

#[test]
fn no_more_than_there_is_room_for() {
    let mut heap = Heap::new(2, false);
    for number in 0..4 {
        heap.allocate(AT + number * 64, 64, 0, at(number));
    }
    assert_eq!((heap.beyond(), heap.sites()[0].blocks), (2, 4));
    heap.free(AT, 9);
    heap.allocate(AT, 64, 1, at(10));
    assert_eq!(heap.beyond(), 2);
    heap.allocate(u64::MAX - 10, 64, 1, at(11));
    heap.unmap(0, u64::MAX, 12);
}

/// What a thread allocates when its turn comes is in another one's references before, and may be free again.
#[test]
fn expected_blocks() {
    let mut heap = Heap::new(100, false);
    let (one, other) = (1, 2);
    let by = |thread, time| Moment { time, thread };
    heap.expect(AT, 64, 0, by(one, 5));
    heap.expect(AT, 64, 0, by(one, 8));
    heap.expect(AT + 64, 64, 1, by(one, 9));
    // Its own references are at their time: there is nothing yet.
    assert!(!heap.missed(AT, false, by(one, 4)));
    assert!(heap.missed(AT, false, by(other, 4)));
    heap.touch(AT, 128, Kind::Store, by(other, 4));
    assert_eq!([used(&heap, 0), used(&heap, 1)], [(1, 1), (1, 1)]);
    // The other one frees what is only expected.
    heap.free(AT + 64, 10);
    heap.allocate(AT + 64, 32, 2, by(other, 11));
    for time in [5, 8] {
        heap.allocate(AT, 64, 0, by(one, time));
        assert!(heap.missed(AT + 8, false, by(one, time)));
        heap.free(AT, time + 1);
    }
    heap.allocate(AT + 64, 64, 1, by(one, 9));
    heap.touch(AT + 64, 8, Kind::Load, by(other, 11));
    heap.touch(AT + 100, 8, Kind::Load, by(other, 11)); // behind its end
    let lines = [used(&heap, 0), used(&heap, 1), used(&heap, 2)];
    assert_eq!(lines, [(1, 1), (1, 1), (1, 0)]);
    let sites: Vec<(u64, u64)> = heap
        .sites()
        .iter()
        .map(|of| (of.blocks, of.l1_misses))
        .collect();
    assert_eq!(sites, [(2, 3), (1, 0), (1, 0)]);
    heap.forget(20);
    assert!(!heap.missed(AT, false, by(other, 20)));
}

/// What operands remember changes nothing: by random blocks of two threads, used by eight operands.
#[test]
fn what_is_near_is_used_as_all_else() {
    let mut state = 7u64;
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let [mut plain, mut quick] = [0; 2].map(|_| Heap::new(1000, true));
    let mut near = [Near::default(); 8];
    let mut times = [0u64; 2];
    let mut known = 0;
    for time in 1..60_000 {
        let thread = (time / 50 % 2) as usize;
        let address = AT + draw(3 * PAGE / 16) * 16;
        match draw(40) {
            0 => {
                times[thread] = time;
                let (size, site) = (1 + draw(300), draw(5) as u32);
                let moment = Moment {
                    time,
                    thread: thread as u32,
                };
                let ahead = draw(4) == 0;
                for heap in [&mut plain, &mut quick] {
                    if ahead {
                        heap.expect(address, size, site, moment);
                    }
                    heap.allocate(address, size, site, moment);
                }
            }
            1 => {
                times[thread] = time;
                let oldest = times[0].min(times[1]);
                for heap in [&mut plain, &mut quick] {
                    heap.forget(oldest);
                    heap.free(address, time);
                }
            }
            _ => {
                // Each operand stays near where it was.
                let operand = draw(8) as usize;
                let address = AT + operand as u64 * 700 + draw(time % 200 + 1);
                let kind = [Kind::Load, Kind::Store][operand % 2];
                let moment = Moment {
                    time: times[thread],
                    thread: thread as u32,
                };
                let before = near[operand];
                plain.touch(address, 8, kind, moment);
                quick.touch_near(&mut near[operand], (address, 8), kind, moment);
                known += u32::from(before == near[operand] && before != Near::default());
            }
        }
    }
    let lines = |heap: &Heap| {
        let sites = (0..5).map(|site| used(heap, site));
        sites.collect::<Vec<_>>()
    };
    assert_eq!(lines(&plain), lines(&quick));
    assert!(lines(&plain).iter().all(|(touched, _)| *touched > 0));
    assert!(known > 1000, "{known}");
}

/// A large block that others were told of ahead is one block, also where something was there in between.
#[test]
fn large_blocks_are_counted_once() {
    let mut heap = Heap::new(100, false);
    for time in 1..=3 {
        heap.expect(AT, LARGE, 0, at(time));
    }
    for time in 1..=3 {
        heap.allocate(AT, LARGE, 0, at(time));
    }
    assert_eq!(
        (heap.sites()[0].blocks, heap.sites()[0].bytes),
        (3, 3 * LARGE)
    );
}

/// What was used of a large block is its own where another one, or a small one, is in the same page.
#[test]
fn large_blocks_share_pages() {
    let mut heap = Heap::new(100, false);
    heap.allocate(AT, LARGE + 128, 0, at(1));
    heap.allocate(AT + LARGE + 128, LARGE, 1, at(2));
    heap.touch(AT + LARGE, 192, Kind::Store, at(3));
    assert_eq!((used(&heap, 0), used(&heap, 1)), ((2, 2), (1, 1)));
    let mut heap = Heap::new(100, false);
    heap.allocate(AT, LARGE + 128, 0, at(1));
    heap.allocate(AT + LARGE + 128, 64, 1, at(2));
    heap.touch(AT + LARGE, 192, Kind::Load, at(3));
    assert_eq!((used(&heap, 0), used(&heap, 1)), ((2, 0), (1, 0)));
}
