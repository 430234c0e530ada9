//! What a model came to.

use super::super::costs::Costs;
use super::super::{
    InstructionTranslations, Level, Model, Predicted, Prefetched, SecondLevel, Translations,
};
use super::Gathering;
use truecount_memory::{BesideMisses, Prefetch};

impl Gathering {
    /// With these costs in all; `None`: there is no model.
    pub(super) fn model(&self, costs: &Costs) -> Option<Model> {
        let machine = self.wanted.model?;
        let level = |references, l1_misses, ll_misses| Level {
            references,
            l1_misses,
            ll_misses,
        };
        let predicted = |branches, mispredicted| Predicted {
            branches,
            mispredicted,
        };
        let mut beside = BesideMisses::default();
        for table in self.tables.iter().filter(|table| !table.dropped) {
            beside.add_since(&BesideMisses::default(), &table.beside);
        }
        Some(Model {
            source: "model",
            cpu: self.wanted.cpu,
            rules: "Cachegrind's",
            i1: machine.i1.to_string(),
            d1: machine.d1.to_string(),
            ll: machine.ll.to_string(),
            l2: self.wanted.beside.l2.map(|l2| SecondLevel {
                geometry: l2.to_string(),
                instruction_misses: beside.l2_instructions,
                data_misses: beside.l2_data,
            }),
            tlb: self.wanted.beside.tlb.map(|tlb| Translations {
                geometry: tlb.to_string(),
                data_misses: beside.tlb,
            }),
            itlb: self.wanted.beside.itlb.map(|itlb| InstructionTranslations {
                geometry: itlb.to_string(),
                instruction_misses: beside.itlb,
            }),
            prefetch: match self.wanted.beside.prefetch {
                Prefetch::None => None,
                prefetch => Some(Prefetched {
                    prefetcher: prefetch.to_string(),
                    lines: beside.prefetched,
                    from_memory: beside.prefetched_memory,
                }),
            },
            predictor: self.wanted.beside.predictor.to_string(),
            instructions: level(costs.instructions, costs.fetch_l1, costs.fetch_ll),
            reads: level(costs.reads, costs.read_l1, costs.read_ll),
            writes: level(costs.writes, costs.write_l1, costs.write_ll),
            conditional: predicted(costs.conditional, costs.conditional_wrong),
            indirect: predicted(costs.indirect, costs.indirect_wrong),
            estimated_cycles: costs.estimated_cycles(),
        })
    }
}
