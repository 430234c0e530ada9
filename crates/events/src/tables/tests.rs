use super::*;
use crate::Vendor;

fn raw(model: &str, name: &str) -> Vec<u64> {
    let model = Tables::embedded().model(model).unwrap();
    model.find(name).iter().filter_map(|e| e.raw()).collect()
}

#[test]
fn what_the_issue_asks() {
    assert_eq!(raw("snb", "RESOURCE_STALLS.ANY"), [0x01a2]);
    assert_eq!(raw("skl", "HW_INTERRUPTS.RECEIVED"), [0x01cb]);
    assert_eq!(raw("skl", "MEM_LOAD_RETIRED.L1_HIT"), [0x01d1]);
    assert_eq!(raw("zen2", "ls_int_taken"), [0x002c]);
    assert_eq!(raw("icl", "MEM_LOAD_MISC_RETIRED.UC"), [0x04d4]);
    assert_eq!(raw("neoverse-n1", "INST_RETIRED"), [0x08]);
}

#[test]
fn the_table_is_whole() {
    let tables = Tables::embedded();
    assert!(
        tables.source().contains("linux-source-6.12"),
        "{}",
        tables.source()
    );
    assert!(tables.models().count() >= 60);
    for model in tables.models() {
        assert!(model.events().count() > 20, "{}", model.name());
        assert!(!model.cpus().is_empty(), "{}", model.name());
        for alias in model.aliases() {
            assert_eq!(tables.model(alias).unwrap().name(), model.name());
        }
    }
    let core = |m: Model<'static>| m.events().filter(|e| e.is_core()).count();
    let all: usize = Tables::embedded().models().map(core).sum();
    assert!(all > 19_000, "{all}");
}

/// What Linux 6.12 does not have: from Intel's perfmon, Arm's data, and the driver of Apple's PMU.
#[test]
fn newer_cpus_are_known() {
    let name = |vendor, family, model| {
        let cpu = Cpu {
            vendor,
            family,
            model,
            stepping: 1,
        };
        Tables::embedded().model_of(cpu).map(|m| m.name())
    };
    assert_eq!(name(Vendor::Intel, 6, 0xc6), Some("arrowlake"));
    assert_eq!(name(Vendor::Intel, 6, 0xcc), Some("pantherlake"));
    assert_eq!(name(Vendor::Arm(0x41), 8, 0xd84), Some("neoverse-v3"));
    assert_eq!(name(Vendor::Arm(0x41), 8, 0xd8e), Some("neoverse-n3"));
    assert_eq!(name(Vendor::Arm(0x61), 8, 0x023), Some("apple-firestorm"));
    assert_eq!(name(Vendor::Arm(0x61), 8, 0x022), Some("apple-icestorm"));
    assert_eq!(name(Vendor::Arm(0x61), 8, 0x033), Some("apple-avalanche"));
    assert_eq!(raw("apple-m1", "INST_ALL"), [0x8c]);
    assert_eq!(raw("neoverse-v3", "L1I_LFB_HIT_RD"), [0x8240]);
    assert_eq!(raw("neoverse-n3", "INST_RETIRED"), [0x08]);
    // Both kinds of core; a mask of 16 bits; load latency, which means nothing without PEBS.
    assert_eq!(raw("arl", "INST_RETIRED.ANY").len(), 2);
    assert!(raw("ptl", "DTLB_LOAD_MISSES.STLB_HIT").contains(&0x0300_0000_2012));
    let latency = Tables::embedded().model("arl").unwrap();
    let latency = latency.find("MEM_TRANS_RETIRED.LOAD_LATENCY_GT_128");
    assert!(
        latency
            .iter()
            .all(|e| e.precise == Precise::Must && e.config1() == 0x80)
    );
}

#[test]
fn encodings() {
    let one = |model: &str, name: &str| {
        let found = Tables::embedded().model(model).unwrap().find(name);
        assert_eq!(found.len(), 1, "{model} {name}");
        found[0].clone()
    };
    let slots = one("icl", "TOPDOWN.SLOTS");
    assert_eq!(slots.raw(), Some(0x0400));
    let latency = one("skl", "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_128");
    assert_eq!((latency.raw(), latency.config1()), (Some(0x01cd), 0x80));
    assert_eq!(latency.precise, Precise::Must);
    assert_eq!(latency.perf(), "cpu/event=0xcd,umask=0x1,ldlat=0x80/pp");
    let front = one("skl", "FRONTEND_RETIRED.DSB_MISS");
    assert_eq!((front.raw(), front.config1()), (Some(0x01c6), 0x11));
    let offcore = one("spr", "OCR.DEMAND_DATA_RD.L3_MISS");
    assert!(offcore.config1() != 0 && offcore.raw_name().is_none());
    let zero = one("skl", "IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE");
    assert_eq!(zero.raw(), Some(0x0400_019c));
    // AMD: bits 8 to 11 of the code go to 32 to 35.
    let dispatch = one("zen4", "de_no_dispatch_per_slot.no_ops_from_frontend");
    assert_eq!(dispatch.raw(), Some(0x1_0000_01a0));
    assert_eq!(dispatch.perf(), "cpu/event=0x1a0,umask=0x1/");
}

#[test]
fn umask2_goes_to_bits_40_to_47() {
    let event = TableEvent {
        pmu: "cpu_core".to_owned(),
        code: 0xd1,
        umask: 0x1_01,
        ..TableEvent::default()
    };
    assert_eq!(event.raw(), Some(0x0100_0000_01d1));
}

