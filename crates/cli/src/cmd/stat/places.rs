//! Counts told apart by CPU, core, socket or memory node, and events of control groups: perf's `-A`, `--per-core`,
//! `--per-socket`, `--per-node`, `-G` (perf-stat(1)).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::failure::Failure;
use truecount_perf::probe::Root;
use truecount_run::cgroup::Cgroup;
use truecount_run::request::RequestGroup;
use truecount_run::source::{Part, Target};
use truecount_system::Topology;

/// Options of `stat` that say where.
#[derive(clap::Args)]
pub(super) struct PlacesArgs {
    /// With -a or -C: the counts of each CPU by itself
    #[arg(short = 'A', long, conflicts_with_all = ["per_core", "per_socket", "per_node"])]
    no_aggr: bool,
    /// With -a or -C: the counts of each core, both of its threads together
    #[arg(long, conflicts_with_all = ["per_socket", "per_node"])]
    per_core: bool,
    /// With -a or -C: the counts of each socket
    #[arg(long, conflicts_with = "per_node")]
    per_socket: bool,
    /// With -a or -C: the counts of each memory node
    #[arg(long)]
    per_node: bool,
    /// With -a or -C: count only what runs in this control group, a path below its mount point; of several, separated by
    /// commas, the first is of the first event, the second of the second, an empty one of none
    #[arg(short = 'G', long, value_name = "GROUPS")]
    cgroup: Option<String>,
}

/// What stands beside counts: where they are from.
pub(super) struct Labels<'a> {
    pub(super) parts: &'a [Part],
    /// The control group of each reading; no entries without -G.
    pub(super) cgroups: Vec<String>,
}

impl<'a> Labels<'a> {
    pub(super) fn new(parts: &'a [Part], groups: &[RequestGroup]) -> Self {
        let members = || groups.iter().flat_map(|group| &group.members);
        let of = members().map(|wanted| match &wanted.cgroup {
            Some(cgroup) => cgroup.name.clone(),
            None => String::new(),
        });
        let used = members().any(|wanted| wanted.cgroup.is_some());
        Self {
            parts,
            cgroups: if used { of.collect() } else { Vec::new() },
        }
    }
}

/// Of a row: the time, the part and the control group, where these are asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct Label<'a> {
    pub(super) since: Option<Duration>,
    /// The name, and of how many CPUs.
    pub(super) part: Option<(&'a str, usize)>,
    pub(super) cgroup: Option<&'a str>,
}

/// What the rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Cpu,
    Core,
    Socket,
    Node,
}

impl PlacesArgs {
    fn by(&self) -> Option<(By, &'static str)> {
        [
            (self.no_aggr, By::Cpu, "--no-aggr"),
            (self.per_core, By::Core, "--per-core"),
            (self.per_socket, By::Socket, "--per-socket"),
            (self.per_node, By::Node, "--per-node"),
        ]
        .into_iter()
        .find_map(|(on, by, name)| on.then_some((by, name)))
    }

    /// The parts whose counts are told apart; none where that was not asked for.
    pub(super) fn parts(&self, target: Target) -> Result<Vec<Part>, Failure> {
        let Some((by, name)) = self.by() else {
            return Ok(Vec::new());
        };
        let only: Option<&[u32]> = match target {
            Target::Machine => None,
            Target::Cpus(cpus) => Some(cpus),
            _ => {
                let cause = format!("{name} tells CPUs apart, and a process is counted on all");
                return Err(Failure::new(2, cause).hint("add -a, or -C with a list of CPUs"));
            }
        };
        Ok(parts(&Topology::read(&Root::system()), by, only))
    }

