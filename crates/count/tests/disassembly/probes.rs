//! Prints the machine code of the inlined reads, one line a probe: `name hex`. The test `disassembly` counts their
//! instructions in a release build; nothing else uses it.

use std::hint::black_box;
use truecount::{Counter, Cpuid, Difference, Fence, Serialize, Single, Unordered};

/// Bytes to print of a probe: more than any of them has.
const BYTES: usize = 160;

macro_rules! probes {
    ($($single:ident, $difference:ident, $policy:ty;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[inline(never)]
            extern "C" fn $single(counter: &Single<'_, $policy>) -> u64 {
                counter.read().raw()
            }

            #[unsafe(no_mangle)]
            #[inline(never)]
            extern "C" fn $difference(counter: &Difference<'_, $policy>) -> u64 {
                counter.read().raw()
            }
        )*

        fn main() {
            $(
                show(stringify!($single), $single as *const () as *const u8);
                show(stringify!($difference), $difference as *const () as *const u8);
                // Used, so that they are kept; called only where a PMU is.
                if let Ok(counter) = Counter::<$policy>::open("instructions:u") {
                    if let Some(single) = counter.single() {
                        black_box($single(&single));
                    }
                }
                if let Ok(counter) = Counter::<$policy>::open("instructions-minus-irqs:u") {
                    if let Some(difference) = counter.difference() {
                        black_box($difference(&difference));
                    }
                }
            )*
        }
    };
}

probes! {
    single_unordered, difference_unordered, Unordered;
    single_fence, difference_fence, Fence;
    single_serialize, difference_serialize, Serialize;
    single_cpuid, difference_cpuid, Cpuid;
}

fn show(name: &str, code: *const u8) {
    let bytes: String = (0..BYTES)
        .map(|i| {
            // SAFETY: the code of this program is readable, and more of it follows each probe (main, the runtime).
            let byte = unsafe { black_box(code).add(i).read_volatile() };
            format!("{byte:02x}")
        })
        .collect();
    println!("{name} {bytes}");
}
