//! Blocks of heaps, by where they were allocated.

use std::collections::{BTreeMap, HashMap};
use std::iter;

use truecount_memory::{HeapSite, Touched, TouchedPage};

use super::base_name;
use crate::references::{Allocated, AllocationSite, DataMemory, DataModel, DataPlace, HeapMemory};

/// The heap, in the place of a file.
const HEAP: &str = "[heap]";

/// Where a call is: module, function, source file, line, and where there is none the offset in the file.
type Key = (String, String, String, u32, u64);

fn key(site: &AllocationSite) -> Key {
    let offset = if site.line == 0 { site.offset } else { 0 };
    (
        site.module.clone(),
        site.function.clone(),
        site.file.clone(),
        site.line,
        offset,
    )
}

/// What the lines of a site came to; misses are those of the allocator's own there.
#[derive(Clone, Default)]
struct Sum {
    touched: u64,
    written: u64,
    l1_misses: u64,
    ll_misses: u64,
}

/// Everything by site.
#[derive(Default)]
pub(super) struct BySite {
    rows: BTreeMap<Key, DataMemory>,
    pub(super) all: HeapMemory,
}

impl BySite {
    /// Adds a memory's heap; `place` tells where a call returns to. By page: the lines that are blocks'.
    ///
    /// What the allocator itself does in a line with blocks counts for the first one.
    pub(super) fn add(
        &mut self,
        allocated: &Allocated,
        touched: &Touched,
        place: &mut dyn FnMut(u64) -> AllocationSite,
    ) -> HashMap<u64, u64> {
        let heap = &allocated.heap;
        let known: HashMap<u64, TouchedPage<'_>> =
            touched.pages().map(|page| (page.number, page)).collect();
        let mut sums: Vec<Sum> = vec![Sum::default(); allocated.sites.len()];
        let mut blocks = HashMap::new();
        let count = |lines: u64| u64::from(lines.count_ones());
        for (number, sites) in heap.lines() {
            let any = sites.iter().fold(0, |any, of| any | of.touched);
            let by_sites = sites.iter().fold(0, |any, of| any | of.written);
            let Some(page) = known.get(&number).filter(|_| any != 0) else {
                continue;
            };
            let written = page.written & any;
            let (mut first, mut alone) = (any, written & !by_sites);
            for of in &sites {
                let Some(sum) = sums.get_mut(of.site as usize) else {
                    continue;
                };
                let own = of.written | alone & of.touched;
                sum.touched += count(of.touched);
                sum.written += count(own);
                self.all.touched_again += count(of.touched);
                self.all.written_again += count(own);
                let lines = page.misses.iter().enumerate();
                for (_, misses) in lines.filter(|(line, _)| (first & of.touched) >> line & 1 != 0) {
                    sum.l1_misses += u64::from(misses.0);
                    sum.ll_misses += u64::from(misses.1);
                }
                first &= !of.touched;
                alone &= !of.touched;
            }
            self.all.touched_again -= count(any);
            self.all.written_again -= count(written);
            blocks.insert(number, any);
        }
        self.all.beyond += heap.beyond();
        // (Of a program that was killed there may be sites that were expected only.)
        let known = heap.sites().iter().copied();
        let known = known.chain(iter::repeat(HeapSite::default()));
        let sites = allocated.sites.iter().zip(known).zip(sums);
        for ((&address, site), sum) in sites {
            self.all.blocks += site.blocks;
            if sum.touched == 0 {
                continue;
            }
            let at = place(address);
            let row = self.rows.entry(key(&at)).or_insert_with(|| DataMemory {
                module: HEAP.to_owned(),
                allocated: Some(AllocationSite {
                    smallest: u64::MAX,
                    ..at
                }),
                ..DataMemory::default()
            });
            row.lines_touched += sum.touched;
            row.lines_written += sum.written;
            let model = row.model.get_or_insert_with(DataModel::default);
            model.l1d_misses += site.l1_misses + sum.l1_misses;
            model.lld_misses += site.ll_misses + sum.ll_misses;
            if let Some(all) = &mut row.allocated {
                all.blocks += site.blocks;
                all.bytes = all.bytes.saturating_add(site.bytes);
                all.smallest = all.smallest.min(site.smallest);
                all.largest = all.largest.max(site.largest);
            }
        }
        blocks
    }

    pub(super) fn rows(self) -> impl Iterator<Item = DataMemory> {
        self.rows.into_values()
    }
}

/// The blocks that were used in a line; none: it is no heap's.
pub(super) fn place(
    allocated: &Allocated,
    line: u64,
    place: &mut dyn FnMut(u64) -> AllocationSite,
) -> Option<DataPlace> {
    let blocks = allocated.heap.blocks_in(line);
    let symbols = blocks.iter().map(|&(site, block, size)| {
        let address = allocated.sites.get(site as usize).copied();
        let at = place(address.unwrap_or(0)).text();
        match (size, line.saturating_sub(block)) {
            (0, _) => format!("blocks allocated in {at}"),
            (_, 0) => format!("block of {size} bytes allocated in {at}"),
            (_, inside) => format!("block of {size} bytes allocated in {at} +{inside:#x}"),
        }
    });
    (!blocks.is_empty()).then(|| DataPlace {
        module: HEAP.to_owned(),
        symbols: symbols.collect(),
    })
}

impl AllocationSite {
    /// Function, and line where that is known: `parse (json.c:120)`.
    pub fn text(&self) -> String {
        match self.line {
            0 => format!(
                "{} ({}+{:#x})",
                self.function,
                base_name(&self.module),
                self.offset
            ),
            line => format!("{} ({}:{line})", self.function, base_name(&self.file)),
        }
    }

    /// What its blocks are: `48-byte blocks allocated in parse (json.c:120)`.
    pub fn blocks_text(&self) -> String {
        let size = match (self.smallest, self.largest) {
            (one, other) if one == other => format!("{one}"),
            (one, other) => format!("{one}- to {other}"),
        };
        let blocks = if self.blocks == 1 { "block" } else { "blocks" };
        format!("{size}-byte {blocks} allocated in {}", self.text())
    }
}