#[test]
fn hybrids_have_both_kinds_of_core() {
    let found = Tables::embedded()
        .model("adl")
        .unwrap()
        .find("INST_RETIRED.ANY");
    let mut pmus: Vec<_> = found.iter().map(|e| e.pmu.as_str()).collect();
    pmus.sort_unstable();
    assert_eq!(pmus, ["cpu_atom", "cpu_core"]);
}

#[test]
fn cpus_are_recognised() {
    let name = |vendor, family, model, stepping| {
        let cpu = Cpu {
            vendor,
            family,
            model,
            stepping,
        };
        Tables::embedded().model_of(cpu).map(|m| m.name())
    };
    assert_eq!(name(Vendor::Intel, 6, 0x5e, 3), Some("skylake"));
    assert_eq!(name(Vendor::Intel, 6, 0x55, 4), Some("skylakex"));
    assert_eq!(name(Vendor::Intel, 6, 0x55, 7), Some("cascadelakex"));
    assert_eq!(name(Vendor::Intel, 6, 0x2a, 7), Some("sandybridge"));
    assert_eq!(name(Vendor::Amd, 0x17, 0x01, 1), Some("amdzen1"));
    assert_eq!(name(Vendor::Amd, 0x17, 0x31, 0), Some("amdzen2"));
    assert_eq!(name(Vendor::Amd, 0x19, 0x21, 0), Some("amdzen3"));
    assert_eq!(name(Vendor::Amd, 0x19, 0x11, 0), Some("amdzen4"));
    assert_eq!(name(Vendor::Amd, 0x1a, 0x02, 1), Some("amdzen5"));
    assert_eq!(name(Vendor::Arm(0x41), 8, 0xd0c, 1), Some("neoverse-n1"));
    assert_eq!(name(Vendor::Arm(0x41), 8, 0xd4f, 1), Some("neoverse-n2-v2"));
    assert_eq!(name(Vendor::Intel, 5, 1, 1), None);
}

#[test]
fn what_a_cpu_lacks_is_said() {
    let skylake = Tables::embedded().model("skl").unwrap();
    let elsewhere = skylake.elsewhere("TOPDOWN.SLOTS");
    assert!(elsewhere.models.contains(&"icelake".to_owned()));
    let elsewhere = skylake.elsewhere("MEM_LOAD_RETIRED.L1_HITT");
    assert!(elsewhere.models.is_empty());
    assert_eq!(elsewhere.near[0], "MEM_LOAD_RETIRED.L1_HIT");
}

#[test]
fn units() {
    let scaled = |scale: &str| TableEvent {
        scale: scale.to_owned(),
        ..TableEvent::default()
    };
    assert_eq!(scaled("64Bytes").scale_and_unit(), Some((64.0, "Bytes")));
    assert_eq!(
        scaled("9.765625e-4KB").scale_and_unit(),
        Some((9.765_625e-4, "KB"))
    );
    assert_eq!(scaled("100%").scale_and_unit(), Some((100.0, "%")));
    assert_eq!(scaled("").scale_and_unit(), None);
}

#[test]
fn damaged_files_are_errors() {
    let whole = include_bytes!("../../data/events.bin");
    assert!(Tables::decode(&[]).is_err());
    assert!(Tables::decode(whole.get(..1000).unwrap()).is_err());
    let plain = miniz_oxide::inflate::decompress_to_vec_zlib(whole).unwrap();
    let mut state = 1u64;
    for _ in 0..40 {
        let mut bytes = plain.clone();
        for _ in 0..3 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = usize::try_from(state >> 33).unwrap() % bytes.len();
            bytes[at] ^= u8::try_from(state >> 24 & 0xff).unwrap() | 1;
        }
        // Whatever it says, it neither panics nor takes long.
        let _ = Tables::decode(&miniz_oxide::deflate::compress_to_vec_zlib(&bytes, 1));
    }
}

#[test]
fn the_resolver_knows_the_events_of_the_cpu() {
    let machine = |family, model| {
        crate::tables::with_tables(crate::Machine::unknown().with_cpu(Cpu {
            vendor: if family == 6 {
                Vendor::Intel
            } else {
                Vendor::Amd
            },
            family,
            model,
            stepping: 0,
        }))
    };
    let skylake = machine(6, 0x5e);
    let resolved = crate::resolve("MEM_LOAD_RETIRED.L1_HIT:u", &skylake).unwrap();
    let event = resolved.events().next().unwrap();
    assert_eq!(event.name, "MEM_LOAD_RETIRED.L1_HIT:u");
    let encoding = event.encoding().unwrap();
    assert_eq!((encoding.config, encoding.user_only()), (0x01d1, true));
    // Near names of this CPU; CPUs that have what it lacks; a PMU that is not there.
    let error = |name: &str, machine| crate::resolve(name, machine).unwrap_err();
    let near = error("MEM_LOAD_RETIRED.L1_HITT", &skylake);
    assert_eq!(near.near[0], "MEM_LOAD_RETIRED.L1_HIT");
    let text = error("TOPDOWN.SLOTS", &skylake).to_string();
    assert!(
        text.contains("this CPU has no event") && text.contains("icelake"),
        "{text}"
    );
    let zen = machine(0x1a, 2);
    let text = error("MEM_LOAD_RETIRED.L1_HIT", &zen).to_string();
    assert!(text.contains("skylake"), "{text}");
    let server = machine(6, 0x55);
    let text = error("UNC_CHA_CLOCKTICKS", &server).to_string();
    assert!(text.contains("PMU uncore_cha"), "{text}");
    // A CPU that no table knows.
    let unknown = machine(6, 1);
    let text = error("MEM_LOAD_RETIRED.L1_HIT", &unknown).to_string();
    assert!(text.contains("skylake"), "{text}");
}
