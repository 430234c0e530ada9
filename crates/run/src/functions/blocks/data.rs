//! Whose data lines of memory are: variables of programs and libraries, stacks, what else there is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

use truecount_elf::Elf;
use truecount_elf::data::{Variable, variables};
use truecount_engine::virt::Mapping;
use truecount_memory::{LINE, PAGE, Touched};
use truecount_sample::symbols::demangled;

use super::Names;
use super::heap::BySite;
use crate::references::{Allocated, AllocationSite, DataMemory, DataModel, DataPlace, HeapMemory};

/// Pages that the stack pointer led to.
const STACK: &str = "[stack]";
/// Whatever else is mapped: whose it is nobody noted.
const OTHER: &str = "[other]";

/// A file with code, and what it calls its data.
struct Known {
    path: String,
    elf: Elf,
    variables: Vec<Variable>,
}

/// Where a process image has one.
struct Object {
    /// From an address in the file's own terms to one in memory.
    bias: u64,
    known: Rc<Known>,
}

/// A variable in a line.
struct Found<'a> {
    variable: &'a Variable,
    /// Which byte of the line is its first one there.
    from: u64,
    /// How many of its own lie before the line.
    inside: u64,
}

/// The objects of every process image.
#[derive(Default)]
pub(super) struct Objects {
    images: HashMap<u32, Vec<Object>>,
    seen: HashSet<(u32, u64)>,
    files: HashMap<PathBuf, Option<Rc<Known>>>,
}

impl Objects {
    /// Code of an image is mapped here: so is its data, as far away as the file says.
    pub(super) fn see(&mut self, names: &mut Names, image: u32, mapping: &Mapping) {
        if !self.seen.insert((image, mapping.start)) {
            return;
        }
        let known = self.files.entry(mapping.path.clone()).or_insert_with(|| {
            let path = names.file_of(mapping)?;
            let file = File::open(&path).ok()?;
            Some(Rc::new(Known {
                elf: Elf::read(&file)?,
                variables: variables(&file),
                path,
            }))
        });
        let Some(known) = known else {
            return;
        };
        // The kernel maps whole pages: from before the segment's own beginning.
        let inside = |offset: u64, size: u64| {
            (offset / PAGE * PAGE..offset.saturating_add(size)).contains(&mapping.offset)
        };
        let mut segments = known.elf.segments.iter();
        let segment = segments.find(|one| one.executable && inside(one.offset, one.size));
        let Some(segment) = segment else {
            return;
        };
        let address = segment
            .address
            .wrapping_sub(segment.offset)
            .wrapping_add(mapping.offset);
        let bias = mapping.start.wrapping_sub(address);
        let objects = self.images.entry(image).or_default();
        if objects
            .iter()
            .all(|one| one.bias != bias || !Rc::ptr_eq(&one.known, known))
        {
            objects.push(Object {
                bias,
                known: Rc::clone(known),
            });
        }
    }

    /// The file whose data a line is, and its variables there.
    fn find(&self, image: u32, line: u64) -> Option<(&str, Vec<Found<'_>>)> {
        let of_segment = |object: &&Object| {
            let at = line.wrapping_sub(object.bias);
            let mut segments = object.known.elf.segments.iter();
            segments.any(|one| {
                let end = one.address.saturating_add(one.memory);
                at < end && at.saturating_add(LINE) > one.address
            })
        };
        let object = self.images.get(&image)?.iter().find(of_segment)?;
        let at = line.wrapping_sub(object.bias);
        let all = &object.known.variables;
        let behind = all.partition_point(|one| one.address < at.saturating_add(LINE));
        let (before, _) = all.split_at_checked(behind)?;
        // (Variables do not overlap, but for parts of others: of some before, one may reach far.)
        let mut found: Vec<Found<'_>> = before
            .iter()
            .rev()
            .take(64)
            .filter(|one| one.address.saturating_add(one.size) > at)
            .map(|variable| Found {
                variable,
                from: variable.address.saturating_sub(at),
                inside: at.saturating_sub(variable.address),
            })
            .collect();
        found.reverse();
        Some((&object.known.path, found))
    }