    /// Says of each event in which control group it is counted.
    pub(super) fn set_cgroups(
        &self,
        groups: &mut [RequestGroup],
        target: Target,
    ) -> Result<(), Failure> {
        let Some(text) = &self.cgroup else {
            return Ok(());
        };
        if !matches!(target, Target::Machine | Target::Cpus(_)) {
            let cause = "--cgroup counts by CPU, and a process is counted on all";
            return Err(Failure::new(2, cause).hint("add -a, or -C with a list of CPUs"));
        }
        let names: Vec<&str> = text.split(',').collect();
        let mut opened: BTreeMap<&str, Arc<Cgroup>> = BTreeMap::new();
        for &name in names.iter().filter(|name| !name.is_empty()) {
            if !opened.contains_key(name) {
                opened.insert(name, Arc::new(Cgroup::open(name)?));
            }
        }
        if opened.is_empty() {
            return Err(
                Failure::new(2, format!("--cgroup: `{text}` names no group"))
                    .hint("/proc/PID/cgroup tells the group of a process"),
            );
        }
        let events: usize = groups.iter().map(|group| group.members.len()).sum();
        if names.len() > 1 && names.len() != events {
            let cause = format!("--cgroup names {} groups for {events} events", names.len());
            return Err(Failure::new(2, cause)
                .hint("give one group for all events, or one for each (empty: none)"));
        }
        let members = groups.iter_mut().flat_map(|group| &mut group.members);
        for (member, name) in members.zip(names.iter().cycle()) {
            member.cgroup = opened.get(name).cloned();
        }
        Ok(())
    }
}

/// The CPUs of each part, named as perf names them. Where the machine does not tell a CPU's core, it is one by itself.
fn parts(topology: &Topology, by: By, only: Option<&[u32]>) -> Vec<Part> {
    let mut found: BTreeMap<(u32, u32, u32), Part> = BTreeMap::new();
    let counted = |cpu: &u32| only.is_none_or(|only| only.contains(cpu));
    for (&cpu, place) in topology.cpus.iter().filter(|(cpu, _)| counted(cpu)) {
        let (socket, die) = (place.socket.unwrap_or(0), place.die.unwrap_or(0));
        let (key, name) = match by {
            By::Cpu => ((cpu, 0, 0), format!("CPU{cpu}")),
            By::Core => {
                let core = place.core.unwrap_or(cpu);
                ((socket, die, core), format!("S{socket}-D{die}-C{core}"))
            }
            By::Socket => ((socket, 0, 0), format!("S{socket}")),
            By::Node => {
                let node = place.node.unwrap_or(0);
                ((node, 0, 0), format!("N{node}"))
            }
        };
        let cpus = Vec::new();
        let part = found.entry(key).or_insert(Part { name, cpus });
        part.cpus.push(cpu);
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_system::topology::Place;

    fn two_sockets() -> Topology {
        let cpus = (0..8u32).map(|cpu| {
            let place = Place {
                socket: Some(cpu / 4),
                die: None,
                core: Some(cpu % 4 / 2),
                node: Some(cpu / 4),
            };
            (cpu, place)
        });
        Topology {
            cpus: cpus.collect(),
        }
    }

    fn shown(by: By, only: Option<&[u32]>) -> Vec<(String, Vec<u32>)> {
        let parts = parts(&two_sockets(), by, only);
        parts.into_iter().map(|p| (p.name, p.cpus)).collect()
    }

    #[test]
    fn cpus_are_grouped_as_perf_groups_them() {
        let named = |name: &str, cpus: &[u32]| (name.to_owned(), cpus.to_vec());
        assert_eq!(
            shown(By::Core, None),
            [
                named("S0-D0-C0", &[0, 1]),
                named("S0-D0-C1", &[2, 3]),
                named("S1-D0-C0", &[4, 5]),
                named("S1-D0-C1", &[6, 7]),
            ]
        );
        assert_eq!(
            shown(By::Socket, Some(&[1, 2, 7])),
            [named("S0", &[1, 2]), named("S1", &[7])]
        );
        assert_eq!(shown(By::Cpu, Some(&[5])), [named("CPU5", &[5])]);
        assert_eq!(shown(By::Node, None).len(), 2);
    }
}
