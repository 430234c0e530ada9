//! Intel's perfmon directory as it is laid out on its site (`mapfile.csv`, `SKL/events/*.json` with `Header` and
//! `Events`), with rows written for these tests; and files that are not what they should be.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;

use truecount_events::tables::{ModelCatalogue, Precise, Tables};
use truecount_events::{Catalogue, Cpu, Machine, Vendor, resolve};

const MAPFILE: &str = "\
Family-model,Version,Filename,EventType,Core Type,Native Model ID,Core Role Name
GenuineIntel-6-4E,V59,/SKL/events/skylake_core.json,core,,,
GenuineIntel-6-5E,V59,/SKL/events/skylake_core.json,core,,,
GenuineIntel-6-4E,V59,/SKL/events/skylake_uncore.json,uncore,,,
GenuineIntel-6-97,V1.25,/ADL/events/alderlake_goldencove_core.json,hybridcore,0x40,0x000001,Core
GenuineIntel-6-97,V1.25,/ADL/events/alderlake_gracemont_core.json,hybridcore,0x20,0x000001,Atom
GenuineIntel-6-4E,V59,/SKL/metrics/skylake_metrics.json,metrics,,,
";

fn core_file(events: &str) -> String {
    format!(
        r#"{{"Header":{{"Copyright":"none","Info":"test","DatePublished":"today","Version":"1"}},"Events":[{events}]}}"#
    )
}

/// Fields as perfmon writes them: strings, also for numbers.
fn event(name: &str, code: &str, umask: &str, more: &str) -> String {
    format!(
        r#"{{"EventCode":"{code}","UMask":"{umask}","EventName":"{name}","BriefDescription":"x","Counter":"0,1,2,3","PEBS":"0","CounterMask":"0","Invert":"0","AnyThread":"0","EdgeDetect":"0","MSRIndex":"0","MSRValue":"0","Deprecated":"0"{more}}}"#
    )
}

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn perfmon() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "mapfile.csv", MAPFILE);
    let rows = [
        event("BR_MISP_RETIRED.ALL_BRANCHES", "0xC5", "0x00", ""),
        // JSON with a key twice: the last one counts, as in every reader of these files.
        event(
            "IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE",
            "0x9C",
            "0x01",
            r#","CounterMask":"4""#,
        ),
        event(
            "UOPS_ISSUED.STALL_CYCLES",
            "0x0E",
            "0x01",
            r#","CounterMask":"1","Invert":"1""#,
        ),
        event(
            "OFFCORE_RESPONSE.DEMAND_DATA_RD.L3_MISS.ANY_SNOOP",
            "0xB7, 0xBB",
            "0x01",
            r#","MSRIndex":"0x1a6,0x1a7","MSRValue":"0x3FFFC00001","Offcore":"1""#,
        ),
        event(
            "FRONTEND_RETIRED.DSB_MISS",
            "0xC6",
            "0x01",
            r#","MSRIndex":"0x3F7","MSRValue":"0x11","PEBS":"2""#,
        ),
        event("INST_RETIRED.ANY", "0x00", "0x01", ""),
    ];
    write(
        dir.path(),
        "SKL/events/skylake_core.json",
        &core_file(&rows.join(",")),
    );
    write(
        dir.path(),
        "ADL/events/alderlake_goldencove_core.json",
        &core_file(&event("TOPDOWN.SLOTS_P", "0xa4", "0x01", "")),
    );
    write(
        dir.path(),
        "ADL/events/alderlake_gracemont_core.json",
        &core_file(&event("TOPDOWN_RETIRING.ALL", "0xc2", "0x00", "")),
    );
    dir
}

