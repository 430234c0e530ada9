//! Which instructions random code is made of.

use iced_x86::{CpuidFeature, Mnemonic};

/// What most CPUs of the last years have, AVX-512 where this one has it.
pub fn common(feature: CpuidFeature) -> bool {
    use CpuidFeature as F;
    match feature {
        F::INTEL8086
        | F::INTEL186
        | F::INTEL286
        | F::INTEL386
        | F::INTEL486
        | F::X64
        | F::CMOV
        | F::CX8
        | F::CMPXCHG16B
        | F::FPU
        | F::FPU287
        | F::FPU387
        | F::MMX
        | F::SSE
        | F::SSE2
        | F::SSE3
        | F::SSSE3
        | F::SSE4_1
        | F::SSE4_2
        | F::AVX
        | F::AVX2
        | F::FMA
        | F::F16C
        | F::BMI1
        | F::BMI2
        | F::LZCNT
        | F::POPCNT
        | F::MOVBE
        | F::ADX
        | F::AES
        | F::PCLMULQDQ
        | F::SHA
        | F::MULTIBYTENOP
        | F::PREFETCHW
        | F::CLFSH => true,
        F::AVX512F | F::AVX512BW | F::AVX512DQ | F::AVX512VL | F::AVX512CD => {
            is_x86_feature_detected!("avx512bw")
        }
        _ => false,
    }
}

/// Results that do not repeat, state that the engine documents as its own, or waiting.
pub fn forbidden(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        // Clocks, random numbers, the CPU's number.
        M::Rdtsc | M::Rdtscp | M::Rdrand | M::Rdseed | M::Rdpid | M::Rdpmc | M::Cpuid | M::Rdpru
        // Segments: GS belongs to the engine, FS to the process's own library.
        | M::Rdfsbase | M::Wrfsbase | M::Rdgsbase | M::Wrgsbase | M::Swapgs | M::Lfs | M::Lgs | M::Lss
        | M::Lsl | M::Lar | M::Verr | M::Verw | M::Sgdt | M::Sidt | M::Sldt | M::Str | M::Smsw
        // They store the address of the last x87 instruction, which is that of its copy.
        | M::Fnstenv | M::Fstenv | M::Fnsave | M::Fsave | M::Fldenv | M::Frstor
        | M::Fxsave | M::Fxsave64 | M::Fxrstor | M::Fxrstor64
        | M::Xsave | M::Xsave64 | M::Xsavec | M::Xsavec64 | M::Xsaveopt | M::Xsaveopt64
        | M::Xrstor | M::Xrstor64
        // Waiting.
        | M::Mwait | M::Mwaitx | M::Monitor | M::Monitorx | M::Umwait | M::Tpause | M::Umonitor
        // Protection keys and what needs more than registers.
        | M::Wrpkru | M::Enter | M::Leave | M::Enqcmd | M::Enqcmds
        // Popped flags come from `pushfq` only: no trap flag, no I/O privilege.
        | M::Popf | M::Popfd | M::Popfq
    )
}