    /// Whose a line is: every variable that has a byte in it which was used (a bit each).
    pub(super) fn place(&self, image: u32, line: u64, used: u64, stack: bool) -> DataPlace {
        let (module, found) = self.find(image, line).unwrap_or_else(|| {
            let module = if stack { STACK } else { OTHER };
            (module, Vec::new())
        });
        let bytes = |count: u64| (1u128 << count.min(LINE)) - 1;
        let is_used = |found: &Found<'_>| {
            let end = found
                .from
                .saturating_add(found.variable.size - found.inside);
            u128::from(used) & bytes(end) & !bytes(found.from) != 0
        };
        let symbols = found.into_iter().filter(is_used).map(|found| {
            let (one, inside) = (found.variable, found.inside);
            let name = demangled(&one.name);
            match inside {
                0 => name,
                inside => format!("{name}+{inside:#x}"),
            }
        });
        DataPlace {
            module: module.to_owned(),
            symbols: symbols.collect(),
        }
    }
}

/// What was touched, by whose it is.
#[derive(Default)]
pub(super) struct ByData {
    all: BTreeMap<(String, String), DataMemory>,
    /// Blocks of heaps.
    heaps: BySite,
    /// Pages of stacks, by memory.
    stacks: HashSet<(u32, u64)>,
}

impl ByData {
    /// Adds a memory's lines, but for those of its heap, which `heaps` has.
    fn add_lines(
        &mut self,
        objects: &Objects,
        (memory, image): (u32, u32),
        touched: &Touched,
        heap: &HashMap<u64, u64>,
    ) {
        for page in touched.pages() {
            if page.stack {
                self.stacks.insert((memory, page.number));
            }
            let blocks = heap.get(&page.number).copied().unwrap_or(0);
            let lines = (0..PAGE / LINE).filter(|line| (page.read | page.written) >> line & 1 != 0);
            for number in lines {
                let line = page.number * PAGE + number * LINE;
                if blocks >> number & 1 != 0 {
                    continue;
                }
                let (module, symbol) = match objects.find(image, line) {
                    Some((module, found)) => {
                        let first = found.first().map(|found| found.variable.name.as_str());
                        (module, first.unwrap_or(""))
                    }
                    None if page.stack => (STACK, ""),
                    None => (OTHER, ""),
                };
                let key = (module.to_owned(), symbol.to_owned());
                let of = self.all.entry(key).or_insert_with_key(|(module, symbol)| {
                    let (module, symbol) = (module.clone(), demangled(symbol));
                    DataMemory {
                        module,
                        symbol,
                        ..DataMemory::default()
                    }
                });
                of.lines_touched += 1;
                of.lines_written += page.written >> number & 1;
                if let Some((first, last)) = page.misses.get(number as usize) {
                    let model = of.model.get_or_insert_with(DataModel::default);
                    model.l1d_misses += u64::from(*first);
                    model.lld_misses += u64::from(*last);
                }
            }
        }
    }

    /// Adds a memory: its lines, its heap; `place` tells where a call returns to.
    pub(super) fn add(
        &mut self,
        objects: &Objects,
        of: (u32, u32),
        (touched, allocated): (&Touched, &Allocated),
        place: &mut dyn FnMut(u64) -> AllocationSite,
    ) {
        let blocks = self.heaps.add(allocated, touched, place);
        self.add_lines(objects, of, touched, &blocks);
    }

    /// What is known of all heaps.
    pub(super) fn heap(&self) -> HeapMemory {
        self.heaps.all
    }

    pub(super) fn is_stack(&self, memory: u32, line: u64) -> bool {
        self.stacks.contains(&(memory, line / PAGE))
    }

    /// Those with the most misses, or the most lines, first.
    pub(super) fn finish(self, modelled: bool, most: usize) -> Vec<DataMemory> {
        let mut all: Vec<DataMemory> = self.all.into_values().collect();
        all.extend(self.heaps.rows());
        for of in &mut all {
            let model = of.model.take().unwrap_or_default();
            of.model = modelled.then_some(model);
        }
        all.sort_by_key(|of| {
            let model = of.model.clone().unwrap_or_default();
            let misses = 4 * model.l1d_misses + 30 * model.lld_misses;
            Reverse((misses, of.lines_touched))
        });
        all.truncate(most);
        all
    }
}