#[test]
fn perfmon_is_read() {
    let dir = perfmon();
    let tables = Tables::from_dir(dir.path()).unwrap();
    let skylake = tables.model("skylake").unwrap();
    assert_eq!(skylake.version(), "V59");
    assert_eq!(
        skylake.cpus(),
        ["GenuineIntel-6-4E", "GenuineIntel-6-5E"],
        "one list, two CPUs"
    );
    let perf = |name: &str| skylake.find(name)[0].perf();
    assert_eq!(perf("br_misp_retired.all_branches"), "cpu/event=0xc5/");
    assert_eq!(
        perf("IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE"),
        "cpu/event=0x9c,umask=0x1,cmask=4/"
    );
    assert_eq!(
        perf("UOPS_ISSUED.STALL_CYCLES"),
        "cpu/event=0xe,umask=0x1,cmask=1,inv=1/"
    );
    assert_eq!(
        perf("OFFCORE_RESPONSE.DEMAND_DATA_RD.L3_MISS.ANY_SNOOP"),
        "cpu/event=0xb7,umask=0x1,offcore_rsp=0x3fffc00001/"
    );
    let pebs = skylake.find("FRONTEND_RETIRED.DSB_MISS")[0];
    assert_eq!(pebs.precise, Precise::Must);
    assert!(pebs.terms().contains("frontend=0x11"), "{}", pebs.terms());
    // A fixed counter's event by its programmable encoding.
    assert_eq!(perf("INST_RETIRED.ANY"), "cpu/event=0xc0/");
    // Uncore lists and metrics are no core lists: the files need not even be there.
    assert!(
        skylake
            .events()
            .all(truecount_events::tables::TableEvent::is_core)
    );
    let hybrid = tables.model("alderlake").unwrap();
    assert_eq!(hybrid.find("TOPDOWN.SLOTS_P")[0].pmu, "cpu_core");
    assert_eq!(hybrid.find("TOPDOWN_RETIRING.ALL")[0].pmu, "cpu_atom");
}

#[test]
fn the_resolver_takes_a_users_directory() {
    let dir = perfmon();
    let tables = Arc::new(Tables::from_dir(dir.path()).unwrap());
    let cpu = Cpu {
        vendor: Vendor::Intel,
        family: 6,
        model: 0x5e,
        stepping: 3,
    };
    let model = tables.model_of(cpu).unwrap().name().to_owned();
    let catalogue = ModelCatalogue::of(tables, &model).unwrap();
    assert_eq!(catalogue.names(None).len(), 6);
    let machine = Machine::unknown().with_cpu(cpu).with_catalogue(catalogue);
    let resolved = resolve("UOPS_ISSUED.STALL_CYCLES:u", &machine).unwrap();
    let encoding = resolved.events().next().unwrap().encoding().unwrap();
    assert_eq!(encoding.config, 0x0180_010e);
    // What must be precise is, for whoever samples it; a level that the user wrote stands.
    let precise = |text: &str| {
        let resolved = resolve(text, &machine).unwrap();
        let encoding = resolved.events().next().unwrap().encoding().unwrap();
        (encoding.max_precise, encoding.precise_ip)
    };
    assert_eq!(precise("FRONTEND_RETIRED.DSB_MISS:u"), (true, 0));
    assert_eq!(precise("FRONTEND_RETIRED.DSB_MISS:pp"), (false, 2));
    assert_eq!(precise("UOPS_ISSUED.STALL_CYCLES:u"), (false, 0));
    let error = resolve("TOPDOWN.SLOTS_P", &machine).unwrap_err();
    assert!(error.to_string().contains("alderlake"), "{error}");
}

#[test]
fn what_is_wrong_is_named_with_its_file() {
    let fails = |files: &[(&str, &str)], part: &str| {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            write(dir.path(), name, text);
        }
        let error = Tables::from_dir(dir.path()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    fails(&[], "neither a mapfile.csv");
    fails(&[("mapfile.csv", MAPFILE)], "skylake_core.json: not found");
    fails(&[("a.json", "[{")], "a.json");
    fails(&[("a.json", "[]")], "nor any event");
    fails(
        &[("a.json", r#"[{"EventName":"A","EventCode":"0xzz"}]"#)],
        "is not a number",
    );
    fails(&[("a.json", &"[".repeat(100_000))], "a.json");
    let missing = Tables::from_dir(Path::new("/nonexistent")).unwrap_err();
    assert!(missing.to_string().contains("/nonexistent"), "{missing}");
    // Values of unexpected kinds are ignored, not trusted.
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        "a.json",
        r#"[{"EventName":"A","EventCode":[1],"UMask":{"x":1},"PEBS":true},7,null]"#,
    );
    let tables = Tables::from_dir(dir.path()).unwrap();
    assert_eq!(tables.distinct().len(), 1);
}
